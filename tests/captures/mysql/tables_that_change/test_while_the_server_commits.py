"""A statement that is in the log, and so in the capture, before the catalog shows what it did.

MySQL writes a statement to its log before its catalog has it. A primary with semi-synchronous replication that waits
``AFTER_SYNC`` for a replica which never answers holds a statement exactly there. MariaDB's catalog has it before.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.captures.mysql.table_chunks import run
from tests.captures.session import Json, Session, bindings, session
from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.mariadb import MYSQL, Database, no_source
from tidemark.testing.servers.mysql_server import MySqlServer, installed_programs

COMMAND = [sys.executable, "-m", "tidemark.connectors.mysql"]


@pytest.fixture
def shop() -> Iterator[Database]:
    programs = installed_programs()
    if programs is None:
        pytest.skip(no_source(MYSQL))
    with MySqlServer(programs) as server:
        made = Database(server.host, server.port, server.user, server.password, server=server, name="shop")
        with made.connect("") as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE shop")
            cursor.execute("INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'")
            cursor.execute("SET GLOBAL rpl_semi_sync_source_wait_point = AFTER_SYNC")
            cursor.execute("SET GLOBAL rpl_semi_sync_source_timeout = 3600000")
        run(made, "CREATE TABLE t (id INT PRIMARY KEY, v DECIMAL(5, 2))", "INSERT INTO t VALUES (1, 1.5), (2, 2.5)")
        yield made


@contextmanager
def held(shop: Database, statement: str) -> Iterator[None]:
    """Inside, the statement is in the log and nowhere else."""
    run(shop, "SET GLOBAL rpl_semi_sync_source_enabled = ON")
    committing = threading.Thread(target=run, args=(shop, statement))
    committing.start()
    try:
        wait_until(lambda: _waits(shop), 20, "the statement waits for a replica")
        yield
    finally:
        run(shop, "SET GLOBAL rpl_semi_sync_source_enabled = OFF")
        committing.join()


def _waits(shop: Database) -> bool:
    with shop.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM information_schema.processlist WHERE state LIKE 'Waiting for semi-sync ACK%'")
        return cursor.fetchone() is not None


def asks_for_the_table(shop: Database) -> bool:
    with shop.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM information_schema.processlist WHERE state LIKE 'Waiting for table metadata%'")
        return cursor.fetchone() is not None


ALTERATIONS: list[tuple[str, list[Json]]] = [
    ("RENAME COLUMN v TO w", [{"id": 1, "w": "1.50"}, {"id": 2, "w": "2.50"}]),
    ("MODIFY v INT", [{"id": 1, "v": 2}, {"id": 2, "v": 3}]),
    ("ADD COLUMN w INT NOT NULL DEFAULT 7", [{"id": 1, "v": "1.50", "w": 7}, {"id": 2, "v": "2.50", "w": 7}]),
]


def rows(capture: Session) -> list[Json]:
    return [{name: row[name] for name in row if name != "_meta"} for _, row in sorted(capture.rows().items())]


@pytest.mark.parametrize(("alteration", "expected"), ALTERATIONS)
def test_while_it_is_captured(shop: Database, alteration: str, expected: list[Json]) -> None:
    with session(shop.config(), bindings("shop.t"), command=COMMAND) as capture:
        capture.until(Session.done)
        with held(shop, f"ALTER TABLE t {alteration}"):
            wait_until(lambda: asks_for_the_table(shop), 60, "the capture asks for the table")
        capture.until(lambda c: c.done() and rows(c) == expected)


@pytest.mark.drawn(1)
@pytest.mark.parametrize(("alteration", "expected"), ALTERATIONS)
def test_while_a_capture_opens(shop: Database, alteration: str, expected: list[Json]) -> None:
    with session(shop.config(), bindings("shop.t"), command=COMMAND) as capture:
        capture.until(Session.done)
    with held(shop, f"ALTER TABLE t {alteration}"):
        opening = session(shop.config(), bindings("shop.t"), capture.state, command=COMMAND)
        with opening as again:
            wait_until(lambda: asks_for_the_table(shop), 60, "the capture asks for the table")
            run(shop, "SET GLOBAL rpl_semi_sync_source_enabled = OFF")
            again.documents[:0] = capture.documents
            again.until(lambda c: c.done() and rows(c) == expected)
