"""Documents to Parquet and back: every value is the value it was, to the last digit."""

from __future__ import annotations

import base64
import json
import math
import tempfile
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.runtime.changelog.shop import document, stored
from tidemark.protocol.changelog.models import META_COLUMNS
from tidemark.runtime.changelog.documents.columns import arrow_type
from tidemark.runtime.changelog.writer import LogWriter

Cell = tuple[str, Any]
"""A value as JSON text, and as it must be read back. Text ``""`` is a member that is absent."""


@dataclass(frozen=True)
class Kind:
    """A column type: its JSON Schema, its Spark type, and values of it."""

    schema: dict[str, Any]
    type: str
    cells: st.SearchStrategy[Cell]


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def iso(moment: datetime) -> str:
    return moment.isoformat()


characters = st.characters(exclude_categories=["Cs"])
texts = st.text(characters, max_size=20)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts, lambda inner: st.lists(inner, max_size=3), max_leaves=5
)
exact_json = st.one_of(
    st.sampled_from(
        ['{"a":1.10}', "[1e400,-0,1E+2]", "123456789012345678901234567890.1", r'"é\n"', '{"b":1,"a":2,"a":3}']
    ),
    json_values.filter(lambda value: value is not None).map(json.dumps),
)
doubles = st.floats().map(
    lambda x: (
        ('"NaN"', x)
        if math.isnan(x)
        else ('"Infinity"' if x > 0 else '"-Infinity"', x)
        if math.isinf(x)
        else (repr(x), x)
    )
)
decimals = st.decimals(min_value=-(10**10) + 1, max_value=10**10 - 1, places=2, allow_nan=False)
integers = st.integers(-(2**63), 2**63 - 1)
instants = st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30))
dates = st.dates()
integer_cells = integers.map(lambda n: (str(n), n))

KINDS = [
    Kind({"type": "boolean"}, "boolean", st.booleans().map(lambda b: (json.dumps(b), b))),
    Kind({"type": ["integer", "null"]}, "bigint", integer_cells),
    Kind(
        {"type": "integer", "maximum": 2**64 - 1},
        "decimal(20,0)",
        st.integers(0, 2**64 - 1).map(lambda n: (str(n), Decimal(n))),
    ),
    Kind({"type": "number"}, "double", st.floats(allow_nan=False, allow_infinity=False).map(lambda x: (repr(x), x))),
    Kind({"type": ["number", "string"], "format": "number"}, "double", doubles),
    Kind(
        {"type": "string", "format": "number", "x-precision": 12, "x-scale": 2},
        "decimal(12,2)",
        decimals.map(lambda d: (quoted(str(d)), d)),
    ),
    Kind(
        {"type": "string", "format": "number"},
        "string",
        st.sampled_from(["1.10", "NaN", "-Infinity", "1" * 60]).map(lambda t: (quoted(t), t)),
    ),
    Kind({"type": "string"}, "string", texts.map(lambda t: (quoted(t), t))),
    Kind(
        {"type": "string", "contentEncoding": "base64"},
        "binary",
        st.binary().map(lambda b: (quoted(base64.b64encode(b).decode()), b)),
    ),
    Kind({"type": "string", "format": "date"}, "date", dates.map(lambda d: (quoted(d.isoformat()), d))),
    Kind(
        {"type": "string", "format": "date-time"},
        "timestamp",
        instants.map(lambda t: (quoted(iso(t) + "Z"), t.replace(tzinfo=UTC))),
    ),
    Kind(
        {"type": "string", "format": "date-time", "x-local": True},
        "timestamp_ntz",
        instants.map(lambda t: (quoted(iso(t)), t)),
    ),
    Kind({}, "string", exact_json.map(lambda text: (text, text))),
    Kind({"type": "object"}, "string", st.just(('{"z": 1.50, "a":[]}', '{"z": 1.50, "a":[]}'))),
    Kind(
        {"type": "array", "items": {"type": ["integer", "null"]}},
        "array<bigint>",
        st.lists(st.none() | integers, max_size=4).map(lambda v: (json.dumps(v), v)),
    ),
    Kind(
        {"type": "array", "items": {"type": "string", "format": "number", "x-precision": 12, "x-scale": 2}},
        "array<decimal(12,2)>",
        st.lists(st.none() | decimals, max_size=4).map(
            lambda v: (json.dumps([d if d is None else str(d) for d in v]), v)
        ),
    ),
    Kind(
        {"type": "array", "items": {"type": "string", "format": "date-time"}},
        "array<timestamp>",
        st.lists(instants, max_size=3).map(
            lambda v: (json.dumps([iso(t) + "Z" for t in v]), [t.replace(tzinfo=UTC) for t in v])
        ),
    ),
]

