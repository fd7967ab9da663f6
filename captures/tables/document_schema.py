"""The closed JSON Schema (draft 2020-12) of a table's documents: what is the same for all databases.

Annotations are for consumers that choose column types: ``x-precision`` and ``x-scale`` of a decimal, ``x-local`` of a
timestamp without zone, which is no ``date-time``, and ``x-enum`` with an enum's labels. The labels are no ``enum``, so
that a label that is added during a capture does not make documents invalid.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tidemark.captures.tables.bad_values import BAD_SCHEMA
from tidemark.protocol.messages import COLUMN_FILL, COLUMN_ID, COMPLETE, KEY_COLUMNS, Json

JsonSchema = dict[str, Any]


def closed_schema(
    members: Mapping[str, JsonSchema],
    key: Sequence[str],
    *,
    place: tuple[str, JsonSchema],
    txid: JsonSchema,
    truncates: bool,
    quarantines: bool,
    description: str = "",
) -> JsonSchema:
    """The schema of a table's documents.

    Only the key is required: a delete may have no other columns, and an update lacks unchanged large values.

    Args:
        members: Schemas of the columns, by name.
        key: Names of the key columns, all among ``members``; none where rows have no key.
        place: Name and schema of the member of ``source`` that orders events.
        txid: Schema of the source's transaction id.
        truncates: Whether a TRUNCATE is a document. It has no columns, so not even the key is required then.
        quarantines: Whether events may be marked for the quarantine.
        description: The table's comment.
    """
    meta = _meta_schema(members, place, txid, truncates=truncates)
    if quarantines:
        meta["properties"]["bad"] = BAD_SCHEMA
    schema: JsonSchema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"_meta": meta, **members},
        "required": ["_meta"] if truncates else ["_meta", *key],
        "additionalProperties": False,
        COMPLETE: True,
        KEY_COLUMNS: list(map(str, key)),
    }
    if description:
        schema["description"] = description
    return schema


def with_identities(schema: JsonSchema, identities: Mapping[str, str], fills: Mapping[str, Json]) -> JsonSchema:
    """The schema with ``COLUMN_ID`` and ``COLUMN_FILL`` of columns, by name; only tidemark's runtime knows them."""
    properties = dict(schema["properties"])
    for name, identity in identities.items():
        properties[name] = {**properties[name], COLUMN_ID: identity}
        if name in fills:
            properties[name][COLUMN_FILL] = fills[name]
    return {**schema, "properties": properties}


def hashed_schema(description: str, *, nullable: bool) -> JsonSchema:
    """The schema of a hashed column; ``description`` is the column's own."""
    hashed = "Not the value, but its salted SHA-256 in hexadecimal."
    return {"type": typed("string", nullable=nullable), "description": f"{description} {hashed}".lstrip()}


def typed(name: str, *, nullable: bool) -> str | list[str]:
    """The keyword ``type``."""
    return [name, "null"] if nullable else name


def _meta_schema(
    members: Mapping[str, JsonSchema], place: tuple[str, JsonSchema], txid: JsonSchema, *, truncates: bool
) -> JsonSchema:
    source = {
        "ts_ms": {"type": "integer", "description": "When the source committed, in milliseconds since 1970 UTC."},
        "snapshot": {"type": "boolean", "description": "True if a backfill read the row."},
        "schema": {"type": "string"},
        "table": {"type": "string"},
        place[0]: place[1],
        "txid": txid,
    }
    return {
        "type": "object",
        "properties": {
            "op": {
                "type": "string",
                "enum": ["c", "u", "d", *(["t"] if truncates else [])],
                "description": "Create, update, delete" + (", truncate." if truncates else "."),
            },
            "source": {
                "type": "object",
                "properties": source,
                "required": ["schema", "table", place[0]],
                "additionalProperties": False,
            },
            "before": {
                "type": "object",
                "properties": members,
                "additionalProperties": False,
                "description": "The part of the old row that the log has.",
            },
            "unchanged": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Columns that are absent because the log did not carry them: their values did not "
                "change.",
            },
        },
        "required": ["op", "source"],
        "additionalProperties": False,
    }
