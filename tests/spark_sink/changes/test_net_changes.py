from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.spark_sink.log_builder import Event
from tests.spark_sink.replay import Row, random_events, replay
from tidemark.spark_sink.changes.net_changes import DELETED, NetChanges, net_changes
from tidemark.spark_sink.tables.column_types import arrow_schema

COLUMNS = ("id", "name", "note", "_offset")
TYPES = {"id": "bigint", "name": "string", "note": "string", "_offset": "bigint"}
META = {"_op": "string", "_unchanged": "array<string>"}

PARTS = [("name", "note"), ("name",), ("note",), ()]
CHANGE = st.one_of(
    st.builds(
        lambda id, name, note, carried: Event(
            "u",
            {"id": id, **{n: v for n, v in (("name", name), ("note", note)) if n in carried}},
            unchanged=tuple(n for n in ("name", "note") if n not in carried),
        ),
        st.integers(0, 3),
        st.sampled_from([None, "a", "b"]),
        st.sampled_from([None, "x", "y"]),
        st.sampled_from(PARTS),
    ),
    st.builds(lambda id: Event("d", {"id": id}), st.integers(0, 3)),
)


def table(events: Sequence[tuple[int, Event]], chunk: int = 7) -> pa.Table:
    """Events in chunks, as segments leave them."""
    rows = [
        {**event.row, "_op": event.op, "_offset": offset, "_unchanged": list(event.unchanged) or None}
        for offset, event in events
    ]
    schema = arrow_schema({**TYPES, **META})
    batches = [pa.RecordBatch.from_pylist(rows[first : first + chunk], schema) for first in range(0, len(rows), chunk)]
    return pa.Table.from_batches(batches, schema)


def merged(before: dict[int, Row], changes: NetChanges) -> dict[int, Row]:
    """What the merge does, in Python."""
    after = dict(before)
    for change in changes.rows.to_pylist():
        after.pop(change["id"], None)
        if not change[DELETED]:
            row = {name: change[name] for name in COLUMNS}
            for name, kept in changes.partial.items():
                if change[kept]:
                    row[name] = before.get(change["id"], {}).get(name)
            after[change["id"]] = row
    return after


def assert_same(events: list[tuple[int, Event]], middle: int) -> None:
    changes = net_changes(table(events[middle:]), ["id"], COLUMNS)
    keys: list[Any] = changes.rows.column("id").to_pylist()
    assert len(set(keys)) == len(keys)
    assert merged(replay(events[:middle]), changes) == replay(events)


@settings(deadline=None)
@given(st.lists(CHANGE, max_size=14), st.integers(0, 14))
def test_merging_net_changes_is_replaying_the_events(events: list[Event], middle: int) -> None:
    assert_same(list(enumerate(events)), min(middle, len(events)))


def test_many_keys_with_many_events() -> None:
    chance = random.Random(1)
    assert_same(list(enumerate(random_events(chance, 20_000, keys=3000, truncates=0, table="t"))), 9000)


def test_a_key_of_several_columns_of_any_type() -> None:
    rows = [
        {"a": a, "b": b, "v": v, "_op": op, "_unchanged": lacked}
        for a, b, v, op, lacked in [
            (b"x", "1", "old", "c", None),
            (b"x", "2", "other", "c", None),
            (b"x", "1", None, "u", ["v"]),
            (b"y", "1", "gone", "c", None),
            (b"y", "1", None, "d", None),
        ]
    ]
    events = pa.Table.from_pylist(rows, arrow_schema({"a": "binary", "b": "string", "v": "string", **META}))

    changes = net_changes(events, ["a", "b"], ["a", "b", "v"])

    found = {(r["a"], r["b"]): (r["v"], r[DELETED]) for r in changes.rows.to_pylist()}
    assert found == {(b"x", b"1".decode()): ("old", False), (b"x", "2"): ("other", False), (b"y", "1"): (None, True)}


def test_a_null_that_was_carried_is_no_missing_value() -> None:
    events = [(0, Event("u", {"id": 1, "name": None})), (1, Event("u", {"id": 1}, unchanged=("name",)))]
    before = {1: {"id": 1, "name": "old", "note": None, "_offset": -1}}

    assert merged(before, net_changes(table(events), ["id"], COLUMNS))[1]["name"] is None


def test_zeros_of_both_signs_are_one_key() -> None:
    types = {"at": "double", "name": "string", "note": "string", "_offset": "bigint"}
    rows = [
        {"at": 0.0, "name": "old", "note": "kept", "_offset": 0, "_op": "c"},
        {"at": -0.0, "name": "new", "_offset": 1, "_op": "u", "_unchanged": ["note"]},
    ]
    events = pa.Table.from_pylist(rows, arrow_schema({**types, **META}))

    (row,) = net_changes(events, ["at"], list(types)).rows.to_pylist()

    assert (row["at"], row["name"], row["note"], row["_offset"]) == (-0.0, "new", "kept", 1)
