"""Replays a change log to what its tables hold at the end, and compares that with the source, row by row.

This is what the design promises to every consumer, in its plainest form: events in ``_offset`` order, ``c`` and ``u``
set a row, ``d`` removes it, ``t`` empties the table, columns in ``_unchanged`` keep their value.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.workload.source import Source, in_order
from tests.workload.tables import Database, source_of
from tidemark.demo.comparison import Comparison, canonical, canonical_json, compare
from tidemark.protocol.changelog import ChangeLog, TableSchema

Key = tuple[Any, ...]
Record = dict[str, Any]

MISSING = "<no event carried this column>"
"""Stands for a column that was unchanged in a row that no earlier event had given: it differs from every value."""


def replay(log: ChangeLog, collection: str) -> dict[Key, Record]:
    """The rows of a collection after all events of the log, by key.

    Raises:
        AssertionError: When offsets do not rise, or the log breaks its own rules.
    """
    summary = log.summary()
    rows: dict[Key, Record] = {}
    last = -1
    for segment in log.segments(collection, 0, summary.next_offset):
        schema = summary.schemas[segment.fingerprint]
        table = pq.read_table(log.root / segment.path)
        assert table.num_rows == segment.rows, f"{segment.path} has {table.num_rows} rows, its commit says otherwise"
        for event in table.to_pylist():
            assert event["_offset"] > last, f"{segment.path}: offset {event['_offset']} follows {last}"
            last = event["_offset"]
            _apply(rows, event, schema)
        assert last == segment.last_offset, f"{segment.path} ends at {last}, its commit says otherwise"
    return rows


def _apply(rows: dict[Key, Record], event: Record, schema: TableSchema) -> None:
    operation = event["_op"]
    if operation == "t":
        rows.clear()
        return
    key = tuple(event[name] for name in schema.key)
    if operation == "d":
        rows.pop(key, None)
        return
    assert operation in ("c", "u"), f"an event has the operation {operation!r}"
    old = rows.get(key, {})
    unchanged = event["_unchanged"] or ()
    rows[key] = {
        column.name: old.get(column.name, MISSING) if column.name in unchanged else event[column.name]
        for column in schema.columns
    }


def compare_with_source(path: Path, database: Database, tables: dict[str, list[str]] | None = None) -> list[str]:
    """Every difference between the change log at ``path`` and the source tables; empty when all is equal.

    Args:
        path: The change log.
        database: The source.
        tables: ``schema.table`` and key; those of the random workload by default.
    """
    log = ChangeLog(path)
    source = source_of(database)
    differences: list[str] = []
    for table, key in (source.tables() if tables is None else tables).items():
        found = _compare_table(log, source, table, key)
        differences += [f"{table} {example}" for example in found.examples]
        if found.differing > len(found.examples):
            differences.append(f"{table}: {found.differing} differing keys in all")
    return differences


def _compare_table(log: ChangeLog, source: Source, table: str, key: list[str]) -> Comparison:
    expected = source.contents(table, key)
    target = []
    for found, record in replay(log, table.replace(".", "/")).items():
        row = tuple(
            canonical_json(record.get(name))
            if name in expected.json_columns and record.get(name) != MISSING
            else canonical(record.get(name, MISSING))
            for name in expected.columns
        )
        target.append((found, row))
    return compare(expected.rows, in_order(target), expected.columns)
