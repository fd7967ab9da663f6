"""The race that the fence closes: transactions that are in the log before any SELECT sees them.

A synchronous standby that never answers leaves commits waiting: their WAL is flushed and decoded, their rows are not
visible. A backfill that goes on meanwhile reads the old rows, which must not win (shared design, backfill, test 2).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.end_to_end.capture import Capture, own_process
from tidemark.demo.processes import CONNECTOR
from tidemark.protocol.changelog import ChangeLog
from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.postgres import Connection, Postgres, not_startable, running, sources
from tidemark.testing.servers.waiting_commits import commits_wait, waiting

ROWS = 3000
TABLES = {"public.items": ["id"]}

WITHOUT_HIDDEN_SET = """
import runpy
from tidemark.captures.postgres.tables.snapshots import Snapshot
Snapshot.hides = lambda self, xid: False
runpy.run_module("tidemark.connectors.postgres", run_name="__main__")
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not sources() or sources()[0].binaries is None,
        reason=not_startable(),
    ),
]


@pytest.fixture
def own_postgres() -> Iterator[Postgres]:
    with running(sources()[0]) as server:
        yield server


def changes() -> Iterator[list[str]]:
    """Transactions all over the table: in the part that was read, at the scan's place, and in the part to come.

    One in each group leaves the big column as it is, so that the log does not carry it and the row is to be read again.
    They are few enough not to fill the list of such rows: while it is full, the backfill waits. And a server takes 100
    connections, those of the capture among them.
    """
    for key in range(25, ROWS, 150):
        yield [f"UPDATE items SET note = 'updated', n = n + 1 WHERE id = {key}"]
        yield [f"DELETE FROM items WHERE id = {key + 20}"]
        yield [f"UPDATE items SET id = {key + 40 + ROWS}, note = 'moved away', big = NULL WHERE id = {key + 40}"]
        yield [
            f"INSERT INTO items VALUES ({-key}, 0, 'new', NULL)",
            f"UPDATE items SET note = 'twice', big = 'small' WHERE id BETWEEN {key + 60} AND {key + 70}",
            f"UPDATE items SET n = 0 WHERE id = {key + 60}",
        ]


def commit(postgres: Postgres, statements: list[str]) -> None:
    with postgres.connect(autocommit=False) as connection:
        for statement in statements:
            connection.execute(statement)


def reading_chunks(admin: Connection) -> bool:
    found = admin.execute("SELECT 1 FROM pg_stat_activity WHERE query LIKE 'COPY %items%' AND pid <> pg_backend_pid()")
    return found.fetchone() is not None


def rows_read_after_the_commits(log: ChangeLog, collection: str) -> int:
    """Backfill rows that stand in the change log after the first of the waiting commits."""
    segments = log.segments(collection, 0, log.summary().next_offset)
    columns = ["_snapshot", "_offset"]
    events = pa.concat_tables(pq.read_table(log.root / segment.path, columns=columns) for segment in segments)
    first = pc.min(events.filter(pc.invert(events["_snapshot"]))["_offset"])
    return events.filter(pc.and_(events["_snapshot"], pc.greater(events["_offset"], first))).num_rows


def backfill_with_waiting_commits(postgres: Postgres, capture: Capture) -> list[str]:
    """Lets commits wait in the middle of the backfill, and releases them when it is over; the differences then."""
    transactions = list(changes())
    with postgres.connect() as admin, ThreadPoolExecutor(len(transactions)) as threads:
        admin.execute("CREATE TABLE items (id bigint PRIMARY KEY, n int, note text, big text)")
        admin.execute("ALTER TABLE items ALTER big SET STORAGE EXTERNAL")
        admin.execute(
            f"INSERT INTO items SELECT n, n, 'old', repeat(md5(n::text), 250) FROM generate_series(1, {ROWS}) AS n"
        )
        with capture.start() as run:
            wait_until(lambda: reading_chunks(admin), 60, "the backfill has begun", every=0.001)
            connector = wait_until(lambda: capture.connector_of(run), 60, "the connector runs", every=0.001)
            # Held still, so that the commits come in the middle of the backfill, which has seconds left.
            os.kill(connector, signal.SIGSTOP)
            with commits_wait(postgres):
                hanging = [threads.submit(commit, postgres, statements) for statements in transactions]
                wait_until(lambda: waiting(admin) == len(transactions), 60, "all commits wait for the standby")
                os.kill(connector, signal.SIGCONT)
                decoded = len(transactions)
                wait_until(lambda: capture.progress.update().changes.total() >= decoded, 60, "the log has the commits")
                wait_until(lambda: capture.snapshot_rows() > ROWS * 0.8, 60, "the backfill went on")
                assert waiting(admin) == len(transactions)
            for future in hanging:
                future.result(timeout=60)
        capture.catch_up()
    after = rows_read_after_the_commits(ChangeLog(capture.log), "public/items")
    assert after > ROWS / 3, "the backfill was over before the commits came"
    return capture.differences(TABLES)


def capture_in(folder: Path, postgres: Postgres, connector: dict[str, Any]) -> Capture:
    config = {"backfill": {"chunk_rows": 100, "max_rate": "500 rows"}}
    return Capture(folder, postgres, config, connector=connector, entries={"commit": {"interval": "20ms"}})


@pytest.mark.drawn(2, of="two servers")
def test_commits_that_wait_for_a_standby_are_not_undone(own_postgres: Postgres, tmp_path: Path) -> None:
    capture = capture_in(tmp_path, own_postgres, own_process(own_postgres))
    assert backfill_with_waiting_commits(own_postgres, capture) == []


# It shows that the test before it can fail: in `make soak` alone.
@pytest.mark.drawn(0)
def test_without_the_hidden_set_they_would_be(own_postgres: Postgres, tmp_path: Path) -> None:
    """The test above sees the race: a connector that takes every transaction it read for visible loses it."""
    connector = {"command": ["python", "-c", WITHOUT_HIDDEN_SET, CONNECTOR]}
    differences = backfill_with_waiting_commits(own_postgres, capture_in(tmp_path, own_postgres, connector))
    assert differences != []
