"""Log lines on stderr: one JSON object each when written, any spelling when read."""

from __future__ import annotations

import io
import json
import logging
import os
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.protocol.documents import OBJECTS, Json
from tidemark.protocol.error_codes import Policy
from tidemark.protocol.errors import SourceError
from tidemark.protocol.log_lines import LogLine, Progress, TableProgress, read_log_line
from tidemark.protocol.logs import STATUS, JsonLines, log_failure, log_to_stderr


@pytest.fixture
def stderr() -> Iterator[io.StringIO]:
    """What this process logs, with the logging of pytest put back afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers.clear()
    stream = io.StringIO()
    log_to_stderr("info", stream)
    yield stream
    root.handlers[:] = handlers
    root.setLevel(level)


def test_a_record_is_one_line_of_json(stderr: io.StringIO) -> None:
    logging.getLogger("capture").warning("slot %s\nis far behind", "tidemark", extra={"bytes": 5, "slot": "tidemark"})
    (text,) = stderr.getvalue().splitlines()
    line = json.loads(text)
    assert line.keys() == {"ts", "level", "message", "fields"}
    assert datetime.fromisoformat(line["ts"]).utcoffset() == timedelta(0)
    assert (line["level"], line["message"]) == ("warning", "slot tidemark\nis far behind")
    assert line["fields"] == {"bytes": 5, "slot": "tidemark"}


def test_a_path_that_is_no_utf_8_has_a_line_too() -> None:
    path = os.fsdecode(b"/logs/\xff.log")
    record = logging.makeLogRecord({"msg": f"there is no log in {path}", "levelname": "ERROR", "code": "TM-LOG-001"})
    line = read_log_line(JsonLines().format(record))
    assert (line.level, line.message, line.code) == ("error", "there is no log in /logs/\\udcff.log", "TM-LOG-001")


def test_below_the_level_nothing_is_written(stderr: io.StringIO) -> None:
    logging.getLogger("capture").debug("chatter")
    assert stderr.getvalue() == ""


@pytest.mark.parametrize(("level", "least"), [("debug", 10), ("WARN", 30), ("error", 40), ("nonsense", 20), ("", 20)])
def test_the_level_is_read_in_any_spelling(stderr: io.StringIO, level: str, least: int) -> None:
    log_to_stderr(level, stderr)
    for number in (10, 20, 30, 40):
        logging.getLogger("capture").log(number, "%d", number)
    written = [json.loads(line)["message"] for line in stderr.getvalue().splitlines()]
    assert written == [str(number) for number in (10, 20, 30, 40) if number >= least]


@pytest.mark.parametrize("level", ["debug", "info", "warn", "error"])
def test_what_a_runtime_reads_is_written_at_every_level(stderr: io.StringIO, level: str) -> None:
    log_to_stderr(level, stderr)
    logging.getLogger("capture").info("following the log", extra={"eventType": STATUS})
    (line,) = stderr.getvalue().splitlines()
    assert json.loads(line)["eventType"] == STATUS


def test_a_failure_carries_its_code_and_remedy(stderr: io.StringIO) -> None:
    error = SourceError("TM-LOG-001", "there is no log in ./shop.log", remedy="Run 'tidemark capture shop.yaml' first.")
    log_failure(logging.getLogger("capture"), error)
    line = read_log_line(stderr.getvalue())
    assert (line.level, line.message, line.code) == ("error", "there is no log in ./shop.log", "TM-LOG-001")
    assert (line.policy, line.remedy) == (Policy.MANUAL, "Run 'tidemark capture shop.yaml' first.")
    assert line.documentation == "docs/errors.md#tm-log-001"


@pytest.mark.parametrize(
    ("policy", "read"),
    [('"retry"', Policy.RETRY), ('"manual"', Policy.MANUAL), ('"never"', None), ("null", None), ("[1]", None)],
)
def test_a_policy_is_a_known_word_or_none(policy: str, read: Policy | None) -> None:
    line = read_log_line(f'{{"level":"error","message":"gone","fields":{{"code":null,"policy":{policy}}}}}')
    assert (line.code, line.policy) == ("", read)


def test_an_exception_is_part_of_its_one_line(stderr: io.StringIO) -> None:
    try:
        raise ValueError("broken")
    except ValueError:
        logging.getLogger("capture").exception("failed")
    (text,) = stderr.getvalue().splitlines()
    assert "ValueError: broken" in json.loads(text)["fields"]["exception"]


def test_a_status_line_comes_back_as_progress(stderr: io.StringIO) -> None:
    progress = Progress(tables={"public.orders": TableProgress(rows_done=5, rows_estimated=9)}, position="0/16B3748")
    logging.getLogger("capture").info("status", extra={"eventType": STATUS, **progress.model_dump()})
    line = read_log_line(stderr.getvalue())
    assert line.event_type == STATUS
    assert Progress.model_validate(line.fields) == progress


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '{"ts":"2026-08-01T00:00:00Z","level":"INFO","message":"reading","fields":{"table":"users"}}',
            LogLine(level="info", message="reading", fields={"table": "users"}),
        ),
        (
            '{"eventType":"connectorStatus","level":"info","msg":"Backfilling","time":"2026-08-01T00:00:00Z"}',
            LogLine(level="info", message="Backfilling", event_type="connectorStatus"),
        ),
        ('{"lvl":"warn","msg":"late","lag":5}', LogLine(level="warning", message="late", fields={"lag": 5})),
        ('{"level":"panic","msg":"boom"}', LogLine(level="fatal", message="boom")),
        ('{"msg":"connection timeout"}', LogLine(level="error", message="connection timeout")),
        ('{"msg":"hello"}', LogLine(level="warning", message="hello")),
        ('{"msg":"a","fields":["x"]}', LogLine(level="warning", message="a")),
        ("plain text\n", LogLine(level="warning", message="plain text")),
        ("panic: index out of range", LogLine(level="error", message="panic: index out of range")),
        ("[1, 2]", LogLine(level="warning", message="[1, 2]")),
        ("", LogLine(level="warning", message="")),
    ],
)
def test_a_line_of_any_connector_is_read(text: str, expected: LogLine) -> None:
    assert read_log_line(text) == expected


@given(st.text())
def test_any_text_is_a_log_line(text: str) -> None:
    read_log_line(text)


@given(st.binary())
def test_any_bytes_are_a_log_line_once_decoded(line: bytes) -> None:
    read_log_line(line.decode(errors="replace"))
    read_log_line(line.decode(errors="surrogateescape"))


names = st.sampled_from(["level", "lvl", "message", "msg", "fields", "eventType", "ts", "time", "code"])


@given(st.dictionaries(names, OBJECTS | st.none() | st.integers() | st.text() | st.lists(st.integers())))
def test_any_object_is_a_log_line(body: Json) -> None:
    read_log_line(json.dumps(body))
