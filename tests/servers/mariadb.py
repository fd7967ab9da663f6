"""MariaDB and MySQL servers for tests: where they come from, and a fresh database on one.

Sources, the first that there is: the server that ``TIDEMARK_TEST_MYSQL`` (``mysql://user:password@host:port``, of an
account with all privileges) names; a container, where a Docker engine has an image ``mariadb:…`` or ``mysql:…``; the
MariaDB that is installed on this machine.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any
from urllib.parse import unquote, urlsplit

import pymysql
from pymysql.connections import Connection

from tests.servers.deadline import wait_until
from tests.servers.mariadb_server import MariaDbServer, Programs, installed_programs

ENVIRONMENT = "TIDEMARK_TEST_MYSQL"


@dataclass(frozen=True)
class Source:
    """Where a server comes from: exactly one of ``url``, ``image``, ``programs``."""

    url: str = ""
    image: str = ""
    programs: Programs | None = None

    def __str__(self) -> str:
        if self.url:
            return f"the server that {ENVIRONMENT} names"
        if self.image:
            return f"container {self.image}"
        assert self.programs is not None
        return f"MariaDB {self.programs.version} from {self.programs.server}"


@dataclass(frozen=True)
class MariaDb:
    """A running server, seen by an account with all privileges.

    Attributes:
        host, port, user, password: How it is reached, over TCP.
        version: What the server calls itself: ``10.11.6-MariaDB``, ``8.4.2``.
        server: To stop, kill and restart it; None for one that is not ours.
    """

    host: str
    port: int
    user: str
    password: str
    version: str = ""
    server: MariaDbServer | None = None

    @property
    def is_mysql(self) -> bool:
        return "MariaDB" not in self.version

    def connect(self, database: str | None = None, *, autocommit: bool = True, **parameters: Any) -> Connection[Any]:
        """Connects; ``parameters`` are PyMySQL's (``init_command``, ``cursorclass``, …)."""
        account = {"host": self.host, "port": self.port, "user": self.user, "password": self.password}
        given = {**account, "database": database, "charset": "utf8mb4", "autocommit": autocommit, **parameters}
        return pymysql.connect(**given)

    def config(self) -> dict[str, Any]:
        """The endpoint configuration with which a connector reaches the server."""
        return {"host": self.host, "port": self.port, "user": self.user, "password": self.password}


@dataclass(frozen=True)
class Database(MariaDb):
    """One database (schema) of a server; ``connect()`` reaches it by default."""

    name: str = ""

    def connect(self, database: str | None = None, *, autocommit: bool = True, **parameters: Any) -> Connection[Any]:
        return super().connect(self.name if database is None else database, autocommit=autocommit, **parameters)


@cache
def source() -> Source | None:
    """The server that can be had here; None when there is none."""
    if given := os.environ.get(ENVIRONMENT):
        return Source(url=given)
    if image := _local_image():
        return Source(image=image)
    programs = installed_programs()
    return Source(programs=programs) if programs else None


def no_source() -> str:
    """Why there is no server."""
    return (
        f"no MariaDB: {ENVIRONMENT} is not set, no Docker engine with a mariadb or mysql image, no mariadbd and "
        "mariadb-install-db on this machine (Debian: mariadb-server)"
    )


@contextmanager
def running(found: Source) -> Iterator[MariaDb]:
    """Starts the source's server, or takes the one that runs already."""
    if found.url:
        parts = urlsplit(found.url)
        user, password = unquote(parts.username or "root"), unquote(parts.password or "")
        yield _introduced(MariaDb(parts.hostname or "localhost", parts.port or 3306, user, password))
    elif found.image:
        with _container(found.image) as server:
            yield _introduced(server)
    else:
        assert found.programs is not None
        with MariaDbServer(found.programs) as own:
            yield _introduced(MariaDb(own.host, own.port, own.user, own.password, server=own))


@contextmanager
def fresh_database(mariadb: MariaDb, name: str) -> Iterator[Database]:
    """A new database; dropped at the end, whoever still uses it."""
    with mariadb.connect() as admin, admin.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE `{name}` CHARACTER SET utf8mb4")
    try:
        yield Database(
            mariadb.host, mariadb.port, mariadb.user, mariadb.password, mariadb.version, mariadb.server, name
        )
    finally:
        with mariadb.connect() as admin:
            end_sessions(admin, "db = %s", [name])
            with admin.cursor() as cursor:
                cursor.execute(f"DROP DATABASE `{name}`")


def end_sessions(admin: Connection[Any], condition: str, values: list[Any]) -> None:
    """Ends the sessions of ``information_schema.processlist`` that meet a condition, and waits until they are gone."""

    def gone() -> bool:
        with admin.cursor() as cursor:
            cursor.execute(
                f"SELECT id FROM information_schema.processlist WHERE ({condition}) AND id <> connection_id()", values
            )
            found = [int(row[0]) for row in cursor.fetchall()]
            for session in found:
                try:
                    cursor.execute(f"KILL {session}")
                except pymysql.err.OperationalError as error:
                    if error.args[0] != pymysql.constants.ER.NO_SUCH_THREAD:
                        raise
        return not found

    wait_until(gone, 30, "the sessions are gone")


def _introduced(server: MariaDb) -> MariaDb:
    """The server with the version it says it has."""
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT @@version")  # the handshake's version of MariaDB has a prefix for old clients
        row = cursor.fetchone()
    assert row is not None  # one row, always
    return replace(server, version=str(row[0]))


def _local_image() -> str:
    """The newest tag of ``mariadb:…``, else of ``mysql:…``, that a Docker engine holds; empty without one."""
    if not shutil.which("docker"):
        return ""
    for repository in ("mariadb", "mysql"):
        answer = subprocess.run(
            ["docker", "image", "ls", "--format", "{{.Repository}}:{{.Tag}}", "--filter", f"reference={repository}"],
            capture_output=True,
            text=True,
            check=False,
        )
        tags = [line for line in answer.stdout.split() if not line.endswith("<none>")] if not answer.returncode else []
        if tags:
            return max(tags, key=_tag_version)
    return ""


def _tag_version(image: str) -> list[int]:
    found = re.match(r"\d+(\.\d+)*", image.rpartition(":")[2])
    return [int(part) for part in found[0].split(".")] if found else []


@contextmanager
def _container(image: str) -> Iterator[MariaDb]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # testcontainers moves its modules about
        from testcontainers.mysql import MySqlContainer
    options = "--log-bin=binlog --binlog-format=ROW --binlog-row-image=FULL --server-id=1"
    options += " --loose-binlog-row-metadata=FULL"  # MySQL 5.7 does not know it
    if image.startswith("mysql:"):
        options += " --gtid-mode=ON --enforce-gtid-consistency=ON"
    container = MySqlContainer(image, username="root", password="root", dbname="test")
    container.with_command(options)
    with container:
        yield MariaDb(container.get_container_host_ip(), int(container.get_exposed_port(3306)), "root", "root")
