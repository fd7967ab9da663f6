"""Fixtures that every room's tests share: PostgreSQL, MariaDB and MySQL servers, and fresh databases on them."""

from __future__ import annotations

import gc
import itertools
import os
import shutil
import sys
from collections.abc import Iterator
from operator import itemgetter
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from hypothesis import settings

from tests.drawn import drawn
from tests.examples import PROFILE
from tests.fast import kept
from tests.spark_classes import java_options
from tidemark.protocol.environment import RUNTIME
from tidemark.testing import missing
from tidemark.testing import object_store as object_stores
from tidemark.testing.object_store import S3Server, s3_server
from tidemark.testing.servers import FAST
from tidemark.testing.servers import mariadb as mariadb_servers
from tidemark.testing.servers.mariadb import MARIADB, MYSQL, MariaDb
from tidemark.testing.servers.postgres import Database, Postgres, Source, fresh_database, no_source, running, sources
from tidemark.testing.servers.templates import folder_of

if TYPE_CHECKING:
    from tidemark.testing.spark_cluster import SparkCluster

_numbers = itertools.count()

os.environ.setdefault("SPARK_SUBMIT_OPTS", java_options())

settings.load_profile(PROFILE)

# The Makefile has the processes of tests keep their memory. What they start gives it back, as it does elsewhere.
if "PYTEST_XDIST_WORKER" in os.environ:
    for name in ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"):
        os.environ.pop(name, None)

# As our runtime starts a connector. Tests of others' runtimes take it away.
os.environ[RUNTIME] = "1"


def pytest_report_header() -> list[str]:
    found = sources()
    others = f"; oldest for any_postgres: {found[-1]}" if len(found) > 1 else ""
    return [
        f"postgres: {found[0]}{others}" if found else f"postgres: {no_source()}",
        *(
            f"{product.name.lower()}: {mariadb_servers.source(product) or mariadb_servers.no_source(product)}"
            for product in (MARIADB, MYSQL)
        ),
        f"object stores: {object_stores.sources()}",
    ]


def pytest_configure(config: pytest.Config) -> None:
    """Names the run where this process controls others that do the work."""
    if getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput"):
        config.option.testrunuid = config.option.testrunuid or uuid4().hex


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    lines = list(missing.summary(terminalreporter.getreports("skipped")))
    if lines:
        terminalreporter.section("skipped tests")
        for line in lines:
            terminalreporter.write_line(line)


def pytest_unconfigure(config: pytest.Config) -> None:
    """The processes of a run have ended: what they shared goes."""
    if getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput"):
        shutil.rmtree(folder_of(config.option.testrunuid), ignore_errors=True)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """``any_postgres`` runs a test on the newest and on the oldest server that can be had."""
    if "any_postgres" in metafunc.fixturenames:
        found = sources()
        metafunc.parametrize(
            "any_postgres",
            [found[0], found[-1]][: len(found)] or [None],
            ids=lambda source: f"pg{source.version or ''}" if isinstance(source, Source) else "none",
            indirect=True,
            scope="session",
        )


