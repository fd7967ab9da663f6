"""Fixtures that every room's tests share: PostgreSQL and MariaDB servers, and fresh databases on them."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

import pytest

from tests.servers import mariadb as mariadb_servers
from tests.servers.mariadb import MariaDb
from tests.servers.postgres import Database, Postgres, Source, fresh_database, no_source, running, sources

_numbers = itertools.count()


def pytest_report_header() -> list[str]:
    found = sources()
    others = f"; oldest for any_postgres: {found[-1]}" if len(found) > 1 else ""
    return [
        f"postgres: {found[0]}{others}" if found else f"postgres: {no_source()}",
        f"mariadb: {mariadb_servers.source() or mariadb_servers.no_source()}",
    ]


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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """In a run over several processes, one of them has the only Spark, and one counts the engine's containers."""
    for item in items:
        for mark in ("spark", "docker"):
            if item.get_closest_marker(mark):
                item.add_marker(pytest.mark.xdist_group(mark))


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
    """A running MariaDB (or MySQL) with a binlog of full rows."""
    found = mariadb_servers.source()
    if found is None:
        pytest.skip(mariadb_servers.no_source())
    with mariadb_servers.running(found) as server:
        yield server


@pytest.fixture
def mariadb_database(mariadb: MariaDb) -> Iterator[mariadb_servers.Database]:
    """A fresh database on ``mariadb``."""
    with mariadb_servers.fresh_database(mariadb, f"tidemark_test_{os.getpid()}_{next(_numbers)}") as fresh:
        yield fresh


@pytest.fixture(params=["postgres", "mariadb"])
def each_database(request: pytest.FixtureRequest) -> Database | mariadb_servers.Database:
    """A fresh database of each kind: on ``postgres``, then on ``mariadb``."""
    fixture = {"postgres": "database", "mariadb": "mariadb_database"}[request.param]
    fresh: Database | mariadb_servers.Database = request.getfixturevalue(fixture)
    return fresh
