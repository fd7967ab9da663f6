"""The Parquet files of a Delta table, and the bounds of their keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_MILLISECOND = 1000

_OLDEST = "min._offset"

_IN_PYTHON = {
    # From 0001-01-01 to 9999-12-31, as days and as microseconds since 1970: what Python's types can say.
    "date": (-719_162, 2_932_896),
    "timestamp": (-62_135_596_800_000_000, 253_402_300_799_999_999),
    "timestamp_ntz": (-62_135_596_800_000_000, 253_402_300_799_999_999),
}

_ORDERED = frozenset({"boolean", "bigint", "string", "date", "timestamp", "timestamp_ntz"})


@dataclass(frozen=True, slots=True)
class DataFile:
    """One file of a table.

    Attributes:
        path: Relative to the table's directory, as in the Delta log.
        size: The size in bytes.
        rows: The number of rows.
        stats: The statistics as JSON, in the form of the Delta log. Empty for a file that was read from a table: see
            ``PositionedTable.bounds``.
        oldest: For a file that was read from a table, the smallest ``_offset`` of its rows; None if it is unknown.
    """

    path: str
    size: int
    rows: int
    stats: str = ""
    oldest: int | None = None


@dataclass(frozen=True, slots=True)
class KeyBounds:
    """The bounds of a file's keys: for each column of the key an inclusive range of values.

    The values are of Python types whose order is that of the column: bool, int, str, ``Decimal``, ``date``,
    ``datetime`` (with a time zone for ``timestamp``, without one for ``timestamp_ntz``).

    Attributes:
        low: A lower bound per column; None if one is unknown, or if there may be a null, which comes first.
        high: An upper bound per column; None if one is unknown.
    """

    low: tuple[Any, ...] | None
    high: tuple[Any, ...] | None


def listed_files(actions: pa.Table) -> list[DataFile]:
    """The files of a table's flattened add actions, as ``DeltaTable.get_add_actions(flatten=True)`` has them."""
    columns = [actions.column(name).to_pylist() for name in ("path", "size_bytes", "num_records")]
    there = _OLDEST in actions.schema.names
    columns.append(actions.column(_OLDEST).to_pylist() if there else [None] * actions.num_rows)
    return [DataFile(path, size, rows or 0, oldest=oldest) for path, size, rows, oldest in zip(*columns, strict=True)]


def listed_bounds(actions: pa.Table, key: Mapping[str, str]) -> list[KeyBounds]:
    """The bounds of each file of a table's flattened add actions.

    Delta's statistics of times are in milliseconds, and of some engines rounded down on both sides: the upper bound is
    taken as the end of its millisecond. Statistics of doubles, binary values and arrays are not used.

    Args:
        actions: As for ``listed_files``.
        key: Names and Spark types of the key's columns.
    """
    ends = [_ends(actions, name, spark) for name, spark in key.items()]
    if not ends:
        return [KeyBounds(None, None)] * actions.num_rows
    lows, highs = zip(*ends, strict=True)
    return [
        KeyBounds(_known(low), _known(high))
        for low, high in zip(zip(*lows, strict=True), zip(*highs, strict=True), strict=True)
    ]


def _known(values: tuple[Any, ...]) -> tuple[Any, ...] | None:
    return None if None in values else values


def _ends(actions: pa.Table, name: str, spark: str) -> tuple[list[Any], list[Any]]:
    """Lower and upper bound of one column, for each file."""
    unknown: list[Any] = [None] * actions.num_rows
    low, high, nulls = f"min.{name}", f"max.{name}", f"null_count.{name}"
    there = actions.schema.names
    if not (spark in _ORDERED or spark.startswith("decimal(")) or low not in there or high not in there:
        return unknown, unknown
    lows: Any = actions.column(low)
    highs: Any = actions.column(high)
    if spark in ("timestamp", "timestamp_ntz"):
        highs = _end_of_millisecond(highs)
    if spark in _IN_PYTHON:
        lows, highs = _sayable(lows, spark), _sayable(highs, spark)
    if nulls not in there:
        return unknown, highs.to_pylist()
    counts: Any = actions.column(nulls)
    without_null: Any = pc.fill_null(pc.equal(counts, pa.scalar(0)), False)
    return pc.if_else(without_null, lows, pa.scalar(None, lows.type)).to_pylist(), highs.to_pylist()


def _end_of_millisecond(times: Any) -> Any:
    micros: Any = times.cast(pa.int64())
    whole: Any = pc.equal(pc.multiply(pc.divide(micros, _MILLISECOND), _MILLISECOND), micros)
    return pc.if_else(whole, pc.add(micros, _MILLISECOND - 1), micros).cast(times.type)


def _sayable(values: Any, spark: str) -> Any:
    """Without those that Python's types cannot say."""
    first, last = _IN_PYTHON[spark]
    numbers: Any = values.cast(pa.int32() if spark == "date" else pa.int64())
    inside = pc.and_(pc.greater_equal(numbers, pa.scalar(first)), pc.less_equal(numbers, pa.scalar(last)))
    return pc.if_else(inside, values, pa.scalar(None, values.type))
