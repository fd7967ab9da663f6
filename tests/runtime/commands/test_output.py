"""What commands write: for people and for programs, at a terminal and elsewhere."""

from __future__ import annotations

import io
import json
import re
import string
from datetime import UTC, datetime

import pytest

from tests.runtime.capture_folder import OPENED, CaptureFolder, error_line
from tidemark.protocol.changelog import Commit, Segment
from tidemark.protocol.log_lines import LogLine
from tidemark.protocol.text.visible import visible, visible_json
from tidemark.runtime.progress.displays.lines import MOST_TABLES, LineDisplay
from tidemark.runtime.progress.figures import Figures

pytestmark = pytest.mark.heavy

EVIL = "a\x1b]0;title\x07\x9b2J\u202eb"
"""Sets a window's title, clears the screen, and turns what follows around."""

CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]")

WELL = {
    "stderr": json.dumps(
        {
            "level": "warning",
            "message": f"about {EVIL}",
            "eventType": "connectorStatus",
            "fields": {"tables": {f"public.{EVIL}": {"state": "failed", "error": f"TM-PG-007: {EVIL}"}}},
        }
    )
}
LOUD = {"stderr": json.dumps({"level": "warning", "message": f"look at {EVIL}"})}


@pytest.mark.drawn(4)
@pytest.mark.parametrize(
    "arguments",
    [
        ["discover", "capture.yaml"],
        ["discover", "capture.yaml", "--json"],
        ["check", "capture.yaml"],
        ["status", "capture.yaml"],
        ["status", "capture.yaml", "--json"],
        ["tail", "capture.yaml", "-t", f"public.{EVIL}"],
        ["tail", "capture.yaml", "-t", f"public.none{EVIL}"],
        ["log", "ls", "capture.yaml"],
        ["capture", "capture.yaml", "--until-caught-up"],
        ["pause", "capture.yaml", "-t", f"public.{EVIL}", "--json"],
        ["pause", "capture.yaml", "-t", f"public.x{EVIL}"],
    ],
    ids=lambda arguments: " ".join(arguments[:1] + arguments[2:])[:20].translate({ord("\x1b"): "e"}),
)
def test_control_characters_of_names_reach_no_terminal(folder: CaptureFolder, arguments: list[str]) -> None:
    rows = {"rows": {"first": 1, "count": 1}}
    tables = [{"name": f"public/{EVIL}"}]
    folder.script([OPENED, LOUD, rows, {"checkpoint": {}}, {"await": 1}, WELL], tables=tables)
    done = folder.run("capture", "capture.yaml", "--until-caught-up")
    assert done.returncode == 0, done.stderr
    done = folder.run(*arguments)
    assert not CONTROLS.search(done.stdout + done.stderr), repr(done.stdout + done.stderr)
    if arguments[0] not in ("check", "tail"):  # The others name the table.
        assert "\\x1b" in done.stdout + done.stderr or "\\u001b" in done.stdout + done.stderr


def test_visible_text() -> None:
    assert visible("a\x1b[31mb\n\x9bé") == r"a\x1b[31mb\n\x9bé"
    assert visible("one\ntwo\x00", lines=True) == "one\ntwo\\x00"
    assert visible(string.printable[:95]) == string.printable[:95]
    assert json.loads(visible_json('"a\x9b\u202e\x7f"')) == "a\x9b\u202e\x7f"


def test_the_final_error_is_json_where_all_else_is(folder: CaptureFolder) -> None:
    fields = {"remedy": "make a slot", "documentation": "docs/errors.md#tm-pg-012"}
    folder.script([OPENED, error_line("slot is gone", code="TM-PG-012", policy="manual", **fields), {"exit": 1}])
    done = folder.run("capture", "capture.yaml", "--json")
    last = [json.loads(line) for line in done.stderr.splitlines()][-1]
    assert (last["level"], last["message"], done.returncode) == ("error", "slot is gone", 1)
    assert last["fields"] == {"code": "TM-PG-012", **fields, "exit_status": 1}


@pytest.mark.parametrize(
    ("code", "policy", "status"),
    [
        ("TM-PG-002", "manual", 1),
        ("TM-PG-001", "retry", 3),
        ("TM-LOG-008", "manual", 1),
        ("TM-PRO-004", "", 3),
        ("ACME-7", "manual", 1),
        ("ACME-8", "retry", 3),
    ],
)
def test_the_exit_status_tells_what_may_pass_from_what_does_not(
    folder: CaptureFolder, code: str, policy: str, status: int
) -> None:
    folder.script([OPENED], discover=[error_line("no", code=code, policy=policy), {"exit": 1}])
    for command in ("capture", "check", "discover"):
        done = folder.run(command, "capture.yaml")
        assert done.returncode == status, (command, done.stderr)


