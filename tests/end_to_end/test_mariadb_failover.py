"""A capture moves to another server by GTID: in the middle of its backfill, without losing or repeating anything."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.capture import Capture
from tests.workload.source import TABLES
from tests.workload.tables import create_tables
from tests.workload.writers import Workload
from tidemark.demo.measurements import captured_twice
from tidemark.testing.deadline import wait_until
from tidemark.testing.missing import lacks
from tidemark.testing.servers.mariadb import MARIADB, Database
from tidemark.testing.servers.mariadb_server import MariaDbServer, installed_programs

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        installed_programs() is None, reason=lacks("no MariaDB that tests start by themselves", MARIADB.remedy)
    ),
]

ROWS = 5_000

CHUNK_ROWS = 50
NAME = "shop"


@dataclass
class Pair:
    """Two servers, the second a replica of the first."""

    primary: MariaDbServer
    replica: MariaDbServer

    def replicated(self) -> bool:
        return bool(value(self.replica, "SELECT @@gtid_slave_pos") == value(self.primary, "SELECT @@gtid_binlog_pos"))

    def promote(self) -> None:
        """The primary is killed, the replica takes its place."""
        self.primary.kill()
        execute(self.replica, "STOP SLAVE", "RESET SLAVE ALL")


def execute(server: MariaDbServer, *statements: str) -> None:
    with closing(server.connect()) as connection, closing(connection.cursor()) as cursor:
        for statement in statements:
            cursor.execute(statement)


def value(server: MariaDbServer, query: str) -> Any:
    with closing(server.connect()) as connection, closing(connection.cursor()) as cursor:
        cursor.execute(query)
        row = cursor.fetchone()
    return row[0] if row else None


def database_on(server: MariaDbServer) -> Database:
    version = value(server, "SELECT @@version")
    return Database(server.host, server.port, server.user, server.password, version, server, NAME)


@pytest.fixture
def pair() -> Iterator[Pair]:
    programs = installed_programs()
    assert programs is not None
    with MariaDbServer(programs) as primary, MariaDbServer(programs, server_id=2) as replica:
        # The accounts are each server's own: only what is written from here on is replicated.
        execute(primary, f"CREATE DATABASE {NAME} CHARACTER SET utf8mb4")
        replica.replicate(primary)
        yield Pair(primary, replica)


@pytest.mark.drawn(2, of="two servers")
def test_the_replica_takes_over_in_the_middle_of_the_backfill(pair: Pair, tmp_path: Path) -> None:
    before = database_on(pair.primary)
    create_tables(before, ROWS)
    capture = Capture(tmp_path, before, {"backfill": {"chunk_rows": CHUNK_ROWS, "max_rate": "5000 rows"}})
    with Workload(before, seed=8, keys=ROWS, rate=100) as workload:
        with capture.start() as running:
            wait_until(lambda: capture.snapshot_rows() > ROWS / 5, 60, "the backfill is under way")
            assert running.running
        workload.stop()
    assert capture.snapshot_rows() < 3 * ROWS * 0.9, "the backfill was over before the failover"
    # The binlogs of the two differ in their files and positions.
    execute(pair.replica, "FLUSH BINARY LOGS")
    wait_until(pair.replicated, 60, "the replica has everything")
    pair.promote()

    capture.database = after = database_on(pair.replica)
    capture.write()
    with Workload(after, seed=9, keys=ROWS, rate=100) as workload:
        with capture.start():
            wait_until(lambda: capture.snapshot_rows() > 3 * ROWS * 0.8, 120, "the backfill goes on")
        workload.stop()
    capture.catch_up()
    assert capture.differences() == []
    for table, key in TABLES.items():
        # A range that is cut while a chunk of it is read repeats a part of that chunk, failover or not.
        assert captured_twice(capture.log, key, f"{NAME}/{table}") <= CHUNK_ROWS


def test_a_server_that_lacks_transactions_is_refused(pair: Pair, tmp_path: Path) -> None:
    before = database_on(pair.primary)
    create_tables(before, 100)
    capture = Capture(tmp_path, before)
    wait_until(pair.replicated, 60, "the replica has everything")
    execute(pair.replica, "STOP SLAVE")
    execute(pair.primary, f"DELETE FROM {NAME}.accounts WHERE id < 10")
    capture.catch_up()

    capture.database = database_on(pair.replica)
    capture.write()
    ended = capture.run("capture", "--until-caught-up")
    assert ended.status == 1
    assert "TM-MY-016" in ended.said

    execute(pair.replica, "START SLAVE")
    wait_until(pair.replicated, 60, "the replica has everything")
    capture.catch_up()
    assert capture.differences() == []
