"""The slot never waits for the backfill: the WAL it holds back stays small, however long the backfill takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.capture import SECONDS, Capture
from tests.workload.tables import create_tables
from tests.workload.writers import Workload
from tidemark.demo.measurements import RetainedWal
from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.postgres import Connection, Database

pytestmark = [pytest.mark.slow, pytest.mark.timeout(SECONDS * 4 + 900)]

ROWS = int(20_000 * SECONDS / 15)
"""Per table. With ``TIDEMARK_TEST_SECONDS=250`` the backfill has a million rows, as in the issue."""

LIMIT = 64 * 1024 * 1024
WRITTEN = LIMIT * 3 // 2
"""So much WAL is written while the backfill goes on that a slot which waited for it would be over the limit."""


def wal_end(connection: Connection) -> int:
    row = connection.execute("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')").fetchone()
    assert row is not None  # one row, always
    return int(row[0])


def unconfirmed(connection: Connection, slot: str) -> int:
    row = connection.execute(
        "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn) FROM pg_replication_slots"
        " WHERE slot_name = %s",
        [slot],
    ).fetchone()
    assert row is not None
    return int(row[0])


def test_the_slot_advances_through_a_backfill_under_load(database: Database, tmp_path: Path) -> None:
    slot = f"{database.name}_retention"
    config = {"slot": slot, "backfill": {"chunk_rows": 50}}
    capture = Capture(tmp_path, database, config, tables=["public.accounts", "public.entries", "public.labels"])
    with database.connect() as connection:
        create_tables(database, ROWS)
        connection.execute("CREATE TABLE not_captured (filler text)")
        with (
            RetainedWal(database.dsn, slot, interval=0.05) as wal,
            Workload(database, seed=5, keys=ROWS, rate=100) as workload,
            capture.start(),
        ):
            wait_until(lambda: capture.snapshot_rows() > 0, 60, "the backfill has begun")
            began, rows = wal_end(connection), capture.snapshot_rows()
            while wal_end(connection) - began < WRITTEN:
                connection.execute(
                    "INSERT INTO not_captured SELECT repeat(md5(n::text), 60) FROM generate_series(1, 2000) AS n"
                )
                connection.execute("UPDATE accounts SET name = name || '.' WHERE id % 50 = 0")
                # No faster than the capture on a busy machine: a slot that waits for the backfill never gets there.
                wait_until(lambda: unconfirmed(connection, slot) < LIMIT // 2, 60, "the slot advances meanwhile")
            still_going = capture.snapshot_rows() > rows
            in_the_middle = capture.snapshot_rows() < 3 * ROWS * 0.95
            wait_until(lambda: capture.snapshot_rows() > 3 * ROWS * 0.9, SECONDS * 4 + 120, "the backfill is over")
            workload.stop()
    capture.catch_up()
    assert still_going
    assert in_the_middle, "the backfill was over before enough WAL was written: this test saw nothing"
    assert wal.samples > 20
    assert wal.unconfirmed < LIMIT
    assert capture.differences() == []