@pytest.mark.parametrize("documentation", ["", "https://acme.test/errors/7"])
def test_the_error_of_another_s_connector_is_told_in_its_own_words(folder: CaptureFolder, documentation: str) -> None:
    fields = {"code": "ACME-7\x1b", "policy": "manual", "remedy": "Renew it.", "documentation": documentation}
    folder.script([OPENED, error_line("licence expired", **fields), {"exit": 1}])
    done = folder.run("capture", "capture.yaml")
    last = json.loads(done.stderr.splitlines()[-1])
    told = {"code": "ACME-7\x1b", "remedy": "Renew it.", "documentation": documentation, "exit_status": 1}
    assert (last["level"], last["message"], last["fields"]) == ("error", "licence expired", told)
    assert done.returncode == 1 and len(folder.requests("open")) == 1


def test_names_are_whole_where_no_terminal_limits_them(folder: CaptureFolder) -> None:
    long = "x" * 150
    rows = {"rows": {"first": 1, "count": 1}}
    folder.script([OPENED, rows, {"checkpoint": {}}, {"await": 1}], tables=[{"name": f"public/{long}"}])
    assert folder.run("capture", "capture.yaml", "--until-caught-up").returncode == 0
    for command in ("discover", "status"):
        assert f"public.{long} " in folder.run(command, "capture.yaml").stdout


NAME = "public.customer_addresses_of_last_year"
WAITS = f"a range of {NAME} that others read"
STATUS = {
    "rows_done": 1_234_567_890,
    "rows_estimated": 2_345_678_901,
    "seconds_left": 45_000.0,
    "state": "waiting",
    "waits_for": WAITS,
}
PLAN = {
    "scan": "key",
    "key": ["customer_id", "address_id", "valid_from"],
    "ranges": 12,
    "rows_estimated": 1_234_567_890,
    "bytes_estimated": 34_567_000_000,
    "rows_per_second": 27_434.0,
}
SHOWN = {
    "status": [NAME, "1,234,567,890", "2,345,678,901", "12 h 30 min", f"waiting for {WAITS}"],
    "plan": [NAME, "customer_id, address_id, valid_from", "1,234,567,890", "34.6 GB", "27,434", "12 h 30 min"],
}


@pytest.mark.parametrize("command", ["status", "plan"])
def test_terminals_show_whole_names_and_figures(folder: CaptureFolder, command: str) -> None:
    status, plan = (
        {"stderr": json.dumps({"level": "info", "message": "", "eventType": kind, "fields": fields})}
        for kind, fields in (
            ("connectorStatus", {"tables": {NAME: STATUS}}),
            ("backfillPlan", {"readers": 1, "tables": {NAME: PLAN}}),
        )
    )
    session = [OPENED, {"rows": {"first": 1, "count": 1}}, {"checkpoint": {}}, {"await": 1}, status]
    answer = {"message": {"validated": {"bindings": [{"resourcePath": NAME.split(".")}]}}}
    folder.script(session, tables=[{"name": NAME.replace(".", "/")}], validate=[plan, answer])
    if command == "status":
        assert folder.run("capture", "capture.yaml", "--until-caught-up").returncode == 0
    for columns in (40, 80, 100):
        terminal = {"FORCE_COLOR": "1", "COLUMNS": str(columns)}
        done = folder.run(command, "capture.yaml", environment=terminal)
        _, _, table = re.sub("\x1b\\[[0-9;]*m", "", f"\n{done.stdout}").partition("\ntable")
        shown = table.partition("\n\n")[0].splitlines()
        assert len(shown) > 3 and max(map(len, shown)) <= columns, shown
        # What is longer than a line is broken, and nothing else is between its parts.
        for text in SHOWN[command]:
            assert "".join(text.split()) in "".join("".join(shown).split()), (text, shown)
            assert len(text) > columns - 2 or any(text in line for line in shown), (text, shown)


def test_progress_off_a_terminal_is_bounded() -> None:
    stream = io.StringIO()
    figures = Figures()
    with LineDisplay(figures, "info", stream) as display:
        display.expect(f"public.t{number}" for number in range(300))
        fields = {"tables": {f"public.t{number}": {"rows_done": 1} for number in range(300)}}
        display.log(LogLine(level="info", message="x", event_type="connectorStatus", fields=fields))
        fields["tables"]["public.t7"] = {"rows_done": 2}
        display.log(LogLine(level="info", message="x", event_type="connectorStatus", fields=fields))
        segment = Segment(
            collection="public/t9",
            path="p",
            rows=5,
            size=1,
            uncompressed=1,
            first_offset=0,
            last_offset=4,
            fingerprint="f",
        )
        display.committed(
            Commit(number=1, epoch=1, time=datetime.now(UTC), first_offset=0, next_offset=5, segments=[segment]), 0.01
        )
    first, last = (json.loads(line)["fields"] for line in stream.getvalue().splitlines())
    assert (len(first["tables"]), first["tables_left_out"]) == (MOST_TABLES, 300 - MOST_TABLES)
    assert sorted(last["tables"]) == ["public.t7", "public.t9"]
    assert (last["events"], last["tables_left_out"]) == (5, 0)
