"""MariaDB and MySQL servers for tests: where they come from, and a fresh database on one.

Sources, the first that there is: the server that ``TIDEMARK_TEST_MARIADB`` or ``TIDEMARK_TEST_MYSQL``
(``mysql://user:password@host:port``, of an account with all privileges) names; the program that
``TIDEMARK_TEST_MARIADBD`` or ``TIDEMARK_TEST_MYSQLD`` names; a container, where a Docker engine has an image
``mariadb:…`` or ``mysql:…``; what is installed on this machine, or by ``.ci/mysql-server``.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any
from urllib.parse import unquote, urlsplit

import pymysql
from pymysql.connections import Connection

from tidemark.captures.mysql.server.wire import WireConnection
from tidemark.testing.deadline import wait_until
from tidemark.testing.missing import lacks
from tidemark.testing.servers import FAST, mariadb_server, mysql_server
from tidemark.testing.servers.mariadb_server import MariaDbServer
from tidemark.testing.servers.mysql_family import MySqlFamilyServer, Programs
from tidemark.testing.servers.mysql_server import MySqlServer


@dataclass(frozen=True)
class Product:
    """MariaDB or MySQL.

    Attributes:
        name: Of the product; in lower case, of its images.
        url: The environment variable that names a server.
        program: The environment variable that names the program of one.
        installed: Finds the programs.
        server: Starts them.
        remedy: The command that gets them.
    """

    name: str
    url: str
    program: str
    installed: Callable[[], Programs | None]
    server: type[MySqlFamilyServer]
    remedy: str


MARIADB = Product(
    "MariaDB",
    "TIDEMARK_TEST_MARIADB",
    mariadb_server.ENVIRONMENT,
    mariadb_server.installed_programs,
    MariaDbServer,
    "apt-get install mariadb-server",
)
MYSQL = Product(
    "MySQL",
    "TIDEMARK_TEST_MYSQL",
    mysql_server.ENVIRONMENT,
    mysql_server.installed_programs,
    MySqlServer,
    ".ci/mysql-server as root on Debian",
)


@dataclass(frozen=True)
class Source:
    """Where a server comes from: exactly one of ``url``, ``image``, ``programs``."""

    product: Product
    url: str = ""
    image: str = ""
    programs: Programs | None = None

    def __str__(self) -> str:
        if self.url:
            return f"the server that {self.product.url} names"
        if self.image:
            return f"container {self.image}"
        assert self.programs is not None
        return f"{self.product.name} {self.programs.version} from {self.programs.server}"


_TYPES_SINCE = {"INET6": (10, 5), "UUID": (10, 7), "INET4": (10, 10), "VECTOR": (11, 7)}
"""The first version of MariaDB with each of its own types; MySQL's VECTOR is written in another way."""


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
    server: MySqlFamilyServer | None = None

    @property
    def is_mysql(self) -> bool:
        return "MariaDB" not in self.version

    def has_type(self, sql: str) -> bool:
        """Whether the server has a type, ``UUID`` or ``VECTOR(3)``, of those that are MariaDB's own."""
        since = _TYPES_SINCE.get(sql.partition("(")[0].upper())
        if since is None:
            return not (self.is_mysql and sql.endswith("COMPRESSED"))
        return not self.is_mysql and tuple(map(int, self.version.split(".")[:2])) >= since

    def connect(self, database: str | None = None, *, autocommit: bool = True, **parameters: Any) -> Connection[Any]:
        """Connects; ``parameters`` are PyMySQL's (``init_command``, ``cursorclass``, …)."""
        account = {"host": self.host, "port": self.port, "user": self.user, "password": self.password}
        # MySQL makes itself a certificate, and a handshake takes longer than most of what the tests ask.
        plain = self.server is not None and not self.server.certified
        given = {
            **account,
            "database": database,
            "charset": "utf8mb4",
            "autocommit": autocommit,
            "ssl_disabled": plain,
            **parameters,
        }
        # Not PyMySQL's own, which reads the system's authorities first: 20 ms of a processor.
        return WireConnection(**given)

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
def source(product: Product = MARIADB) -> Source | None:
    """The server that can be had here; None when there is none, or none is wanted."""
    if FAST:
        return None
    if url := os.environ.get(product.url):
        return Source(product, url=url)
    image = "" if os.environ.get(product.program) else _local_image(product.name.lower())
    if image:
        return Source(product, image=image)
    programs = product.installed()
    return Source(product, programs=programs) if programs else None


def no_source(product: Product = MARIADB) -> str:
    """Why there is no server."""
    how = f"{product.remedy}, or docker pull {product.name.lower()}, or {product.url} or {product.program}"
    return lacks(f"no {product.name} server", how)


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
        with found.product.server(found.programs) as own:
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


def _local_image(repository: str) -> str:
    """The newest tag that a Docker engine holds of a repository; empty without one."""
    if not shutil.which("docker"):
        return ""
    answer = subprocess.run(
        ["docker", "image", "ls", "--format", "{{.Repository}}:{{.Tag}}", "--filter", f"reference={repository}"],
        capture_output=True,
        text=True,
        check=False,
    )
    tags = [line for line in answer.stdout.split() if not line.endswith("<none>")] if not answer.returncode else []
    return max(tags, key=_tag_version, default="")


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
