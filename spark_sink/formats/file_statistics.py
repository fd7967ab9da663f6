"""Statistics of a Parquet file in the form of the Delta log.

Format: https://github.com/delta-io/delta/blob/master/PROTOCOL.md#per-file-statistics. Bounds enclose the values,
but need not be values: times are in milliseconds, and long strings are truncated. Unknown bounds are left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from datetime import date, datetime, timedelta
from typing import Any

import pyarrow.parquet as pq

INDEXED_COLUMNS = 32
"""The number of columns of which Delta reads statistics, unless a table's properties set another one."""

LONGEST_STRING = 64
LONGEST_KEY_STRING = 1024
"""The longest string in the statistics, in characters."""

_LAST_CODE_POINT = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)
_EPOCH = datetime(1970, 1, 1)


def delta_statistics(
    metadata: pq.FileMetaData,
    columns: Mapping[str, str],
    key: Collection[str],
    nulls: Mapping[str, int],
    doubles: Mapping[str, tuple[float, float] | None],
) -> str:
    """The statistics of a file as JSON.

    Args:
        metadata: The file's Parquet metadata.
        columns: Names and Spark types of its columns, in order.
        key: Names of the key's columns, which always get statistics.
        nulls: The number of nulls in each column.
        doubles: The smallest and the largest value of each column of doubles that has values, which the metadata does
            not state; None where there is a NaN, whose order differs between engines.
    """
    stated = [name for i, name in enumerate(columns) if i < INDEXED_COLUMNS or name in key]
    leaves = {metadata.schema.column(i).path: i for i in range(metadata.num_columns)}
    lows: dict[str, str] = {}
    highs: dict[str, str] = {}
    for name in stated:
        if name not in leaves:
            continue
        render = _renderer(columns[name], LONGEST_KEY_STRING if name in key else LONGEST_STRING)
        ends = doubles.get(name) if columns[name] == "double" else _ends(metadata, leaves[name], columns[name])
        if render is None or ends is None:
            continue
        for stats, text in ((lows, render(ends[0], False)), (highs, render(ends[1], True))):
            if text is not None:
                stats[name] = text
    parts = {
        "numRecords": str(metadata.num_rows),
        "minValues": _object(lows),
        "maxValues": _object(highs),
        "nullCount": _object({name: str(nulls[name]) for name in stated}),
    }
    return _object(parts)


def _object(members: Mapping[str, str]) -> str:
    return "{" + ",".join(f"{_quoted(name)}:{text}" for name, text in members.items()) + "}"


def _quoted(text: str) -> str:
    # delta-rs 1.6 reads some characters that are escaped as two surrogates, such as U+20000, as others.
    return json.dumps(text, ensure_ascii=False)


def _ends(metadata: pq.FileMetaData, leaf: int, spark: str) -> tuple[Any, Any] | None:
    """The smallest and the largest value of all row groups; None if a row group does not state them."""
    lows, highs = [], []
    for i in range(metadata.num_row_groups):
        chunk = metadata.row_group(i).column(leaf)
        statistics: Any = chunk.statistics
        if statistics is None or (not statistics.has_min_max and statistics.null_count < chunk.num_values):
            return None
        if statistics.has_min_max:
            # Python's dates end with the year 9999; the numbers that Parquet holds do not.
            raw = spark in ("date", "timestamp", "timestamp_ntz")
            lows.append(statistics.min_raw if raw else statistics.min)
            highs.append(statistics.max_raw if raw else statistics.max)
    return (min(lows), max(highs)) if lows else None


_Renderer = Callable[[Any, bool], str | None]


def _renderer(spark: str, longest: int) -> _Renderer | None:
    """A function from a smallest or (True) largest value to JSON; None for types without statistics."""
    if spark == "string":
        return lambda value, high: _string(value, high, longest)
    if spark.startswith("decimal("):
        return lambda value, high: format(value, "f")
    return _RENDERERS.get(spark)


def _string(value: str, high: bool, longest: int) -> str | None:
    if len(value) > longest:
        value = value[:longest]
        if high:
            raised = _raised(value)
            return None if raised is None else _quoted(raised)
    return _quoted(value)


def _raised(prefix: str) -> str | None:
    """The smallest string above all strings with this prefix."""
    while prefix:
        point = ord(prefix[-1]) + 1
        prefix = prefix[:-1]
        if point in _SURROGATES:
            point = _SURROGATES.stop
        if point <= _LAST_CODE_POINT:
            return prefix + chr(point)
    return None


def _date(days: int, high: bool) -> str | None:
    try:
        return f'"{date(1970, 1, 1) + timedelta(days=days)}"'
    except OverflowError:
        return None


def _time(micros: int, high: bool, zone: str) -> str | None:
    millis = -(-micros // 1000) if high else micros // 1000
    try:
        time = _EPOCH + timedelta(milliseconds=millis)
    except OverflowError:
        return None
    return f'"{time.isoformat(timespec="milliseconds")}{zone}"'


_RENDERERS: dict[str, _Renderer] = {
    "boolean": lambda value, high: "true" if value else "false",
    "bigint": lambda value, high: str(value),
    "double": lambda value, high: repr(value) if abs(value) != float("inf") else None,
    "date": _date,
    "timestamp": lambda value, high: _time(value, high, "Z"),
    "timestamp_ntz": lambda value, high: _time(value, high, ""),
}
