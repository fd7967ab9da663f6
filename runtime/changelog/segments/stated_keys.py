"""Values of key columns as a segment states them in its commit (``KeyValue``)."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.protocol.changelog.models import LONGEST_KEY_VALUE, KeyValue, TableSchema, is_stated


def stated_key(schema: TableSchema) -> dict[str, str]:
    """The columns of a key with their Spark SQL types, in its order.

    Returns:
        None of them if no segment can state such keys: there is no key, it is in whole documents, or values of its
        type are not stated.
    """
    types = {column.name: column.type for column in schema.columns}
    if not all(name in types and is_stated(types[name]) for name in schema.key):
        return {}
    return {name: types[name] for name in schema.key}


def stated_rows(rows: pa.Table, key: dict[str, str]) -> list[list[KeyValue]] | None:
    """The keys of a few rows, without nulls; None if one is too long."""
    columns = [stated_values(rows.column(name), type_) for name, type_ in key.items()]
    stated = [column for column in columns if column is not None]
    return [list(values) for values in zip(*stated, strict=True)] if len(stated) == len(columns) else None


def stated_values(values: pa.ChunkedArray[Any] | pa.Array[Any], type_: str) -> list[KeyValue] | None:
    """A few values, without nulls, of a column of this Spark SQL type; None if one is too long."""
    if type_ == "timestamp":  # As numbers, because Arrow would need a time zone database.
        values = values.cast(pa.timestamp("us"))
    stated = [_stated(value) for value in values.to_pylist()]
    if None in stated:
        return None
    return [f"{value}Z" if type_ == "timestamp" else value for value in stated if value is not None]


def _stated(value: Any) -> KeyValue | None:
    match value:
        case str():
            return value if len(value.encode()) <= LONGEST_KEY_VALUE else None
        case bytes():
            return value.hex() if len(value) <= LONGEST_KEY_VALUE else None
        case Decimal():
            return f"{value:f}"
        case datetime():
            return value.isoformat(timespec="microseconds")
        case date():
            return value.isoformat()
    assert isinstance(value, int)  # A bool is an int, too.
    return value


class KeyBox:
    """The smallest and the largest value of each key column of one segment.

    Args:
        key: As ``stated_key`` gives it.
    """

    def __init__(self, key: dict[str, str]) -> None:
        self._key = key
        self._bounds: dict[str, pa.Array[Any]] = {}
        self._null = False

    def add(self, rows: pa.Table) -> None:
        """Takes more rows, with the columns of the key and perhaps others."""
        if self._null or not rows.num_rows:
            return
        for name in self._key:
            column = rows.column(name)
            if column.null_count:
                self._null = True
                return
            known = [self._bounds[name]] if name in self._bounds else []
            bounds: Any = pc.min_max(pa.chunked_array([*known, *column.chunks]))
            self._bounds[name] = pa.array([bounds["min"], bounds["max"]], column.type)

    def finish(self) -> tuple[list[KeyValue], list[KeyValue]] | tuple[None, None]:
        """The smallest values and the largest, in the key's order; None where ``Segment.key_min`` is."""
        if self._null or not self._bounds:
            return None, None
        least: list[KeyValue] = []
        most: list[KeyValue] = []
        for name, type_ in self._key.items():
            stated = stated_values(self._bounds[name], type_)
            if stated is None:
                return None, None
            least.append(stated[0])
            most.append(stated[1])
        return least, most
