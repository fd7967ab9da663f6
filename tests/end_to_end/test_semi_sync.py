"""The race that the fence closes, on MariaDB: transactions that are in the binlog before any SELECT sees them.

With ``rpl_semi_sync_master_wait_point = AFTER_SYNC`` a commit waits between the binlog and the storage engine for a
replica to acknowledge it; here there is none. A backfill that goes on meanwhile reads the old rows, which must not win.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.capture import Capture, own_process
from tests.end_to_end.test_synchronous_standby import rows_read_after_the_commits
from tidemark.protocol.changelog import ChangeLog
from tidemark.testing.deadline import wait_until
from tidemark.testing.missing import lacks
from tidemark.testing.servers.mariadb import MARIADB, Database, MariaDb, fresh_database
from tidemark.testing.servers.mariadb_server import MariaDbServer, installed_programs

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        installed_programs() is None,
        reason=lacks("no MariaDB that tests start by themselves", MARIADB.remedy),
    ),
]

ROWS = 8_000

WITHOUT_HIDDEN_SET = """
import runpy
from tidemark.captures.mysql.chunks.fence import PositionFence
PositionFence.hides = lambda self, txn: False
runpy.run_module("tidemark.connectors.mysql", run_name="__main__")
"""


@pytest.fixture
def own_database() -> Iterator[Database]:
    programs = installed_programs()
    assert programs is not None
    with MariaDbServer(programs) as server:
        mariadb = MariaDb(server.host, server.port, server.user, server.password, "MariaDB", server)
        with fresh_database(mariadb, "shop") as database:
            yield database


def changes() -> Iterator[str]:
    """Of one transaction, all over the table: in the part that was read, at the scan's place, in the part to come."""
    for key in range(25, ROWS, 125):
        yield f"UPDATE items SET note = 'updated', n = n + 1 WHERE id = {key}"
        yield f"DELETE FROM items WHERE id = {key + 20}"
        yield f"UPDATE items SET id = {key + 40 + ROWS}, note = 'moved away' WHERE id = {key + 40}"
        yield f"INSERT INTO items VALUES ({-key}, 0, 'new')"
        yield f"UPDATE items SET note = 'twice' WHERE id BETWEEN {key + 60} AND {key + 70}"
        yield f"UPDATE items SET n = 0 WHERE id = {key + 60}"


def commit(database: Database) -> None:
    with closing(database.connect(autocommit=False)) as connection, closing(connection.cursor()) as cursor:
        for statement in changes():
            cursor.execute(statement)
        connection.commit()


@contextmanager
def replica_that_never_answers(cursor: Any) -> Iterator[None]:
    cursor.execute("SET GLOBAL rpl_semi_sync_master_wait_point = AFTER_SYNC")
    cursor.execute("SET GLOBAL rpl_semi_sync_master_timeout = 600000")
    cursor.execute("SET GLOBAL rpl_semi_sync_master_enabled = ON")
    try:
        yield
    finally:
        cursor.execute("SET GLOBAL rpl_semi_sync_master_enabled = OFF")


def backfill_with_a_waiting_commit(database: Database, capture: Capture) -> list[str]:
    """Lets a commit wait in the middle of the backfill, and releases it when that is over; the differences then."""

    def waiting() -> bool:
        cursor.execute("SELECT 1 FROM information_schema.processlist WHERE state LIKE 'Waiting for semi-sync ACK%'")
        return cursor.fetchone() is not None

    table = f"{database.name}.items"
    with (
        closing(database.connect()) as admin,
        closing(admin.cursor()) as cursor,
        ThreadPoolExecutor(1) as threads,
    ):
        cursor.execute("CREATE TABLE items (id bigint PRIMARY KEY, n int, note varchar(20))")
        cursor.executemany("INSERT INTO items VALUES (%s, %s, 'old')", [(n, n) for n in range(1, ROWS + 1)])
        with capture.start() as run:
            wait_until(lambda: capture.snapshot_rows() > 0, 60, "the backfill has begun", every=0.001)
            connector = wait_until(lambda: capture.connector_of(run), 60, "the connector runs", every=0.001)
            # Held still, so that the commit comes in the middle of the backfill, which has seconds left.
            os.kill(connector, signal.SIGSTOP)
            with replica_that_never_answers(cursor):
                hanging = threads.submit(commit, database)
                wait_until(waiting, 60, "the commit waits for a replica")
                os.kill(connector, signal.SIGCONT)
                wait_until(lambda: capture.progress.update().changes.total() > 0, 60, "the log has the commit")
                wait_until(lambda: capture.snapshot_rows() > ROWS * 0.8, 60, "the backfill went on")
                assert waiting()
            hanging.result(timeout=60)
        capture.catch_up()
    after = rows_read_after_the_commits(ChangeLog(capture.log), table.replace(".", "/"))
    assert after > ROWS / 3, "the backfill was over before the commit came"
    return capture.differences({table: ["id"]})


def capture_in(folder: Path, database: Database, connector: dict[str, Any]) -> Capture:
    config = {"backfill": {"chunk_rows": 100, "max_rate": "1000 rows"}}
    return Capture(folder, database, config, connector=connector, entries={"commit": {"interval": "20ms"}})


@pytest.mark.drawn(2, of="two servers")
def test_a_commit_that_waits_for_a_replica_is_not_undone(own_database: Database, tmp_path: Path) -> None:
    assert (
        backfill_with_a_waiting_commit(own_database, capture_in(tmp_path, own_database, own_process(own_database)))
        == []
    )


# It shows that the test before it can fail: in `make soak` alone.
@pytest.mark.drawn(0)
def test_without_the_hidden_set_it_would_be(own_database: Database, tmp_path: Path) -> None:
    """The test above sees the race: a connector that takes every transaction it read for visible loses it."""
    connector = {"command": ["python", "-c", WITHOUT_HIDDEN_SET, "tidemark.connectors.mysql"]}
    assert backfill_with_a_waiting_commit(own_database, capture_in(tmp_path, own_database, connector)) != []
