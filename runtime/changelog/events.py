"""Events of the change log as Python values and JSON lines, one at a time: for ``tail``."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import orjson
import pyarrow as pa

from tidemark.protocol.changelog.models import Segment, TableSchema
from tidemark.protocol.changelog.reader import ChangeLog
from tidemark.protocol.changelog.segment_files import SegmentFile, batches

Event = dict[str, Any]

_ROWS_AT_ONCE = 8192
_INSTANT = pa.timestamp("us", "UTC")
_JSON_COLUMNS = ("_loc", "_before")


def segment_events(log: ChangeLog, segment: Segment) -> Iterator[Event]:
    """The events of one segment.

    Yields:
        The stored values by column name. Decimals are ``Decimal``, timestamps ``datetime`` (in UTC if they are
        instants), binary values ``bytes``, and JSON its text.

    Raises:
        ChangeLogError: ``TM-LOG-009`` the segment is missing, corrupt, or another one.
    """
    with SegmentFile.of(segment).opened(log.store) as file:
        for batch in batches(file, _ROWS_AT_ONCE, use_threads=True):
            columns = map(python_values, batch.columns)
            for values in zip(*columns, strict=True):
                yield dict(zip(batch.schema.names, values, strict=True))


def python_values(column: pa.Array[Any]) -> list[Any]:
    """A column's values. Instants are in ``datetime.UTC``: Arrow would look for a time zone database."""
    if column.type == _INSTANT:
        return [value and value.replace(tzinfo=UTC) for value in _naive(column, pa.timestamp("us"))]
    if column.type == pa.list_(_INSTANT):
        lists = _naive(column, pa.list_(pa.timestamp("us")))
        return [items and [item and item.replace(tzinfo=UTC) for item in items] for items in lists]
    return _naive(column, column.type)


def _naive(column: Any, type_: pa.DataType) -> list[Any]:
    values: list[Any] = column.cast(type_).to_pylist()
    return values


def json_line(event: Event, schema: TableSchema) -> bytes:
    """An event as one line of JSON, without the newline.

    JSON columns are the JSON that was captured, byte by byte. Decimals are strings, binary values base64, instants end
    in ``Z``, and numbers that JSON lacks are the strings ``NaN``, ``Infinity`` and ``-Infinity``.
    """
    raw = {*_JSON_COLUMNS, *(column.name for column in schema.columns if column.json_text)}
    return orjson.dumps({name: json_value(value, name in raw) for name, value in event.items()})


def json_value(value: Any, raw: bool) -> Any:
    """A stored value as JSON; ``raw`` is text that is JSON already."""
    match value:
        case str() if raw:
            return orjson.Fragment(value)
        case float() if value != value or value in (float("inf"), float("-inf")):
            return {"inf": "Infinity", "-inf": "-Infinity"}.get(str(value), "NaN")
        case Decimal():
            return f"{value:f}"
        case bytes():
            return base64.b64encode(value).decode()
        case datetime():
            text = value.replace(tzinfo=None).isoformat()
            return text if value.tzinfo is None else f"{text}Z"
        case date():
            return value.isoformat()
        case list():
            return [json_value(item, False) for item in value]
    return value