names = st.text(characters, min_size=1, max_size=8).filter(
    lambda name: not name.startswith("_") and not any(c in '"\\' or c < " " for c in name)
)


@st.composite
def tables(draw: st.DrawFn) -> tuple[dict[str, Kind], list[dict[str, Cell]]]:
    """Columns, and rows of them: nulls, absent members and values."""
    columns = {
        name: draw(st.sampled_from(KINDS))
        for name in draw(st.lists(names, min_size=1, max_size=6, unique_by=str.lower))
    }
    nothing = st.sampled_from([("null", None), ("", None)])
    row = st.fixed_dictionaries({name: nothing | kind.cells for name, kind in columns.items()})
    return columns, draw(st.lists(row, min_size=1, max_size=12))


def same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return (math.isnan(left) and math.isnan(right)) or (
            left == right and math.copysign(1, left) == math.copysign(1, right)
        )
    return type(left) is type(right) and bool(left == right)


@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(tables())
def test_typed_columns(table: tuple[dict[str, Kind], list[dict[str, Cell]]]) -> None:
    columns, rows = table
    schema = {
        "additionalProperties": False,
        "properties": {"_meta": {}} | {name: kind.schema for name, kind in columns.items()},
    }
    documents = []
    for row in rows:
        members = [f"{quoted(name)}:{text}" for name, (text, _) in row.items() if text]
        documents.append(('{"_meta":{"op":"c"}' + "".join("," + member for member in members) + "}").encode())
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        with LogWriter.open(root, "shop") as log:
            bound = log.bind("public/t", schema)
            assert [(c.name, c.type) for c in bound.schema.columns] == [(n, k.type) for n, k in columns.items()]
            batch = log.begin()
            batch.add(bound, documents)
            (segment,) = log.commit(batch, {}, 1).segments
        file = pq.read_schema(root / segment.path)
        assert file.names == [*columns, *META_COLUMNS]
        assert [field.type for field in file] == [
            arrow_type(type_) for type_ in [*(kind.type for kind in columns.values()), *META_COLUMNS.values()]
        ]
        for event, row in zip(stored(root, "public/t"), rows, strict=True):
            for name, (_, value) in row.items():
                assert same(event[name], value), name


