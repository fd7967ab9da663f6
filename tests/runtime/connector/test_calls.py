"""Unary calls: one process, one request, one response."""

from __future__ import annotations

import json
import resource
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.capture_folder import CaptureFolder, error_line, is_running
from tests.runtime.scripted_sessions import table
from tidemark.protocol.error_codes import Policy
from tidemark.protocol.errors import ConnectorError
from tidemark.protocol.log_lines import LogLine
from tidemark.protocol.messages import CaptureSpec
from tidemark.runtime.connector.calls import Caller
from tidemark.runtime.connector.process import ProcessConnector
from tidemark.runtime.connector.secrets import Redactor

SPEC: dict[str, Any] = {
    "spec": {
        "protocol": 3032023,
        "configSchema": {},
        "resourceConfigSchema": {},
        "documentationUrl": "https://example.test",
    }
}


def caller(folder: CaptureFolder, logged: list[LogLine] | None = None, seconds: float = 30) -> Caller:
    connector = ProcessConnector(folder.command, folder.path)
    log = [] if logged is None else logged
    return Caller(connector, {}, Redactor(["hunter22"]), log.append, seconds)


def test_each_call_gets_a_fresh_process_and_its_answer(folder: CaptureFolder) -> None:
    folder.script()
    calls = caller(folder)
    capture = CaptureSpec(name="shop", bindings=[table().binding])
    assert calls.spec().resource_path_pointers == ["/schema", "/table"]
    assert [one.recommended_name for one in calls.discover({"host": "db"}).bindings] == ["public/t"]
    assert [one.resource_path for one in calls.validate(capture).bindings] == [["public", "t"]]
    assert calls.apply(capture, "1").action_description == ""
    pids = [folder.requests(kind)[0]["pid"] for kind in ("spec", "discover", "validate", "apply")]
    assert len(set(pids)) == 4
    assert folder.requests("discover")[0]["config"] == {"host": "db"}


def test_stdin_ends_after_the_request(folder: CaptureFolder) -> None:
    (folder.path / "cat.sh").write_text("#!/bin/sh\ncat > got; cat spec.json\n")
    (folder.path / "spec.json").write_text(json.dumps(SPEC) + "\n")
    (folder.path / "cat.sh").chmod(0o755)
    calls = Caller(ProcessConnector(["./cat.sh"], folder.path), {}, Redactor(()), lambda _: None, 30)
    assert calls.spec().protocol == 3032023
    assert (folder.path / "got").read_text() == '{"spec":{"connectorType":"LOCAL","config":{}}}\n'


@pytest.mark.parametrize(
    ("steps", "code", "told"),
    [
        ([], "TM-RUN-004", "without an answer to spec"),
        ([{"message": SPEC}, {"message": SPEC}], "TM-RUN-005", "answered spec with 2 lines"),
        ([{"message": {"applied": {}}}], "TM-RUN-005", "answered spec with applied"),
        ([{"line": "nonsense"}], "TM-PRO-001", "answering spec: "),
        ([{"line": '{"spec":{}}'}], "TM-PRO-003", "configSchema"),
        ([{"text": '{"spec":'}], "TM-PRO-006", "in the middle of its answer"),
        ([{"message": {"spec": {**SPEC["spec"], "protocol": 1}}}], "TM-RUN-006", "uses version 1"),
        ([{"message": SPEC}, {"exit": 1}], "TM-RUN-002", "exited with status 1"),
        ([{"signal": 9}], "TM-RUN-003", "SIGKILL"),
        ([error_line("no hunter22", code="TM-PG-002", policy="manual"), {"exit": 1}], "TM-PG-002", "***"),
    ],
)
def test_anything_but_one_good_answer_is_an_error(
    folder: CaptureFolder, steps: list[dict[str, Any]], code: str, told: str
) -> None:
    folder.script(spec=steps)
    with pytest.raises(ConnectorError) as caught:
        caller(folder).spec()
    assert caught.value.code == code
    assert told in caught.value.message
    assert "hunter22" not in caught.value.message


def test_all_reasons_but_the_last_are_logged_before_the_error(folder: CaptureFolder) -> None:
    lines = [{"stderr": f'{{"level":"error","message":"reason {number}"}}'} for number in (1, 2, 3)]
    folder.script(discover=[*lines, {"exit": 1}])
    logged: list[LogLine] = []
    with pytest.raises(ConnectorError, match="reason 3"):
        caller(folder, logged).discover({})
    assert [line.message for line in logged] == ["reason 1", "reason 2"]


def test_a_connector_that_does_not_answer_is_ended(folder: CaptureFolder) -> None:
    folder.script(spec=[{"sleep": 1}])
    with pytest.raises(ConnectorError) as caught:
        caller(folder, seconds=2).spec()
    assert caught.value.code == "TM-RUN-011"
    assert not is_running(folder.requests("spec")[0]["pid"])


def test_a_call_is_made_again_when_its_connector_is_killed(folder: CaptureFolder) -> None:
    (folder.path / "once.sh").write_text("#!/bin/sh\nif mkdir killed; then kill -9 $$; fi\ncat spec.json\n")
    (folder.path / "spec.json").write_text(json.dumps(SPEC) + "\n")
    (folder.path / "once.sh").chmod(0o755)
    calls = Caller(ProcessConnector(["./once.sh"], folder.path), {}, Redactor(()), lambda _: None, 30)
    assert calls.spec().protocol == 3032023
    assert (folder.path / "killed").is_dir()


def test_validated_tables_must_be_the_ones_that_were_asked(folder: CaptureFolder) -> None:
    folder.script(validate=[{"message": {"validated": {"bindings": []}}}])
    with pytest.raises(ConnectorError) as caught:
        caller(folder).validate(CaptureSpec(name="shop", bindings=[table().binding]))
    assert caught.value.code == "TM-RUN-005"


@pytest.mark.parametrize("command", [["no-such-program"], ["./no-such-program"], ["./"], ["./not-executable"]])
def test_a_program_that_cannot_be_started(tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "not-executable").write_text("")
    with pytest.raises(ConnectorError) as caught:
        ProcessConnector(command, tmp_path).start({})
    assert caught.value.code == "TM-RUN-001"
    assert command[0] in caught.value.message


def test_a_machine_that_can_start_nothing_just_now(tmp_path: Path) -> None:
    """It would otherwise end a capture that has run for long: a person has nothing to correct in its file."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, before[1]))
    try:
        with pytest.raises(ConnectorError) as caught:
            ProcessConnector(["true"], tmp_path).start({})
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert caught.value.entry.policy is Policy.RETRY and "Too many open files" in caught.value.message


def test_a_program_that_is_no_program(tmp_path: Path) -> None:
    (tmp_path / "odd").write_bytes(b"\x7fELF nothing")
    (tmp_path / "odd").chmod(0o755)
    with pytest.raises(ConnectorError) as caught:
        Caller(ProcessConnector(["./odd"], tmp_path), {}, Redactor(()), lambda _: None).spec()
    assert "cannot be executed" in caught.value.message
