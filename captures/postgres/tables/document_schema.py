"""The closed JSON Schema (draft 2020-12) of a table's documents.

Annotations beyond the vocabulary, for consumers that choose column types: ``x-precision`` and ``x-scale`` of a numeric,
``x-local`` of a timestamp without zone, which is no ``date-time``, ``x-enum`` with an enum's labels. The labels are no
``enum``: a label that is added while a capture runs must not make its documents invalid.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from captures.postgres.log.event_location import LOC_PARTS
from captures.postgres.tables.columns import Column, ColumnType, Table
from captures.postgres.values import types
from captures.tables.bad_values import BAD_SCHEMA, LEAVES_OUT
from protocol.messages import COMPLETE

JsonSchema = dict[str, Any]


def document_schema(table: Table, columns: Sequence[Column], key: Sequence[str], *, truncates: bool) -> JsonSchema:
    """The schema of the documents of ``table`` that have these columns.

    Only the key is required: a delete may carry nothing else, and an update leaves out unchanged large values.

    Args:
        key: Names of the key columns, all among ``columns``.
        truncates: A TRUNCATE makes a document, which has no columns at all; then not even the key is required.
    """
    members = {column.name: _column_schema(column, in_key=column.name in key) for column in columns}
    meta = _meta_schema(members, truncates=truncates)
    if any(column.on_bad_value == "quarantine" for column in columns):
        meta["properties"]["bad"] = BAD_SCHEMA
    schema: JsonSchema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"_meta": meta, **members},
        "required": ["_meta"] if truncates else ["_meta", *key],
        "additionalProperties": False,
        COMPLETE: True,
    }
    generated = [column.name for column in table.columns if column.generated]
    left_out = f"Generated columns are left out: {', '.join(generated)}." if generated else ""
    if description := "\n".join(filter(None, (table.description, left_out))):
        schema["description"] = description
    return schema


def _meta_schema(members: dict[str, JsonSchema], *, truncates: bool) -> JsonSchema:
    source = {
        "ts_ms": {"type": "integer", "description": "When the source committed, in milliseconds since 1970 UTC."},
        "snapshot": {"type": "boolean", "description": "True if a backfill read the row."},
        "schema": {"type": "string"},
        "table": {"type": "string"},
        "loc": {
            "type": "array",
            "prefixItems": [{"type": "integer"}] * LOC_PARTS,
            "minItems": LOC_PARTS,
            "maxItems": LOC_PARTS,
            "description": (
                "Orders all events: the log positions before the transaction, of the change and of the commit, "
                "and the number of the event in its log record."
            ),
        },
        "txid": {"type": "integer", "description": "The transaction id in the source."},
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
                "required": ["schema", "table", "loc"],
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
                "description": (
                    "Columns that are absent because the log did not carry them: their values did not change."
                ),
            },
        },
        "required": ["op", "source"],
        "additionalProperties": False,
    }


def _column_schema(column: Column, *, in_key: bool) -> JsonSchema:
    nullable = (column.nullable or column.on_bad_value in LEAVES_OUT) and not in_key
    if column.salt:
        hashed = "Not the value, but its salted SHA-256 in hexadecimal."
        return {"type": _type("string", nullable), "description": f"{column.description} {hashed}".lstrip()}
    as_text = column.on_bad_value == "text"
    if in_key and as_text and types.is_array(column.type):
        schema: JsonSchema = {"type": "string"}
    else:
        schema = type_schema(column.type, nullable=nullable, as_text=as_text)
    if column.description:
        schema["description"] = column.description
    return schema


def type_schema(column_type: ColumnType, *, nullable: bool, as_text: bool = False) -> JsonSchema:
    """The schema of one type's values, by the same choices as ``captures.postgres.values.types.conversion``."""
    if column_type.base is not None:
        return type_schema(column_type.base, nullable=nullable, as_text=as_text)
    if column_type.kind == "array" and as_text:
        return {"type": _type("array", nullable)}  # The server holds no value to the dimensions of its column.
    if column_type.kind == "array" and column_type.element is not None:
        # An element can always be null, whatever the column says.
        schema = type_schema(column_type.element, nullable=True, as_text=as_text)
        for depth in range(column_type.dimensions):
            outermost = depth == column_type.dimensions - 1
            schema = {"type": _type("array", nullable and outermost), "items": schema}
        return schema
    if column_type.kind == "composite":
        fields = {field.name: type_schema(field.type, nullable=True, as_text=as_text) for field in column_type.fields}
        return {
            "type": _type("object", nullable),
            "properties": fields,
            "required": list(fields),
            "additionalProperties": False,
        }
    if column_type.kind == "enum":
        return {"type": _type("string", nullable), "x-enum": list(column_type.labels)}
    if column_type.kind == "base":
        return _base_schema(column_type, nullable, as_text=as_text)
    return {"type": _type("string", nullable)}


def _type(name: str, nullable: bool) -> str | list[str]:
    return [name, "null"] if nullable else name


def _base_schema(base: ColumnType, nullable: bool, *, as_text: bool) -> JsonSchema:
    of_extension = types.extension_type(base)
    if of_extension == "hstore":
        return {"type": _type("object", nullable), "additionalProperties": {"type": ["string", "null"]}}
    if of_extension == "vector":
        return {"type": _type("array", nullable), "items": {"type": "number"}}
    string = _type("string", nullable)
    if as_text and base.oid in types.ANY:
        return {"type": string}
    match base.oid:
        case types.BOOL:
            return {"type": _type("boolean", nullable)}
        case types.INT2 | types.INT4 | types.INT8 | types.OID:
            return {"type": _type("integer", nullable)}
        case types.FLOAT4 | types.FLOAT8:
            # NaN and the infinities are strings.
            return {"type": ["number", "string", *(["null"] if nullable else [])], "format": "number"}
        case types.NUMERIC:
            return {"type": string, "format": "number", **_precision(base.typmod)}
        case types.JSON | types.JSONB:
            return {"contentMediaType": "application/json"}
        case types.BYTEA:
            return {"type": string, "contentEncoding": "base64"}
        case types.DATE:
            return {"type": string, "format": "date"}
        case types.TIMESTAMP:
            return {"type": string, "x-local": True}
        case types.TIMESTAMPTZ:
            return {"type": string, "format": "date-time"}
        case _:
            return {"type": string}


def _precision(typmod: int) -> JsonSchema:
    digits = types.numeric_digits(typmod)
    return {} if digits is None else {"x-precision": digits[0], "x-scale": digits[1]}
