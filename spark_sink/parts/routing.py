"""The range of keys that an event belongs to, as an expression of Spark SQL."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from math import nan
from typing import Any

from tidemark.spark_sink.changes.key_order import NOT_A_NUMBER, NULL, Place
from tidemark.spark_sink.tables.column_types import quoted, sql_type


def route(key: Sequence[str], types: Sequence[str], bounds: Sequence[Place]) -> str:
    """The number of a key's range, from 0, as SQL of type int.

    Args:
        key: Names of the key's columns.
        types: Their Spark types.
        bounds: The begins of all ranges but the first, in order.
    """
    names = [quoted(name) for name in key]

    def search(low: int, high: int) -> str:
        if low == high:
            return str(low)
        middle = (low + high) // 2
        condition = _before(names, types, bounds[middle])
        return f"CASE WHEN {condition} THEN {search(low, middle)} ELSE {search(middle + 1, high)} END"

    return f"CAST({search(0, len(bounds))} AS INT)"


def literal(value: Any, type_: str) -> str:
    """A value as an SQL literal. It depends neither on the value's characters nor on the session's time zone."""
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return f"CAST({value} AS {type_})" if value >= 0 else f"CAST('{value}' AS {type_})"
        case float():
            return f"CAST('{value}' AS {type_})"
        case str():
            return f"CAST(X'{value.encode().hex()}' AS STRING)"
        case bytes():
            return f"X'{value.hex()}'"
        case Decimal():
            return f"CAST('{value:f}' AS {type_})"
        case datetime():
            text = value.astimezone(UTC).isoformat() if value.tzinfo else value.isoformat()
            return f"CAST('{text}' AS {sql_type(type_)})"
        case date():
            return f"CAST('{value.isoformat()}' AS DATE)"
    raise TypeError(f"no key column has values of type {type(value).__name__}")


def _before(names: Sequence[str], types: Sequence[str], bound: Place) -> str:
    """An SQL condition: whether a key comes before a bound. Nulls come first, so nothing comes before a null."""
    condition = "FALSE"
    for name, type_, step in reversed(list(zip(names, types, bound, strict=False))):
        if step == NULL:
            condition = f"({name} IS NULL AND {condition})"
        else:
            value = literal(nan if step == NOT_A_NUMBER else step[1], type_)
            condition = f"({name} IS NULL OR {name} < {value} OR ({name} = {value} AND {condition}))"
    return condition
