"""When later events of a table can be read together with earlier ones, and when a new generation begins."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tidemark.protocol.changelog.columns.column_identity import go_on, identities
from tidemark.protocol.changelog.models import TableSchema

_DECIMAL = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")
_ARRAY = re.compile(r"array<(.+)>")

_BIGINT_DIGITS = 19
_PLAIN_SCALE = 6
"""Decimals of a larger scale may print with an exponent, which is not the text the source shows."""


def widens(old: str, new: str) -> bool:
    """Whether every value of a type (as in ``Column.type``) has the same meaning in another one.

    Then a column of the first type may be read as the second.
    """
    if old == new:
        return True
    old_array, new_array = _ARRAY.fullmatch(old), _ARRAY.fullmatch(new)
    if old_array and new_array:
        return widens(old_array[1], new_array[1])
    old_decimal, new_decimal = _DECIMAL.fullmatch(old), _DECIMAL.fullmatch(new)
    if new_decimal:
        digits, scale = int(new_decimal[1]) - int(new_decimal[2]), int(new_decimal[2])
        if old == "bigint":
            return digits >= _BIGINT_DIGITS
        if old_decimal:
            return scale >= int(old_decimal[2]) and digits >= int(old_decimal[1]) - int(old_decimal[2])
        return False
    if new == "string":
        return old in ("bigint", "boolean", "date") or (old_decimal is not None and int(old_decimal[2]) <= _PLAIN_SCALE)
    return old == "date" and new == "timestamp_ntz"


def departure(before: Sequence[TableSchema], after: TableSchema) -> str:
    """Why events under a schema cannot be of the same generation as events under earlier schemas.

    Args:
        before: The schemas of the generation, from the oldest to the newest.
        after: The schema of later events.

    Returns:
        The reason, for people: the key is another one, or earlier events have no columns of it, or a value of a column
        cannot be read in its new type. Empty if the events can be of the same generation.
    """
    *earlier, latest = identities([*before, after])
    now = {latest[column.name]: column for column in after.columns}
    for schema, known in zip(before, earlier, strict=True):
        if why := _of_key(schema, after):
            return why
        if not known.keys() >= set(schema.key):
            return f"the events before are whole documents, without columns of the key ({', '.join(schema.key)})"
        for column in schema.columns:
            same = now.get(known[column.name])
            if column.name in schema.key and (same is None or same.name != column.name):
                return f"column {column.name} of the key is another column"
            if same is None or same.type == column.type:
                continue
            if same.name in after.key or not widens(column.type, same.type):
                return f"column {same.name} was {column.type} and is {same.type}"
    return ""


def fits(before: Sequence[TableSchema], after: Sequence[TableSchema]) -> bool:
    """Whether rows under the schemas of one generation can be in a table with those under the schemas of another."""
    if not before or not after:
        return True  # There are no rows yet.
    return go_on(before, after) and not any(departure(before, schema) for schema in after)


def changes(before: TableSchema, after: TableSchema) -> str:
    """What of a table is not as it was, for people, but for columns that were added. Empty if nothing is."""
    gone = (f"column {name} is gone" for name in _types(before).keys() - _types(after).keys())
    return ", ".join(filter(None, [_of_key(before, after), *sorted(gone), *_of_types(before, after).values()]))


def _of_key(before: TableSchema, after: TableSchema) -> str:
    if set(before.key) == set(after.key):
        return ""
    return f"the key was ({', '.join(before.key)}) and is ({', '.join(after.key)})"


def _of_types(before: TableSchema, after: TableSchema) -> dict[str, str]:
    """What is said of each column that has another type."""
    old, new = _types(before), _types(after)
    return {
        name: f"column {name} was {type_} and is {new[name]}"
        for name, type_ in old.items()
        if new.get(name, type_) != type_
    }


def _types(schema: TableSchema) -> Mapping[str, str]:
    return {column.name: column.type for column in schema.columns}
