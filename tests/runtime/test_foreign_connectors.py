"""Connectors that nobody here wrote: what they say in the protocol's other ways, and what they insist on being told."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tests.runtime.capture_folder import OPENED, CaptureFolder, Step, error_line
from tests.runtime.logged_events import events
from tests.runtime.scripted_sessions import AT_ONCE, RARELY, ROW_SCHEMA, Recorder, prepared, run_session, table
from tidemark.protocol.changelog.models import QUARANTINE
from tidemark.protocol.environment import RUNTIME
from tidemark.protocol.errors import ConnectorError
from tidemark.protocol.messages import ConnectorState
from tidemark.runtime.sessions.interruption import Interruption
from tidemark.runtime.sessions.owned_log import OwnedLog
from tidemark.runtime.sessions.supervisor import Supervisor

pytestmark = pytest.mark.heavy

CHECKPOINT = {"checkpoint": {"n": 1}}
OPEN_SCHEMA = {name: part for name, part in ROW_SCHEMA.items() if name != "additionalProperties"}


def sourced(spelling: str = "documentSchema", *, complete: bool = False, **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"_meta": {}, **properties}, "additionalProperties": False}
    return {"message": {"sourcedSchema": {spelling: {**schema, **({"x-complete": True} if complete else {})}}}}


def captured(spelling: str = "doc", **row: Any) -> dict[str, Any]:
    return {"message": {"captured": {spelling: {"_meta": {"op": "c"}, **row}}}}


def columns(folder: CaptureFolder) -> dict[str, str]:
    """The columns of the newest segment, with their types."""
    summary = folder.log.summary()
    schema = summary.schemas[summary.totals["public/t"].fingerprint]
    return {column.name: column.type for column in schema.columns}


def found(folder: CaptureFolder) -> list[dict[str, Any]]:
    return [
        {name: value for name, value in event.items() if not name.startswith("_") and value is not None}
        for event in events(folder.log, "public/t")
    ]


@pytest.mark.parametrize("spelling", ["documentSchema", "document_schema_json", "schema_json"])
def test_a_part_of_a_schema_is_added_to_what_is_known(folder: CaptureFolder, spelling: str) -> None:
    part = sourced(spelling, id={"type": "integer"}, more={"type": "string", "format": "date"})
    folder.script([OPENED, part, captured(id=1, text="a", more="2026-01-31"), captured("doc_json", id=2), CHECKPOINT])
    run_session(folder)
    assert columns(folder) == {"id": "bigint", "text": "string", "more": "date"}
    assert [row["id"] for row in found(folder)] == [1, 2]


def test_types_that_a_part_widens_hold_what_was_there(folder: CaptureFolder) -> None:
    part = sourced(id={"type": "number"}, text={"type": ["integer", "null"]})
    folder.script([OPENED, captured(id=1, text="a"), CHECKPOINT, part, captured(id=2.5, text=7), CHECKPOINT])
    run_session(folder, due=RARELY)
    assert columns(folder) == {"id": "double", "text": "string"}
    assert found(folder) == [{"id": 1, "text": "a"}, {"id": 2.5, "text": "7"}]


def test_a_whole_schema_takes_the_place_of_what_was_known(folder: CaptureFolder) -> None:
    whole = sourced(complete=True, id={"type": "string"})
    folder.script([OPENED, whole, captured(id="x"), CHECKPOINT])
    run_session(folder)
    assert columns(folder) == {"id": "string"}


def test_members_that_no_part_of_an_open_schema_names_become_columns(folder: CaptureFolder) -> None:
    part = sourced(id={"type": "integer"})
    first = [OPENED, part, captured(id=1), captured(id=2, text="b", tags=[1, None]), CHECKPOINT]
    folder.script(first, [OPENED, part, captured(id=3), CHECKPOINT])
    opened = table(schema=OPEN_SCHEMA)
    run_session(folder, opened)
    assert columns(folder) == {"id": "bigint", "text": "string", "tags": "string"}
    assert found(folder) == [{"id": 1}, {"id": 2, "text": "b", "tags": "[1,null]"}]
    run_session(folder, opened)
    # They stay: readers need not see the columns come and go with every session.
    assert columns(folder) == {"id": "bigint", "text": "string", "tags": "string"}


def test_a_document_with_a_member_that_a_closed_schema_does_not_have_is_kept_apart(folder: CaptureFolder) -> None:
    folder.script([OPENED, captured(id=1, tags=[]), captured(id=2), CHECKPOINT])
    run_session(folder)
    assert [event["id"] for event in events(folder.log, "public/t")] == [2]
    (apart,) = events(folder.log, QUARANTINE)
    assert "member 'tags'" in apart["reason"] and apart["collection"] == "public/t"


def test_the_begin_of_a_backfill_empties_the_table(folder: CaptureFolder) -> None:
    begin: Step
    complete: Step
    begin, complete = ({"message": {kind: {}}} for kind in ("backfillBegin", "backfillComplete"))
    folder.script([OPENED, captured(id=1), begin, captured(id=2), complete, CHECKPOINT])
    run_session(folder)
    assert [(event["_op"], event["id"]) for event in events(folder.log, "public/t")] == [
        ("c", 1),
        ("t", None),
        ("c", 2),
    ]


def test_a_backfill_of_a_binding_that_there_is_not(folder: CaptureFolder) -> None:
    folder.script([OPENED, {"message": {"backfillComplete": {"binding": 7}}}, CHECKPOINT])
    with pytest.raises(ConnectorError, match="binding 7"):
        run_session(folder)


def test_what_apply_changes_of_the_state_is_kept(folder: CaptureFolder) -> None:
    applied = {"message": {"applied": {"state": {"updated": {"slot": "made", "old": None}, "mergePatch": True}}}}
    folder.script([OPENED, {"rows": {"first": 1, "count": 1}}, {"checkpoint": {"cursor": 1}}], apply=[applied])
    for _ in range(2):
        done = folder.run("capture", "capture.yaml", "--until-caught-up")
        assert done.returncode == 0, done.stderr
    first, second = folder.requests("open")
    assert first["state"] == {"slot": "made"}
    assert second["state"] == folder.log.summary().state == {"slot": "made", "cursor": 1}


def test_what_apply_changes_is_in_the_log_before_the_session_begins(folder: CaptureFolder) -> None:
    folder.script([error_line("no", policy="manual"), {"exit": 1}])
    capture = replace(prepared(folder), applied=ConnectorState(updated={"slot": "made"}, merge_patch=True))
    with Interruption() as interruption, OwnedLog(folder.log_store, "shop", folder.state) as log:
        supervisor = Supervisor(capture, log, AT_ONCE, interruption, Recorder(), until_caught_up=True)
        with pytest.raises(ConnectorError):
            supervisor.run()
    assert folder.log.summary().state == {"slot": "made"}


def test_a_connector_is_opened_no_sooner_than_its_interval(folder: CaptureFolder) -> None:
    folder.script([OPENED, CHECKPOINT], [error_line("no", policy="manual"), {"exit": 1}])
    usual = prepared(folder)
    capture = replace(usual, spec=msgspec.structs.replace(usual.spec, interval_seconds=1))
    started = time.monotonic()
    with (
        Interruption() as interruption,
        OwnedLog(folder.log_store, "shop", folder.state) as log,
        pytest.raises(ConnectorError),
    ):
        Supervisor(capture, log, AT_ONCE, interruption, Recorder(), until_caught_up=False).run()
    assert time.monotonic() - started >= 1
    assert len(folder.requests("open")) == 2


TOKEN = re.compile(r"[\w\-+/.=%]{1,512}")


def check_collection(collection: dict[str, Any]) -> None:
    """As the Go connectors' ``CollectionSpec.Validate``."""
    assert TOKEN.fullmatch(collection["name"])
    fields = [projection["field"] for projection in collection["projections"]]
    assert all(fields) and fields == sorted(set(fields))
    keyed = {projection["ptr"] for projection in collection["projections"] if projection["isPrimaryKey"]}
    assert collection["key"] and set(collection["key"]) <= keyed
    check_name(collection["partitionTemplate"]["name"])


