"""The demo's measurements: what is told of a change log, and of the WAL that a slot keeps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidemark.demo.measurements import LogProgress, RetainedWal, captured_twice
from tidemark.protocol.changelog import Commit, LogHeader, Segment
from tidemark.protocol.changelog.layout import COMMITS, HEADER, commit_name, segment_path
from tidemark.protocol.changelog.models import META_COLUMNS
from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.postgres import Database

NOW = datetime(2024, 1, 1, tzinfo=UTC)


def begin_log(root: Path) -> None:
    (root / COMMITS).mkdir(parents=True)
    (root / HEADER).write_text(LogHeader(log_id="0", capture="test", created=NOW).model_dump_json())


def add_commit(
    root: Path, number: int, first: int, snapshot: list[int], changes: list[int], delay: float | None = None
) -> None:
    path = segment_path("public/parts", number, 1, 0)
    rows: list[dict[str, Any]] = [
        {**dict.fromkeys(META_COLUMNS), "id": key, "_offset": first + place, "_snapshot": place < len(snapshot)}
        for place, key in enumerate([*snapshot, *changes])
    ]
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), root / path)
    segment = Segment(
        collection="public/parts",
        path=path,
        rows=len(rows),
        size=(root / path).stat().st_size,
        uncompressed=100,
        first_offset=first,
        last_offset=first + len(rows) - 1,
        first_commit_ts=None if delay is None else NOW - timedelta(seconds=delay),
        last_commit_ts=None if delay is None else NOW,
        fingerprint="0",
        snapshot_rows=len(snapshot),
    )
    commit = Commit(
        number=number, epoch=1, time=NOW, first_offset=first, next_offset=first + len(rows), segments=[segment]
    )
    (root / COMMITS / commit_name(number)).write_text(commit.model_dump_json())


def test_progress_follows_a_log_from_before_it_exists(tmp_path: Path) -> None:
    progress = LogProgress(tmp_path / "log")
    assert progress.update().commits == 0
    begin_log(tmp_path / "log")
    add_commit(tmp_path / "log", 0, 0, [1, 2, 3], [])
    assert progress.update().snapshot_rows == {"public/parts": 3}
    assert progress.delays == []
    add_commit(tmp_path / "log", 1, 3, [4], [1, 1], delay=2.5)
    for _ in range(2):
        progress.update()
        assert progress.snapshot_rows == {"public/parts": 4}
        assert progress.changes == {"public/parts": 2}
        assert progress.delays == [timedelta(seconds=2.5)]
        assert progress.size == sum(path.stat().st_size for path in tmp_path.rglob("*.parquet"))


def test_rows_that_two_chunks_gave_count_as_captured_twice(tmp_path: Path) -> None:
    begin_log(tmp_path)
    add_commit(tmp_path, 0, 0, [1, 2, 3], [3])
    add_commit(tmp_path, 1, 4, [4, 5], [1])
    assert captured_twice(tmp_path, ["id"], "public/parts") == 0
    add_commit(tmp_path, 2, 7, [2, 5, 6], [])
    assert captured_twice(tmp_path, ["id"], "public/parts") == 2


def test_wal_that_a_slot_keeps_is_seen(database: Database) -> None:
    slot = f"{database.name}_kept"
    with database.connect() as connection, RetainedWal(database.dsn, slot, interval=0.01) as wal:
        connection.execute("CREATE TABLE filler (text text)")
        assert wal.samples == 0
        connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [slot])
        connection.execute("INSERT INTO filler SELECT repeat('x', 1000) FROM generate_series(1, 2000)")
        wait_until(lambda: wal.unconfirmed > 2_000_000, 30, "two megabytes are kept")
        assert wal.retained >= wal.unconfirmed
