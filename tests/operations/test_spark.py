"""How far Spark's tables are behind the log is part of the status."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.capture import Capture
from tests.operations.status import status
from tests.operations.test_lag import slot_of
from tests.servers.postgres import Database
from tests.workload.tables import create_tables

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.xdist_group("spark")]


def test_tables_that_are_kept_and_then_not(database: Database, tmp_path: Path) -> None:
    create_tables(database, 20)
    capture = Capture(tmp_path, database, slot_of(database), tables=["public.accounts", "public.entries"])
    capture.catch_up()
    ended = capture.materialize()
    assert ended.status == 0, ended.said
    told = status(capture)
    assert {name: one["behind_seconds"] for name, one in told.report["spark"].items()} == {
        "public.accounts current": 0,
        "public.entries current": 0,
    }
    with database.connect() as connection:
        connection.execute("UPDATE accounts SET name = name || '.'")
    capture.catch_up()
    told = status(capture)
    assert told.report["spark"]["public.accounts current"]["behind_seconds"] > 0
    assert told.report["spark"]["public.entries current"]["behind_seconds"] == 0
    assert "spark public.entries current: has all of the log" in told.text
    assert "behind the log" in told.text
