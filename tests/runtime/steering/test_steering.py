"""Commands and edits of the capture file reach a capture that runs."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.runtime.capture_folder import OPENED, TABLE, CaptureFolder
from tests.warm_process import WarmProcess
from tidemark.runtime.progress.state_folder import CONTROL
from tidemark.runtime.progress.state_folder import STATUS as STATUS_FILE
from tidemark.runtime.progress.status_file import read_status
from tidemark.testing.deadline import wait_until

SECONDS = 60.0

ANNOUNCE = {"stderr": json.dumps({"level": "info", "message": "takes commands", "eventType": "control", "fields": {}})}
STATUS = {
    "stderr": json.dumps(
        {
            "level": "info",
            "message": "capturing",
            "eventType": "connectorStatus",
            "fields": {"tables": {"public.t": {"rows_done": 1}}, "position": "1"},
        }
    )
}
TIDEMARK = [sys.executable, "-m", "tidemark.runtime"]
END = {"await_eof": 0}
ROW = {"rows": {"first": 1, "count": 1}}


def row(number: int, binding: int = 0) -> dict[str, object]:
    return {"rows": {"first": number, "count": 1, "binding": binding}}


@contextmanager
def capturing(folder: CaptureFolder) -> Iterator[None]:
    """``tidemark capture`` beside the test; interrupted at the end."""
    with folder.start("capture", str(folder.file)) as process:
        try:
            yield
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)


def test_an_order_reaches_a_running_connector_and_its_command_says_so(folder: CaptureFolder) -> None:
    folder.script(
        [OPENED, ANNOUNCE, STATUS, ROW, {"checkpoint": {"cursor": 1}}, {"await_commands": 1}, {"await_eof": 0}]
    )
    with capturing(folder):
        wait_until(lambda: folder.is_begun and (folder.state_path / STATUS_FILE).exists(), SECONDS, "a commit")
        paused = folder.run("pause", str(folder.file), "--table", "public.t", "--json")
    assert paused.returncode == 0, paused.stderr
    assert json.loads(paused.stdout) == {"sequence": 1, "done": True, "action": "pause", "tables": ["public.t"]}
    commands = folder.requests("control")
    assert [(one["sequence"], one["action"], one["tables"]) for one in commands] == [(1, "pause", ["public.t"])]
    # The committed state says that it was handled, so its file is gone.
    assert folder.log.summary().state == {"cursor": 1, "control": 1}
    wait_until(lambda: not list((folder.state_path / CONTROL).iterdir()), SECONDS, "the command is forgotten")


def test_a_command_that_the_connector_refuses_has_failed(folder: CaptureFolder) -> None:
    said = "command 1 (backfill) was refused: the source refuses the condition"
    fields = {"code": "TM-CAP-004", "sequence": 1}
    refusal = {"stderr": json.dumps({"level": "warning", "message": said, "fields": fields})}
    folder.script([OPENED, ANNOUNCE, STATUS, ROW, {"checkpoint": {"cursor": 1}}, {"await_commands": 1}, refusal, END])
    with capturing(folder):
        wait_until(lambda: folder.is_begun and (folder.state_path / STATUS_FILE).exists(), SECONDS, "a commit")
        refused = folder.run("backfill", str(folder.file), "--table", "public.t", "--where", "id >")
        status = folder.run("status", str(folder.file))
    assert refused.returncode == 2
    assert f"TM-CAP-004: {said}" in refused.stderr
    assert f"failed: {said}" in status.stdout


def test_an_order_for_a_table_that_is_not_captured_is_refused(folder: CaptureFolder) -> None:
    folder.script([OPENED, STATUS, ROW, {"checkpoint": {"cursor": 1}}, {"await_eof": 0}])
    with capturing(folder):
        wait_until(lambda: "public.t" in ((read_status(folder.state) or {}).get("tables") or {}), SECONDS, "a table")
        refused = folder.run("backfill", str(folder.file), "--table", "public.tt")
    assert refused.returncode == 2
    assert "TM-CFG-004" in refused.stderr
    assert "did you mean public.t?" in refused.stderr


@pytest.mark.parametrize("rows", [("--where", "id > 5"), ("--from", "5"), ("--until", "5")])
def test_rows_of_several_tables_cannot_be_chosen_at_once(folder: CaptureFolder, rows: tuple[str, str]) -> None:
    refused = folder.run("backfill", str(folder.file), "-t", "public.t", "-t", "public.u", *rows)
    assert refused.returncode == 2
    assert "TM-CFG-007" in refused.stderr


@pytest.mark.parametrize("rows", [("--where", "id > 5"), ("--from", "5"), ("--until", "5")])
def test_a_table_is_not_emptied_for_some_of_its_rows(folder: CaptureFolder, rows: tuple[str, str]) -> None:
    refused = folder.run("backfill", str(folder.file), "-t", "public.t", "--truncate", *rows)
    assert refused.returncode == 2
    assert "TM-CFG-007: --truncate is for all rows of a table" in refused.stderr


def test_a_command_that_was_given_while_nothing_ran_is_sent_when_the_capture_starts(folder: CaptureFolder) -> None:
    folder.script(
        [OPENED, ROW, {"checkpoint": {"cursor": 1}}, {"await": 1}],
        [OPENED, ANNOUNCE, {"await_commands": 3}, {"await": 1}],
    )
    assert folder.run("capture", str(folder.file), "--until-caught-up").returncode == 0
    some, whole = ["--from", "3", "--until", "5,x"], ["--truncate"]
    for arguments in (["pause"], ["backfill", "-t", "public.t", *some], ["backfill", "-t", "public.t", *whole]):
        noted = folder.run(arguments[0], str(folder.file), *arguments[1:])
        assert "stored" in noted.stdout, noted.stderr
    rubbish = folder.state_path / CONTROL / f"{2:020d}.json"
    command = rubbish.read_bytes()
    rubbish.write_bytes(b"")  # As a full disk may leave it.
    said = folder.run("status", str(folder.file))
    assert f"warning  TM-LOG-002: {rubbish} is not a command: it is not a valid command; it is not" in said.stdout
    status = json.loads(folder.run("status", str(folder.file), "--json").stdout)
    assert [command["sequence"] for command in status["commands"]] == [1, 3]
    (folder.state_path / CONTROL / f"{4:020d}.json").write_bytes(command.replace(b'"sequence":2', b'"sequence":4'))
    captured = folder.run("capture", str(folder.file), "--until-caught-up")
    assert captured.returncode == 0
    assert f"{rubbish} is not a command" in captured.stderr and rubbish.with_suffix(".bad").exists()
    pause, again, backfill = folder.requests("control")
    assert (pause["action"], pause.get("tables", [])) == ("pause", [])
    assert (backfill["from"], backfill["until"], backfill["tables"]) == (["3"], ["5", "x"], ["public.t"])
    assert (again["truncate"], again["tables"]) == (True, ["public.t"])
    assert folder.log.summary().state["control"] == 4


def test_a_connector_that_takes_no_commands_is_sent_none(folder: CaptureFolder) -> None:
    folder.script([OPENED, ROW, {"checkpoint": {"cursor": 1}}, {"await_eof": 0}])
    with capturing(folder):
        wait_until(lambda: folder.is_begun, SECONDS, "a commit")
        with WarmProcess([*TIDEMARK, "pause", str(folder.file)], os.environ, folder.path) as process:
            try:
                wait_until(lambda: "TM-RUN-016" in folder.stderr, SECONDS, "a warning")
            finally:
                process.kill()
    assert folder.requests("control") == []


@pytest.mark.parametrize(
    ("announces", "why"),
    [([], "this connector accepts none while it runs"), ([ANNOUNCE], "this connector does not know verify")],
)
def test_a_verification_that_a_connector_does_not_know_ends(
    folder: CaptureFolder, announces: list[dict[str, object]], why: str
) -> None:
    folder.script([OPENED, *announces, STATUS, ROW, {"checkpoint": {"cursor": 1}}, {"await_commands": 1}, END])
    with capturing(folder):
        wait_until(lambda: "public.t" in ((read_status(folder.state) or {}).get("tables") or {}), SECONDS, "a table")
        ended = folder.run("verify", str(folder.file))
        assert ended.returncode == 1, ended.stderr
        assert "TM-RUN-031" in ended.stderr and why in ended.stderr
        assert not list((folder.state_path / CONTROL).iterdir())
        if announces:  # What it does know still reaches it.
            assert json.loads(folder.run("pause", str(folder.file), "--json").stdout)["done"]
    assert [command["action"] for command in folder.requests("control")] == ["pause"] * len(announces)


def test_a_table_added_to_the_capture_file_is_captured_while_the_rest_goes_on(folder: CaptureFolder) -> None:
    tables = [TABLE, {"name": "public/u"}]
    folder.script(
        [OPENED, ROW, {"checkpoint": {"cursor": 1}}, {"await_eof": 0}, row(2), {"checkpoint": {"cursor": 2}}],
        [OPENED, row(3), row(4, binding=1), {"checkpoint": {"cursor": 3}}, {"await_eof": 0}],
        tables=tables,
    )
    folder.write_file(tables=["public.t"])
    with capturing(folder):
        wait_until(lambda: folder.is_begun, SECONDS, "a commit")
        folder.write_file(tables=["public.t", "public.u"])
        wait_until(lambda: len(folder.requests("open")) == 2, SECONDS, "a second session")
        wait_until(lambda: folder.log.summary().next_offset == 4, SECONDS, "its rows")
    first, second = folder.requests("open")
    assert [len(request["capture"]["bindings"]) for request in (first, second)] == [1, 2]
    # What the first session said last was committed before the second began.
    assert second["state"] == {"cursor": 2}
    assert (folder.ids("public/t"), folder.ids("public/u")) == ([1, 2, 3], [4])


@pytest.mark.heavy
def test_an_edit_made_while_the_source_is_away_is_used_once_it_is_back(folder: CaptureFolder) -> None:
    sessions = [
        [OPENED, ROW, {"checkpoint": {"cursor": 1}}, {"await_eof": 0}],
        [OPENED, row(2, binding=1), {"checkpoint": {"cursor": 2}}, {"await_eof": 0}],
    ]
    tables = [TABLE, {"name": "public/u"}]
    away = {"level": "error", "message": "no connection to db:5432", "fields": {"code": "TM-PG-001"}}
    folder.script(*sessions, tables=tables)
    folder.write_file(tables=["public.t"])
    with capturing(folder):
        wait_until(lambda: folder.is_begun, SECONDS, "a commit")
        folder.script(*sessions, tables=tables, discover=[{"stderr": json.dumps(away)}, {"exit": 1}])
        asked = len(folder.requests("discover"))
        folder.write_file(tables=["public.t", "public.u"])
        wait_until(lambda: "will be tried again" in folder.stderr, SECONDS, "the outage is told")
        wait_until(lambda: len(folder.requests("discover")) >= asked + 2, SECONDS, "it is tried again")
        folder.script(*sessions, tables=tables)
        wait_until(lambda: len(folder.requests("open")) == 2, SECONDS, "a second session")
        wait_until(lambda: folder.log.summary().next_offset == 2, SECONDS, "its rows")
        assert folder.stderr.count("will be tried again") == 1
    assert folder.ids("public/u") == [2]


def test_a_mistake_in_the_edited_file_changes_nothing_and_is_told(folder: CaptureFolder) -> None:
    folder.script([OPENED, ROW, {"checkpoint": {"cursor": 1}}, {"await_eof": 0}])
    with capturing(folder):
        wait_until(lambda: folder.is_begun, SECONDS, "a commit")
        folder.write_file(tabels=["public.t"])
        wait_until(lambda: "did you mean tables?" in folder.stderr, SECONDS, "the mistake is told")
        folder.write_file(tables=["public.missing"])
        wait_until(lambda: "TM-CFG-004" in folder.stderr, SECONDS, "the missing table is told")
    assert len(folder.requests("open")) == 1
