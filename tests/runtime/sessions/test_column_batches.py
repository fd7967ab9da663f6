"""Batches of columns in a session: what is in the log is what documents would have brought."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, TypeAlias

import pyarrow as pa
import pytest

from tests.runtime.capture_folder import OPENED, CaptureFolder
from tests.runtime.logged_events import events
from tests.runtime.scripted_sessions import RARELY, Recorder, run_session, table
from tidemark.protocol.batches import Meta, Part, batch_line
from tidemark.protocol.errors import ConnectorError

PLACE = ("[7,0,3,", "]")
LOG_COLUMNS = (pa.uint32(), pa.string(), pa.int64(), pa.string(), pa.string(), pa.string(), pa.string())
Columns: TypeAlias = "Sequence[pa.Array[Any]]"
ROWS: Columns = [pa.array([1, 2, 3]), pa.array(["a", None, "c"])]
ROW: Columns = [pa.array([1]), pa.array(["a"])]
CHECKPOINT: dict[str, Any] = {"checkpoint": {"a": 1}}


def stream(columns: Columns) -> bytes:
    sink = pa.BufferOutputStream()
    batch = pa.RecordBatch.from_arrays(list(columns), names=[f"c{place}" for place in range(len(columns))])
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def sent(line: bytes, *streams: bytes) -> dict[str, Any]:
    return {"bytes": base64.b64encode(line + b"".join(streams)).decode()}


def chunk(columns: Columns, skip: Sequence[int] = (), first: int = 0, **meta: Any) -> dict[str, Any]:
    body, rows = stream(columns), len(columns[0])
    part = Part(0, "chunk", rows, len(body), Meta(place=PLACE, first=first, **meta), skip)
    return sent(batch_line([part], rows - len(skip)), body)


def of_log(*parts: tuple[int, Columns, Sequence[tuple[Any, ...]]]) -> dict[str, Any]:
    """A batch of the log: of each binding the table's columns, and the events' further columns row by row."""
    announced, streams = [], []
    for binding, columns, further in parts:
        more = [pa.array(values, type_) for values, type_ in zip(zip(*further, strict=True), LOG_COLUMNS, strict=True)]
        streams.append(stream([*columns, *more]))
        announced.append(Part(binding, "log", len(further), len(streams[-1])))
    return sent(batch_line(announced, sum(part.rows for part in announced)), *streams)


def schema_of(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"_meta": {}, **properties}, "additionalProperties": False}


def test_rows_of_a_chunk_are_between_what_came_before_and_after(folder: CaptureFolder) -> None:
    row = {"rows": {"first": 90, "count": 1}}
    folder.script([OPENED, row, chunk(ROWS), row, CHECKPOINT])
    run_session(folder, due=RARELY, takes_batches=True)
    found = list(events(folder.log, "public/t"))
    assert [(one["_offset"], one["id"], one["text"]) for one in found] == [
        (0, 90, "xxxx"),
        (1, 1, "a"),
        (2, 2, None),
        (3, 3, "c"),
        (4, 90, "xxxx"),
    ]
    assert found[1] | {"_offset": 0, "id": 0, "text": ""} == {
        "id": 0,
        "text": "",
        "_op": "c",
        "_offset": 0,
        "_commit_ts": None,
        "_loc": "[7,0,3,0]",
        "_txid": None,
        "_snapshot": True,
        "_before": None,
        "_unchanged": None,
    }


def test_rows_that_the_window_leaves_out_are_no_events(folder: CaptureFolder) -> None:
    folder.script([OPENED, chunk(ROWS, skip=[1], first=5), CHECKPOINT])
    run_session(folder, takes_batches=True)
    found = [(one["_offset"], one["id"], one["_loc"]) for one in events(folder.log, "public/t")]
    assert found == [(0, 1, "[7,0,3,5]"), (1, 3, "[7,0,3,7]")]


def test_events_of_the_log_have_one_order_over_all_tables(folder: CaptureFolder) -> None:
    t = [(0, "c", 1000, "[1]", "9", None, None), (2, "d", 1001, "[3]", "9", '{"id":2}', None)]
    u = [(1, "u", None, "[2]", None, '{"id":1,"text":"old"}', '["text"]')]
    batch = of_log((0, [pa.array([1, 2]), pa.array(["a", None])], t), (1, [pa.array([7]), pa.nulls(1, pa.string())], u))
    folder.script([OPENED, {"rows": {"first": 50, "count": 1}}, batch, batch, CHECKPOINT])
    run_session(folder, table("public/t"), table("public/u"), due=RARELY, takes_batches=True)
    of_t, of_u = list(events(folder.log, "public/t")), list(events(folder.log, "public/u"))
    assert [one["_offset"] for one in of_t] == [0, 1, 3, 4, 6]
    assert [one["_offset"] for one in of_u] == [2, 5]
    assert of_t[2] == {
        "id": 2,
        "text": None,
        "_op": "d",
        "_offset": 3,
        "_commit_ts": datetime(1970, 1, 1, 0, 0, 1, 1000, tzinfo=UTC),
        "_loc": "[3]",
        "_txid": "9",
        "_snapshot": False,
        "_before": '{"id":2}',
        "_unchanged": None,
    }
    assert of_u[0]["_before"] == '{"id":1,"text":"old"}' and of_u[0]["_unchanged"] == ["text"]


VALUES: dict[str, tuple[dict[str, Any], list[Any], pa.Array[Any] | None, list[str | None]]] = {
    "boolean": ({"type": "boolean"}, [True, None], pa.array([True, None]), ["true", None]),
    "bigint": ({"type": "integer"}, [-(2**63), None], pa.array([-(2**63), None]), [str(-(2**63)), None]),
    "smallint": ({"type": "integer"}, [-5, None], pa.array([-5, None], pa.int16()), ["-5", None]),
    "double": (
        {"type": ["number", "string"], "format": "number"},
        [0.1, "NaN", "-Infinity", 1e300],
        pa.array([0.1, float("nan"), float("-inf"), 1e300]),
        ["0.1", "NaN", "-Infinity", "1e300"],
    ),
    "decimal": (
        {"type": "string", "format": "number", "x-precision": 6, "x-scale": 2},
        ["1.50", None],
        pa.array([Decimal("1.50"), None], pa.decimal128(6, 2)),
        ["1.50", None],
    ),
    "string": ({"type": "string"}, ['é "\\', None], pa.array(['é "\\', None]), ['é "\\', None]),
    "date": ({"type": "string", "format": "date"}, ["0001-01-01"], pa.array([date(1, 1, 1)]), ["0001-01-01"]),
    "timestamp": (
        {"type": "string", "format": "date-time"},
        ["2024-01-15T14:30:00.123456Z"],
        pa.array([datetime(2024, 1, 15, 14, 30, 0, 123456, UTC)], pa.timestamp("us", "UTC")),
        ["2024-01-15T14:30:00.123456Z"],
    ),
    "timestamp_ntz": (
        {"type": "string", "x-local": True},
        ["9999-12-31T23:59:59.5"],
        pa.array([datetime(9999, 12, 31, 23, 59, 59, 500000)], pa.timestamp("us")),
        ["9999-12-31T23:59:59.5"],
    ),
    "json": (
        {},
        [{"a": [1.50, None]}, None, "x", None],
        None,
        ['{"a": [1.5, null]}', "null", '"x"', None],
    ),
}


@pytest.mark.parametrize("name", VALUES)
def test_values_and_their_text_are_what_documents_bring(folder: CaptureFolder, name: str) -> None:
    schema, members, values, texts = VALUES[name]
    documents = [{"_meta": {"op": "c", "source": {"snapshot": True}}, "v": member} for member in members]
    lines = [{"line": json.dumps({"captured": {"doc": one}})} for one in documents]
    columns: list[Columns] = [[pa.array(texts, pa.string())], *([[values]] if values is not None else [])]
    as_json = pa.array([json.dumps(member) if member is not None else None for member in members], pa.string())
    folder.script([OPENED, *lines, *map(chunk, columns), chunk([as_json], json=[0]), CHECKPOINT])
    run_session(folder, table(schema=schema_of({"v": schema}), key=()), takes_batches=True)
    found = [repr(one["v"]) for one in events(folder.log, "public/t")]
    count = len(members)
    assert len(found) == count * (2 + len(columns))
    for start in range(count, len(found), count):
        assert found[start : start + count] == found[:count]


def test_arrays_and_bytes(folder: CaptureFolder) -> None:
    schema = schema_of(
        {
            "list": {"type": "array", "items": {"type": ["integer", "null"]}},
            "bytes": {"type": "string", "contentEncoding": "base64"},
        }
    )
    native: Columns = [pa.array([[1, None], None], pa.list_(pa.int32())), pa.array([b"\0\xff", None])]
    as_json: Columns = [pa.array(["[1,null]", "null"]), pa.array(['"AP8="', None])]
    folder.script([OPENED, chunk(native), chunk(as_json, json=[0, 1]), CHECKPOINT])
    run_session(folder, table(schema=schema, key=()), takes_batches=True)
    found = [(one["list"], one["bytes"]) for one in events(folder.log, "public/t")]
    assert found == [([1, None], b"\0\xff"), (None, None)] * 2


def test_a_value_that_does_not_fit_is_kept_apart(folder: CaptureFolder) -> None:
    columns: Columns = [pa.array(["1", "x", "3", "99999999999999999999"]), pa.array(["a", "b", "c", "d"])]
    folder.script([OPENED, chunk(columns), CHECKPOINT])
    display = run_session(folder, takes_batches=True)
    assert [(one["_offset"], one["id"]) for one in events(folder.log, "public/t")] == [(0, 1), (2, 3)]
    apart = list(events(folder.log, "_quarantine"))
    assert [(one["_offset"], one["collection"], one["op"]) for one in apart] == [
        (1, "public/t", "c"),
        (3, "public/t", "c"),
    ]
    assert json.loads(apart[0]["document"])["text"] == "b" and json.loads(apart[0]["key"]) == {"id": "x"}
    assert json.loads(apart[0]["document"])["_meta"]["source"]["loc"] == [7, 0, 3, 1]
    assert any("kept apart" in text for _, text in display.notices)


def test_a_time_outside_of_the_log_is_kept_apart(folder: CaptureFolder) -> None:
    schema = schema_of(
        {"day": {"type": "string", "format": "date"}, "moment": {"type": "string", "format": "date-time"}}
    )
    days = pa.array([0, 2_932_897, None, -719_163], pa.int32()).view(pa.date32())
    moments = pa.array([0, 1, 2**63 - 1, None], pa.int64()).view(pa.timestamp("us", "UTC"))
    folder.script([OPENED, chunk([days, moments]), CHECKPOINT])
    run_session(folder, table(schema=schema, key=()), takes_batches=True)
    assert [one["day"] for one in events(folder.log, "public/t")] == [date(1970, 1, 1)]
    apart = [json.loads(one["document"]) for one in events(folder.log, "_quarantine")]
    assert [(one["day"], one["moment"]) for one in apart] == [
        ("10000-01-01", "1970-01-01T00:00:00.000001Z"),
        (None, "9223372036854775807 (timestamp[us, tz=UTC])"),
        ("0000-12-31", None),
    ]


def broken(name: str) -> dict[str, Any]:
    whole = [*ROWS]
    match name:
        case "a column too few":
            return chunk(whole[:1])
        case "a column too many":
            return chunk([*whole, whole[0]])
        case "a type that means something else":
            return chunk([pa.array([True, False]), pa.array(["a", "b"])])
        case "a number where the log has text":
            return chunk([pa.array([1]), pa.array([1])])
        case "text that is not UTF-8":
            bad = pa.StringArray.from_buffers(1, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff"))
            return chunk([pa.array([1]), bad])
        case "other bytes":
            return sent(batch_line([Part(0, "chunk", 1, 9, Meta(place=PLACE))], 1), b"not Arrow")
        case "other rows":
            body = stream(whole)
            return sent(batch_line([Part(0, "chunk", 2, len(body), Meta(place=PLACE))], 2), body)
        case "a gap in the order":
            return of_log((0, ROW, [(1, "c", 1, "1", "1", None, None)]))
        case "a place twice":
            row = (0, "c", 1, "1", "1", None, None)
            return of_log((0, ROW, [row]), (1, ROW, [row]))
        case "an operation that is none":
            return of_log((0, ROW, [(0, "x", 1, "1", "1", None, None)]))
        case "further columns of other types":
            return sent(batch_line([Part(0, "log", 3, len(stream(whole)))], 3), stream(whole))
    raise AssertionError(name)


BROKEN = (
    *("a column too few", "a column too many", "a type that means something else", "a number where the log has text"),
    *("text that is not UTF-8", "other bytes", "other rows", "a gap in the order", "a place twice"),
    *("an operation that is none", "further columns of other types"),
)


@pytest.mark.parametrize("name", BROKEN)
def test_a_batch_that_cannot_be_read_ends_the_session(folder: CaptureFolder, name: str) -> None:
    folder.script([OPENED, {"rows": {"first": 1, "count": 2}}, CHECKPOINT, {"await": 1}, broken(name), CHECKPOINT])
    with pytest.raises(ConnectorError) as caught:
        run_session(folder, table("public/t"), table("public/u"), takes_batches=True)
    assert caught.value.code == "TM-PRO-008"
    assert folder.ids() == [1, 2]


def test_an_end_inside_of_a_batch(folder: CaptureFolder) -> None:
    line = batch_line([Part(0, "chunk", 1, 100, Meta(place=PLACE))], 1)
    folder.script([OPENED, sent(line, b"x" * 99)])
    with pytest.raises(ConnectorError) as caught:
        run_session(folder, takes_batches=True)
    assert caught.value.code == "TM-PRO-006"


def test_a_batch_that_nobody_asked_for(folder: CaptureFolder) -> None:
    folder.script([OPENED, chunk(ROWS), CHECKPOINT])
    with pytest.raises(ConnectorError) as caught:
        run_session(folder)
    assert caught.value.code == "TM-PRO-002"


def test_a_binding_that_there_is_not(folder: CaptureFolder) -> None:
    columns = ROW
    folder.script([OPENED, of_log((3, columns, [(0, "c", 1, "1", "1", None, None)])), CHECKPOINT])
    with pytest.raises(ConnectorError) as caught:
        run_session(folder, takes_batches=True)
    assert caught.value.code == "TM-RUN-005"


@pytest.mark.parametrize(("more", "offered"), [({}, "arrow"), ({"text": ["id"]}, "")])
def test_batches_are_offered_where_all_values_have_a_form(
    folder: CaptureFolder, more: dict[str, Any], offered: str
) -> None:
    folder.write_file(tables=[{"table": "public.t", **more}])
    folder.script([OPENED, {"rows": {"first": 1, "count": 2}}, CHECKPOINT])
    ended = folder.run("capture", "capture.yaml", "--until-caught-up")
    assert ended.returncode == 0, ended.stderr
    assert json.loads((folder.path / "environment.json").read_text())["TIDEMARK_BATCHES"] == offered


def test_large_chunks_become_row_groups_and_one_run(folder: CaptureFolder) -> None:
    count = 150_000
    columns: Columns = [pa.array(range(count)), pa.array(["text"] * count)]
    folder.script([OPENED, chunk(columns), CHECKPOINT])
    display: Recorder = run_session(folder, takes_batches=True)
    (segment,) = [one for commit in display.commits for one in commit.segments]
    assert (segment.rows, segment.snapshot_rows, segment.last_offset) == (count, count, count - 1)
    assert segment.key_min == [0] and segment.key_max == [count - 1]
    assert folder.ids() == list(range(count))
