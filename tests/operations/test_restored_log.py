"""A log that is lost, and an earlier copy in its place: what docs/operations.md says comes of it, by the source."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.capture import Capture
from tests.operations.test_lag import slot_of
from tests.warm_process import run_to_its_end
from tests.workload.tables import Database, create_tables
from tidemark.demo.processes import TIDEMARK
from tidemark.protocol.changelog import ChangeLog
from tidemark.runtime.upkeep.log_check import LogCheck
from tidemark.testing.deadline import wait_until

pytestmark = pytest.mark.slow


def restored(database: Database, folder: Path) -> Capture:
    """A capture with the copy. What it captured later is in no log any more."""
    create_tables(database, 20)
    capture = Capture(folder, database, slot_of(database))
    capture.catch_up()
    copy = folder / "backup.log"
    assert run_to_its_end([*TIDEMARK, "log", "copy", str(capture.file), str(copy)]).returncode == 0
    with database.connect() as connection, connection.cursor() as cursor:
        cursor.execute("UPDATE accounts SET name = 'another'")
    capture.catch_up()
    assert capture.differences() == []
    shutil.rmtree(capture.log)
    lost = capture.run("capture", "--until-caught-up")
    assert lost.status == 1 and "TM-LOG-013" in lost.said, lost.said
    assert run_to_its_end([*TIDEMARK, "log", "copy", str(copy), str(capture.log)]).returncode == 0
    return capture


def test_postgres_has_dropped_what_was_captured_and_its_tables_are_read_again(database: Any, tmp_path: Path) -> None:
    capture = restored(database, tmp_path)
    refused = capture.run("capture", "--until-caught-up")
    assert refused.status == 1 and "TM-PG-015" in refused.said, refused.said
    capture.config["on_lost_position"] = "backfill"
    capture.write()
    before = capture.snapshot_rows()
    capture.catch_up()
    assert capture.differences() == [] and capture.snapshot_rows() > before


@pytest.mark.parametrize("product", ["mariadb", "mysql"])
@pytest.mark.drawn(1)
def test_a_binary_log_still_has_it(product: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    capture = restored(request.getfixturevalue(f"{product}_database"), tmp_path)
    before = capture.snapshot_rows()
    capture.catch_up()
    assert capture.differences() == [] and capture.snapshot_rows() == before


def test_a_capture_that_runs_ends_and_resumes_from_the_copy(mariadb_database: Any, tmp_path: Path) -> None:
    create_tables(mariadb_database, 20)
    capture = Capture(tmp_path, mariadb_database)
    capture.catch_up()
    copy = tmp_path / "backup.log"
    shutil.copytree(capture.log, copy)
    with capture.start() as running, mariadb_database.connect() as connection, connection.cursor() as cursor:
        cursor.execute("UPDATE accounts SET name = 'another'")
        wait_until(lambda: capture.differences() == [], 60, "the log has it")
        capture.log.rename(tmp_path / "lost.log")
        copy.rename(capture.log)
        cursor.execute("UPDATE accounts SET name = 'a third'")
        assert wait_until(lambda: not running.running, 60, "it ends")
    assert "a copy from before it is in its place" in capture.output.read_text()
    capture.catch_up()
    assert capture.differences() == []
    assert list(LogCheck(ChangeLog(capture.log)).damages()) == []