@settings(max_examples=examples(30), deadline=None)
@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "op": st.sampled_from("cudt"),
                "ts_ms": st.none() | st.integers(-62_135_596_800_000, 253_402_300_799_999),
                "loc": st.none() | st.lists(st.integers(0, 2**63), max_size=3),
                "cursor": st.none() | st.text(characters, min_size=1, max_size=10),
                "txid": st.none() | st.integers(0, 2**64 - 1) | st.text(characters, max_size=10),
                "snapshot": st.none() | st.booleans(),
                "before": st.none() | st.just({"id": 1, "x": [1, 2.5]}),
                "unchanged": st.none() | st.lists(texts, max_size=3),
            }
        ),
        min_size=1,
        max_size=8,
    ),
    st.booleans(),
)
def test_meta_columns(rows: list[dict[str, Any]], typed: bool) -> None:
    documents = []
    for row in rows:
        source = {name: row[name] for name in ("ts_ms", "loc", "cursor", "txid", "snapshot") if row[name] is not None}
        meta = {"op": row["op"], "source": source}
        meta |= {name: row[name] for name in ("before", "unchanged") if row[name] is not None}
        documents.append(json.dumps({"_meta": meta, "id": 1}, ensure_ascii=False).encode())
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        with LogWriter.open(root, "shop") as log:
            batch = log.begin()
            schema = {"additionalProperties": False, "properties": {"id": {"type": "integer"}}}
            batch.add(log.bind("t", schema if typed else None), documents)
            (segment,) = log.commit(batch, {}, 1).segments
        events = stored(root, "t")
    times = [time for event in events if (time := event["_commit_ts"]) is not None]
    assert (segment.first_commit_ts, segment.last_commit_ts) == ((min(times), max(times)) if times else (None, None))
    assert segment.snapshot_rows == sum(bool(row["snapshot"]) for row in rows)
    for event, row, text in zip(events, rows, documents, strict=True):
        place = row["loc"] if row["loc"] is not None else row["cursor"]
        moment = event["_commit_ts"]
        assert event["_op"] == row["op"]
        assert (moment and round((moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000)) == row["ts_ms"]
        assert event["_loc"] == (None if place is None else json.dumps(place, ensure_ascii=False))
        assert event["_txid"] == (None if row["txid"] is None else str(row["txid"]))
        assert event["_snapshot"] is bool(row["snapshot"])
        assert event["_before"] == (None if row["before"] is None else json.dumps(row["before"]))
        assert event["_unchanged"] == row["unchanged"]
        assert typed or event["_doc"] == text.decode()


def test_columns_kept_as_text_hold_any_value(tmp_path: Path) -> None:
    schema = {
        "additionalProperties": False,
        "properties": {
            "amount": {"type": "string", "format": "number", "x-precision": 5, "x-scale": 2},
            "moment": {"type": "string", "format": "date-time"},
            "anything": {},
        },
    }
    with LogWriter.open(tmp_path, "shop") as log:
        bound = log.bind("t", schema, text=["amount", "moment", "anything"])
        assert [(c.type, c.json_text) for c in bound.schema.columns] == [("string", False)] * 3
        batch = log.begin()
        batch.add(
            bound,
            [
                document(amount="NaN", moment="infinity", anything='a"b'),
                document(amount=12, moment=None, anything={"a": [1]}),
                b'{"_meta":{"op":"u"},"amount":1.10}',
            ],
        )
        log.commit(batch, {}, 1)
    assert [(e["amount"], e["moment"], e["anything"]) for e in stored(tmp_path, "t")] == [
        ("NaN", "infinity", 'a"b'),
        ("12", None, '{"a":[1]}'),
        ("1.10", None, None),
    ]


@pytest.mark.heavy
def test_blocks_and_row_groups_do_not_show(tmp_path: Path) -> None:
    # More than one decoded part, block and row group, with a null here and there.
    schema = {
        "additionalProperties": False,
        "properties": {"id": {"type": "integer"}, "j": {}, "a": {"type": "array", "items": {"type": "string"}}},
    }
    rows: list[dict[str, Any]] = [
        {"id": n, "j": {"n": n} if n % 3 else None, "a": None if n % 5 == 0 else ["x"] * (n % 4)} for n in range(70_001)
    ]
    with LogWriter.open(tmp_path, "shop") as log:
        batch = log.begin()
        batch.add(log.bind("t", schema), [document(**row) for row in rows[:69_999]])
        batch.add(log.bind("t", schema), [document(**row) for row in rows[69_999:]])
        (segment,) = log.commit(batch, {}, 1).segments
    metadata = pq.read_metadata(tmp_path / segment.path)
    assert metadata.num_row_groups == 2
    offsets = metadata.schema.names.index("_offset")
    bounds = [metadata.row_group(group).column(offsets).statistics for group in range(2)]
    assert [(s.min, s.max) for s in bounds if s] == [(0, 69_998), (69_999, 70_000)]
    for event, row in zip(stored(tmp_path, "t"), rows, strict=True):
        assert (event["id"], event["_offset"], event["a"]) == (row["id"], row["id"], row["a"])
        assert event["j"] == (None if row["j"] is None else f'{{"n":{row["id"]}}}')


def test_dates_at_the_ends_of_the_calendar(tmp_path: Path) -> None:
    schema = {
        "additionalProperties": False,
        "properties": {"d": {"type": "string", "format": "date"}, "t": {"type": "string", "format": "date-time"}},
    }
    cells = [("0001-01-01", "0001-01-01T00:00:00Z"), ("9999-12-31", "9999-12-31T23:59:59.999999Z")]
    with LogWriter.open(tmp_path, "shop") as log:
        batch = log.begin()
        batch.add(log.bind("t", schema), [document(d=d, t=t) for d, t in cells])
        log.commit(batch, {}, 1)
    assert [(e["d"], e["t"]) for e in stored(tmp_path, "t")] == [
        (date.min, datetime.min.replace(tzinfo=UTC)),
        (date.max, datetime.max.replace(tzinfo=UTC)),
    ]
