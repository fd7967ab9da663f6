"""Reading events back: ranges, JSON lines, and segments that are not as their commit says."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.runtime.changelog.shop import ORDER_SCHEMA, ORDERS, document, order, stored
from tests.runtime.logged_events import events
from tidemark.protocol.changelog import ChangeLog, Column, Segment, TableSchema
from tidemark.protocol.errors import ChangeLogError
from tidemark.runtime.changelog.events import json_line
from tidemark.runtime.changelog.writer import LogWriter

OTHER = "public/other"


@pytest.fixture
def log(tmp_path: Path) -> ChangeLog:
    """Ten commits of ten events, every other one of ``ORDERS``."""
    with LogWriter.open(tmp_path, "shop") as writer:
        orders, other = writer.bind(ORDERS, ORDER_SCHEMA), writer.bind(OTHER, None)
        for number in range(10):
            batch = writer.begin()
            for id in range(5):
                batch.add(orders, [order(number * 5 + id)])
                batch.add(other, [document()])
            writer.commit(batch, {}, 1)
    return ChangeLog(tmp_path)


@pytest.mark.parametrize(
    ("start", "end"),
    [(0, 100), (0, 0), (0, 1), (1, 2), (3, 17), (10, 20), (19, 21), (98, 99), (99, 100), (100, 200), (50, 40)],
)
def test_a_range_of_offsets(log: ChangeLog, start: int, end: int) -> None:
    assert [event["_offset"] for event in events(log, ORDERS, start, end)] == [
        n for n in range(0, 100, 2) if start <= n < end
    ]
    assert [event["_offset"] for event in events(log, OTHER, start, end)] == [
        n for n in range(1, 100, 2) if start <= n < end
    ]


def test_the_whole_log(log: ChangeLog) -> None:
    assert [event["id"] for event in events(log, ORDERS)] == list(range(50))
    assert list(events(log, "public/absent")) == []


def test_what_is_committed_later_is_found_by_the_same_reader(log: ChangeLog) -> None:
    assert len(list(events(log, ORDERS))) == 50
    with LogWriter.open(log.root, "shop") as writer:
        batch = writer.begin()
        batch.add(writer.bind(ORDERS, ORDER_SCHEMA), [order(50)])
        writer.commit(batch, {}, 1)
    assert [event["id"] for event in events(log, ORDERS, 100)] == [50]


def first_segment(log: ChangeLog) -> Segment:
    return next(log.segments(ORDERS, 0, 100))


def error_of_file(log: ChangeLog, segment: Segment) -> str:
    """The code of what is wrong with a segment's file, without its pages."""
    with pytest.raises(ChangeLogError) as caught:
        log.file(segment)
    return caught.value.code


@pytest.mark.parametrize(
    "damage", ["missing", "empty", "cut", "no footer", "other rows", "scrambled", "not text", "another", "a directory"]
)
def test_a_segment_that_is_not_whole_is_named(log: ChangeLog, damage: str) -> None:
    segment = first_segment(log)
    path = log.root / segment.path
    whole = path.read_bytes()
    match damage:
        case "missing":
            path.unlink()
        case "empty":
            path.write_bytes(b"")
        case "cut":
            path.write_bytes(whole[:-20])
        case "no footer":
            path.write_bytes(whole[:-1] + b"x")
        case "other rows":
            pq.write_table(pq.read_table(path).slice(1), path)
        case "scrambled":
            path.write_bytes(whole[:8] + bytes(reversed(whole[8:1200])) + whole[1200:])
        case "not text":
            table = pq.read_table(path)
            note: Any = pa.array([b"\xff"] * len(table)).view(pa.string())
            pq.write_table(table.set_column(table.schema.get_field_index("note"), "note", note), path)
        case "another":
            other = next(log.segments(OTHER, 0, 100))
            assert other.rows == segment.rows
            path.write_bytes((log.root / other.path).read_bytes())
        case "a directory":
            path.unlink()
            path.mkdir()
    with pytest.raises(ChangeLogError) as caught:
        stored(log.root)
    assert caught.value.code == "TM-LOG-009"
    assert str(path) in caught.value.message
    assert damage in ("scrambled", "not text") or error_of_file(log, segment) == "TM-LOG-009"
    # Events that do not need it can still be read.
    assert len(list(events(log, ORDERS, 10))) == 45


def test_a_segment_that_is_as_its_commit_says_has_a_file(log: ChangeLog) -> None:
    segment = first_segment(log)
    assert pq.read_table(log.file(segment)).num_rows == segment.rows


def test_json_lines() -> None:
    schema = TableSchema(collection="t", columns=[Column(name="j", type="string", json_text=True)])
    event = {
        "n": Decimal("0.00000010"),
        "d": date(2024, 2, 29),
        "instant": datetime(2024, 2, 29, 1, 2, 3, 4, tzinfo=UTC),
        "local": datetime(2024, 2, 29),
        "b": b"\x00\xff",
        "f": [float("nan"), float("inf"), float("-inf"), 1.5],
        "j": '{"a": 1.10}',
        "s": '{"a": 1.10}',
        "_loc": "[1, 2]",
        "_before": None,
        "_op": "c",
    }
    line = json_line(event, schema)
    assert b"\n" not in line
    assert b'"j":{"a": 1.10}' in line
    assert json.loads(line) == {
        "n": "0.00000010",
        "d": "2024-02-29",
        "instant": "2024-02-29T01:02:03.000004Z",
        "local": "2024-02-29T00:00:00",
        "b": "AP8=",
        "f": ["NaN", "Infinity", "-Infinity", 1.5],
        "j": {"a": 1.1},
        "s": '{"a": 1.10}',
        "_loc": [1, 2],
        "_before": None,
        "_op": "c",
    }


def test_any_parquet_reader_sees_the_documented_types(log: ChangeLog) -> None:
    file = pq.read_schema(log.root / first_segment(log).path)
    assert file.field("_commit_ts").type == pa.timestamp("us", "UTC")
    assert file.field("_unchanged").type == pa.list_(pa.string())
    assert all(field.nullable for field in file)
