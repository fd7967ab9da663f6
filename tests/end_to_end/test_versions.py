"""The whole way on the newest and the oldest PostgreSQL that can be had: backfill under load, then the log alone."""

from __future__ import annotations

from pathlib import Path

from tests.end_to_end.capture import Capture
from tests.workload.tables import create_tables
from tests.workload.writers import Workload
from tidemark.testing.servers.postgres import Database


def test_backfill_under_load_and_log_equal_the_source(any_database: Database, tmp_path: Path) -> None:
    create_tables(any_database, 5000)
    capture = Capture(tmp_path, any_database, {"backfill": {"chunk_rows": 200}})
    with Workload(any_database, seed=7, keys=5000, rate=200) as workload:
        capture.catch_up()
        workload.stop()
    capture.catch_up()
    assert capture.snapshot_rows() > 10_000
    assert capture.progress.changes.total() > 100
    assert capture.differences() == []
