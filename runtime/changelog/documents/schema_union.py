"""The union of a collection's schema and a partial one: every document that fitted still fits.

A ``sourcedSchema`` of Flow's connectors only widens the known schema.
"""

from __future__ import annotations

from typing import Any

from tidemark.protocol.changelog.columns.table_schema import UNCLEAR, Schema, UnclearSchema, kinds, members, whole

_SAME = ("format", "contentEncoding", "contentMediaType", "x-precision", "x-scale", "x-local", "description")
"""Keywords that stay if they are equal on both sides."""


def union(known: Schema, more: Schema) -> Schema:
    """A closed schema with the members of both.

    It is ``{}``, which allows anything, if the second schema does not define its members.
    """
    try:
        added, _ = members(more)
    except UnclearSchema:
        return {}
    try:
        before, _ = members(known)
    except UnclearSchema:
        before = {}
    properties = {name: whole(part, known) for name, part in before.items()}
    for name, part in added.items():
        found = whole(part, more)
        properties[name] = _either(properties[name], found) if name in properties else found
    return {"type": "object", "properties": properties, "additionalProperties": False}


def is_closed(schema: Schema) -> bool:
    """Whether documents have no other members than those that the schema names."""
    try:
        return members(schema)[1]
    except UnclearSchema:
        return False


def _either(one: Schema, other: Schema) -> Schema:
    """A schema of every value that fits one of two."""
    if one == other:
        return one
    if "type" not in one or "type" not in other or UNCLEAR & (one.keys() | other.keys()):
        return {}
    merged: dict[str, Any] = {"type": sorted(kinds(one) | kinds(other))}
    for keyword in _SAME:
        if keyword in one and one[keyword] == other.get(keyword):
            merged[keyword] = one[keyword]
    if "items" in one and "items" in other:
        merged["items"] = _either(whole(one["items"], one), whole(other["items"], other))
    if bounds := [schema["maximum"] for schema in (one, other) if "maximum" in schema]:
        merged["maximum"] = max(bounds)  # Without limits an integer has 64 bits.
    return merged