def check_name(name: str) -> None:
    assert TOKEN.fullmatch(name) and len(name) >= 4


def check_capture(capture: dict[str, Any]) -> None:
    """As their ``CaptureSpec.Validate``."""
    assert TOKEN.fullmatch(capture["name"])
    assert capture["connectorType"] in ("IMAGE", "LOCAL")
    assert "config" in capture
    for binding in capture["bindings"]:
        check_collection(binding["collection"])
        assert binding["resourceConfig"] and all(binding["resourcePath"])
    check_name(capture["shardTemplate"]["id"])
    check_name(capture["recoveryLogTemplate"]["name"])


def test_requests_have_what_go_connectors_insist_on(folder: CaptureFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(RUNTIME)
    keyless = [f"/_meta/source/loc/{part}" for part in range(4)]
    tables = [{"name": "p/t", "key": ["/id", "/a~1b"]}, {"name": "public/none", "key": keyless}]
    folder.write_file(connector={"command": folder.command, "interval": "90s"})
    folder.script([OPENED, CHECKPOINT], tables=tables)
    assert folder.run("capture", "capture.yaml", "--until-caught-up").returncode == 0
    (validate,), (apply,), (opened,) = map(folder.requests, ("validate", "apply", "open"))
    assert TOKEN.fullmatch(validate["name"]) and validate["connectorType"] == "LOCAL"
    for binding in validate["bindings"]:
        check_collection(binding["collection"])
    check_capture(apply["capture"])
    check_capture(opened["capture"])
    assert opened["capture"]["intervalSeconds"] == 90
    assert opened["range"] == {"keyBegin": 0, "keyEnd": 2**32 - 1, "rClockBegin": 0, "rClockEnd": 2**32 - 1}
    assert json.loads((folder.path / "environment.json").read_text())[RUNTIME] == "1"
