"""What a segment states of its rows, found in the slow and obvious way: what writers are compared with."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from tidemark.protocol.changelog import KeyValue, Run, TableSchema
from tidemark.protocol.changelog.models import LONGEST_KEY_VALUE, LONGEST_RUN, MOST_RUNS, is_stated

Row = Mapping[str, Any]
Key = tuple[Any, ...]


def segment_facts(schema: TableSchema, rows: Sequence[Row], longest_run: int = LONGEST_RUN) -> dict[str, Any]:
    """``truncated_at``, ``key_min``, ``key_max`` and ``runs`` of a segment with these rows."""
    key_min, key_max = _box(schema, [row for row in rows if row["_op"] != "t"])
    return {
        "truncated_at": max((row["_offset"] for row in rows if row["_op"] == "t"), default=None),
        "key_min": key_min,
        "key_max": key_max,
        "runs": _runs(schema, [row for row in rows if row["_snapshot"]], longest_run),
    }


def stated(type_: str, value: Any) -> KeyValue | None:
    """One value of a column as it is stated; None when it is not."""
    if value is None or not is_stated(type_):
        return None
    if scale := re.fullmatch(r"decimal\(\d+,(\d+)\)", type_):
        return f"{Decimal(value):.{scale[1]}f}"
    match value:
        case str():
            return value if len(value.encode()) <= LONGEST_KEY_VALUE else None
        case bytes():
            return value.hex() if len(value) <= LONGEST_KEY_VALUE else None
        case datetime():
            naive = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
            return naive.isoformat(timespec="microseconds") + ("Z" if type_ == "timestamp" else "")
        case date():
            return value.isoformat()
    assert isinstance(value, bool | int)
    return value


def _box(schema: TableSchema, rows: Sequence[Row]) -> tuple[list[KeyValue], list[KeyValue]] | tuple[None, None]:
    columns: list[list[Any]] = [[row.get(name) for row in rows] for name in schema.key]
    if not columns or any(not column or None in column for column in columns):
        return None, None
    least, most = _stated_key(schema, tuple(map(min, columns))), _stated_key(schema, tuple(map(max, columns)))
    return (None, None) if least is None or most is None else (least, most)


def _runs(schema: TableSchema, rows: Sequence[Row], longest: int) -> list[Run] | None:
    runs: list[list[tuple[Key, int]]] = []
    for row in rows:
        key = tuple(row.get(name) for name in schema.key)
        if not key or None in key or _types(schema) is None:
            return None
        if runs and runs[-1][-1][0] < key and len(runs[-1]) < longest:
            runs[-1].append((key, row["_offset"]))
        else:
            runs.append([(key, row["_offset"])])
    ends = [(_stated_key(schema, run[0][0]), _stated_key(schema, run[-1][0])) for run in runs]
    if len(runs) > MOST_RUNS or any(first is None or last is None for first, last in ends):
        return None
    return [
        Run(first_offset=run[0][1], last_offset=run[-1][1], rows=len(run), first=first or [], last=last or [])
        for run, (first, last) in zip(runs, ends, strict=True)
    ]


def _stated_key(schema: TableSchema, key: Key) -> list[KeyValue] | None:
    types = _types(schema)
    if types is None:
        return None
    values = [stated(type_, value) for type_, value in zip(types, key, strict=True)]
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) else None


def _types(schema: TableSchema) -> list[str] | None:
    """The types of the key's columns, when all of them are stated."""
    types = {column.name: column.type for column in schema.columns}
    key = [types.get(name, "") for name in schema.key]
    return key if all(map(is_stated, key)) else None


def comparable(type_: str, value: KeyValue) -> Any:
    """A stated value as one whose Python order is the order of the column's values."""
    return Decimal(str(value)) if type_.startswith("decimal(") else value
