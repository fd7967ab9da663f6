"""A log belongs to the capture that waits to write it; what an edit of the capture file costs is told before."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from tests.end_to_end.capture import Capture
from tests.operations.status import is_caught_up, report, status
from tests.operations.test_lag import slot_of
from tests.operations.test_log import read_only
from tests.workload.tables import create_tables
from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.postgres import Database


def figures(capture: Capture, table: str) -> dict[str, Any]:
    """What the capture says of a table; empty if that is not captured."""
    found: dict[str, Any] = ((report(capture).get("progress") or {}).get("tables") or {}).get(table, {})
    return found


def test_a_capture_that_waits_to_retry_keeps_the_log(database: Database, tmp_path: Path) -> None:
    create_tables(database, 20)
    capture = Capture(tmp_path, database, slot_of(database))
    with capture.start() as running:
        wait_until(lambda: is_caught_up(capture), 60, "it is caught up")
        with read_only(capture.log / "commits"):
            with database.connect() as connection:
                connection.execute("UPDATE accounts SET name = name || '.'")
            wait_until(lambda: "opening it again in" in capture.output.read_text(), 30, "a commit has failed")
            wait_until(lambda: report(capture)["state"] == "waiting for the log", 5, "it is told")
            told = status(capture)
            assert "needs you: waiting for the log" in told.text
            assert told.report["retained"]["as_of"] and "ago; unknown since then" in told.text
            second = capture.run("capture", "--until-caught-up")
            assert (second.status, "TM-LOG-006" in second.said) == (1, True), second.said
            assert f"process {running.pid} writes" in second.said
            assert running.running
        wait_until(lambda: not capture.differences(), 60, "it goes on")
        wait_until(lambda: status(capture).exit_status == (0, 0), 60, "all is well again")


def test_a_log_that_has_disappeared_names_the_file_to_remove(database: Database, tmp_path: Path) -> None:
    create_tables(database, 20)
    capture = Capture(tmp_path, database, slot_of(database))
    record = str(tmp_path / ".capture.yaml.log")
    with capture.start() as running:
        wait_until(lambda: is_caught_up(capture), 60, "it is caught up")
        shutil.rmtree(capture.log)
        with database.connect() as connection:
            connection.execute("UPDATE accounts SET name = name || '.'")
        wait_until(lambda: not running.running, 60, "it ends")
    ended = capture.output.read_text()
    again, told = capture.run("capture"), status(capture)
    for said in (ended, again.said, told.text):
        assert "TM-LOG-013" in said and record in said
    assert (again.status, told.exit_status) == (1, (1, 1))


def test_what_a_table_costs_that_is_taken_out_is_told_before(database: Database, tmp_path: Path) -> None:
    create_tables(database, 20)
    both = ["public.accounts", "public.entries"]
    capture = Capture(tmp_path, database, {**slot_of(database), "backfill": {"chunk_rows": 5}}, tables=both)
    with capture.start():
        wait_until(lambda: is_caught_up(capture), 60, "it is caught up")
        with capture.start("verify", "--share", "0.1%", "--table", both[1]) as verification:
            wait_until(lambda: figures(capture, both[1]).get("verified_rows"), 60, "a part of it is verified")
            capture.tables = both[:1]
            capture.write()
            wait_until(lambda: "no longer captured: public.entries" in capture.output.read_text(), 30, "it is told")
            wait_until(lambda: not figures(capture, both[1]), 30, "it is no longer captured")
            wait_until(lambda: not verification.running, 30, "the verification ends, too")
        assert f"{both[1]}: not compared: it is captured no more" in capture.output.read_text()
    capture.tables = both
    capture.write()
    checked = capture.run("check")
    assert checked.status == 0
    assert "warn  public.entries was captured before, and then not: it is emptied and read again" in checked.said


def test_a_capture_that_is_renamed(database: Database, tmp_path: Path) -> None:
    create_tables(database, 20)
    capture = Capture(tmp_path, database, slot_of(database))
    capture.catch_up()
    capture.entries = {"capture": "renamed"}
    capture.write()
    for command in ("capture", "check"):
        ended = capture.run(command)
        assert ended.status == 1 and "TM-LOG-005" in ended.said
        assert "If the capture was renamed, give it its old name back" in ended.said
    told = status(capture)
    assert told.exit_status == (1, 1) and "log TM-LOG-005: " in told.text and "no capture has run" not in told.text