@pytest.hookimpl(tryfirst=True)  # xdist's own reads the groups.
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In a run over several processes, one of them has the Spark session, and one counts the engine's containers.

    What the tests of a module share is made in one process as well, and not in each.

    What takes long is begun early: at the end no process then waits for another.
    """
    servers = sum(mariadb_servers.source(product) is not None for product in (MARIADB, MYSQL))
    _leave_out(config, items, drawn(items, getattr(config.option, "randomly_seed", None), servers=servers))
    for item in items:
        for mark in _marks_of_folders(item):
            item.add_marker(mark)
        for shared in ("spark", "spark_cluster"):
            if shared in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.spark)
                item.add_marker(pytest.mark.xdist_group(shared))
        if item.get_closest_marker("docker"):
            item.add_marker(pytest.mark.xdist_group("docker"))
        if item.get_closest_marker("xdist_group") is None and _shares_with_its_module(item):
            item.add_marker(pytest.mark.xdist_group(item.location[0]))
    if FAST:
        _leave_out(config, items, kept(items))
    items[:] = _in_turn(items)


def _marks_of_folders(item: pytest.Item) -> Iterator[pytest.MarkDecorator]:
    """The ``pytestmark`` of each package that it is in: pytest itself looks for one in modules and classes alone."""
    package = getattr(getattr(item, "module", None), "__package__", "")
    while package:
        mark = getattr(sys.modules[package], "pytestmark", None)
        if mark is not None:
            yield mark
        package = package.rpartition(".")[0]


def _in_turn(items: list[pytest.Item]) -> list[pytest.Item]:
    """The order in which tests are begun: first what one process runs of several modules.

    What takes long follows among the rest, in its first half: much of it computes, and most of the rest waits.
    """
    first: list[pytest.Item] = []
    long: list[pytest.Item] = []
    rest: list[pytest.Item] = []
    for item in items:
        group = item.get_closest_marker("xdist_group")
        alone = group is None or item.location[0] in group.args
        (first if not alone else long if item.get_closest_marker("slow") else rest).append(item)
    places = [(at / len(long) / 2, item) for at, item in enumerate(long)]
    places += [(at / len(rest), item) for at, item in enumerate(rest)]
    return [*first, *(item for _, item in sorted(places, key=itemgetter(0)))]


def _leave_out(config: pytest.Config, items: list[pytest.Item], chosen: list[pytest.Item]) -> None:
    """Leaves out what is not chosen."""
    config.hook.pytest_deselected(items=list(set(items).difference(chosen)))
    items[:] = chosen


def _shares_with_its_module(item: pytest.Item) -> bool:
    """Whether it has a fixture that is made once for all tests of its module."""
    definitions: dict[str, list[pytest.FixtureDef[object]]] = getattr(item, "_fixtureinfo").name2fixturedefs  # noqa: B009
    return any(of[-1].scope == "module" for of in definitions.values())


def pytest_collection_finish() -> None:
    """Five thousand tests are alive until the end: no garbage collection is to look at them again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A server of S3's protocol."""
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A running PostgreSQL with ``wal_level = logical``; the newest that can be had."""
    found = sources()
    if not found:
        pytest.skip(no_source())
    with running(found[0]) as server:
        yield server


@pytest.fixture(scope="session")
def oldest_postgres() -> Iterator[Postgres]:
    """As ``postgres``, of the oldest version that can be had."""
    found = sources()
    if not found:
        pytest.skip(no_source())
    with running(found[-1]) as server:
        yield server


@pytest.fixture(scope="session")
def any_postgres(request: pytest.FixtureRequest) -> Postgres:
    """As ``postgres``, once for the newest and once for the oldest version."""
    if request.param is None:
        pytest.skip(no_source())
    server: Postgres = request.getfixturevalue("postgres" if request.param == sources()[0] else "oldest_postgres")
    return server


@pytest.fixture
def database(postgres: Postgres) -> Iterator[Database]:
    """A fresh database on ``postgres``."""
    with fresh_database(postgres, f"tidemark_test_{os.getpid()}_{next(_numbers)}") as fresh:
        yield fresh


@pytest.fixture
def oldest_database(oldest_postgres: Postgres) -> Iterator[Database]:
    """A fresh database on ``oldest_postgres``."""
    with fresh_database(oldest_postgres, f"tidemark_test_{os.getpid()}_{next(_numbers)}") as fresh:
        yield fresh


@pytest.fixture
def any_database(any_postgres: Postgres) -> Iterator[Database]:
    """A fresh database on ``any_postgres``."""
    with fresh_database(any_postgres, f"tidemark_test_{os.getpid()}_{next(_numbers)}") as fresh:
        yield fresh


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDb]:
    """A running MariaDB with a binlog of full rows."""
    yield from _binlog_server(MARIADB)


@pytest.fixture(scope="session")
def mysql() -> Iterator[MariaDb]:
    """A running MySQL with a binlog of full rows and GTIDs."""
    yield from _binlog_server(MYSQL)


def _binlog_server(product: mariadb_servers.Product) -> Iterator[MariaDb]:
    found = mariadb_servers.source(product)
    if found is None:
        pytest.skip(mariadb_servers.no_source(product))
    with mariadb_servers.running(found) as server:
        yield server


@pytest.fixture
def mariadb_database(mariadb: MariaDb) -> Iterator[mariadb_servers.Database]:
    """A fresh database on ``mariadb``."""
    with mariadb_servers.fresh_database(mariadb, f"tidemark_test_{os.getpid()}_{next(_numbers)}") as fresh:
        yield fresh


@pytest.fixture
def mysql_database(mysql: MariaDb) -> Iterator[mariadb_servers.Database]:
    """A fresh database on ``mysql``."""
    with mariadb_servers.fresh_database(mysql, f"tidemark_test_{os.getpid()}_{next(_numbers)}") as fresh:
        yield fresh


@pytest.fixture(params=["postgres", "mariadb", "mysql"])
def each_database(request: pytest.FixtureRequest) -> Database | mariadb_servers.Database:
    """A fresh database of each kind: on ``postgres``, on ``mariadb``, on ``mysql``."""
    fixture = {"postgres": "database", "mariadb": "mariadb_database", "mysql": "mysql_database"}[request.param]
    fresh: Database | mariadb_servers.Database = request.getfixturevalue(fixture)
    return fresh


@pytest.fixture(scope="session")
def spark_cluster() -> Iterator[SparkCluster]:
    """A standalone cluster of Spark with two workers of one core each."""
    from tidemark.testing.spark_cluster import SparkCluster

    with SparkCluster() as running:
        yield running
