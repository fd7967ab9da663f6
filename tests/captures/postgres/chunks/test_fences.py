"""A chunk's fence against the server: what its snapshot shows was committed before ``high``, and the rest is hidden."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.captures.postgres.chunk_reads import opened
from tests.captures.postgres.column_chunks import logged
from tidemark.captures.postgres.chunks.column_reader import ColumnChunkReader
from tidemark.captures.postgres.chunks.reader import CopyChunkReader
from tidemark.captures.postgres.server.positions import parse_lsn
from tidemark.captures.postgres.tables.snapshots import SnapshotFence
from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.postgres import Connection, Database

SNAPSHOTS = 60
READERS = (CopyChunkReader, ColumnChunkReader)


def log_end(session: Connection) -> int:
    """Where the next record comes to lie."""
    row = session.execute("SELECT pg_current_wal_insert_lsn()").fetchone()
    assert row is not None
    return parse_lsn(row[0])


@pytest.mark.parametrize("kind", READERS)
def test_what_is_committed_while_a_chunk_waits_for_its_table_lies_before_its_fence(
    any_database: Database, kind: type[CopyChunkReader]
) -> None:
    """The position is taken after the snapshot. One from before the wait would let the chunk out ahead of the log."""
    table = ("CREATE TABLE t (v int PRIMARY KEY, n int)", "INSERT INTO t VALUES (1, 0)")
    waits = (
        "SELECT FROM pg_locks WHERE NOT granted AND relation = 't'::regclass"
        " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    )
    with (
        opened(any_database, *table, kind=kind) as chunks,
        any_database.connect(autocommit=False) as writer,
        ThreadPoolExecutor(1) as threads,
    ):
        writer.execute("LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
        reading = threads.submit(chunks.chunk)
        wait_until(lambda: chunks.session.execute(waits).fetchone() is not None, 20, "the chunk waits for the table")
        writer.execute("UPDATE t SET n = 1")
        before_the_commit = log_end(writer)
        writer.commit()
        chunk = reading.result(timeout=60)
        assert logged(chunks, chunk.rows)["n"] == ["1"]
        assert chunk.fence.high > before_the_commit


@pytest.mark.heavy
@pytest.mark.parametrize("kind", READERS)
def test_fences_hold_under_concurrent_commits(any_database: Database, kind: type[CopyChunkReader]) -> None:
    """Every row that a snapshot shows was committed before its high position, and no other one counts as visible."""
    stop = threading.Event()
    written: dict[int, tuple[int, int]] = {}

    def write(first: int) -> None:
        """Inserts rows, each in a transaction; notes its id, and a place in the log that lies before its commit."""
        with any_database.connect(autocommit=False) as writer:
            for key in range(first, 1_000_000, 2):
                if stop.is_set():
                    return
                row = writer.execute(
                    "INSERT INTO t VALUES (%s) RETURNING pg_current_xact_id()::text::bigint", [key]
                ).fetchone()
                assert row is not None
                written[key] = int(row[0]), log_end(writer)
                writer.commit()

    table = "CREATE TABLE t (v int PRIMARY KEY)"
    with opened(any_database, table, kind=kind) as chunks, ThreadPoolExecutor(2) as threads:
        writers = [threads.submit(write, first) for first in (0, 1)]
        found: list[tuple[SnapshotFence, set[int]]] = []
        try:
            while len(found) < SNAPSHOTS and not any(writer.done() for writer in writers):
                chunk = chunks.chunk(1_000_000)
                assert isinstance(chunk.fence, SnapshotFence)
                found.append((chunk.fence, {int(key) for key in chunk.rows.keys}))
        finally:
            stop.set()
        for each in writers:
            each.result()
    assert len(found) == SNAPSHOTS and len(found[-1][1]) > SNAPSHOTS
    for fence, seen in found:
        assert all(fence.high > written[key][1] for key in seen)
        assert {key for key, (xid, _) in written.items() if not fence.hides(xid % 2**32)} == seen
