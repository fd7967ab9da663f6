"""The schema of a table's documents: see ``tidemark.captures.tables.document_schema``."""

from __future__ import annotations

import json
from collections.abc import Sequence

from tidemark.captures.postgres.catalog.columns import Column, ColumnType, Table
from tidemark.captures.postgres.catalog.encodings import Unsayable
from tidemark.captures.postgres.server.positions import LOC_PARTS
from tidemark.captures.postgres.values import types
from tidemark.captures.tables.bad_values import LEAVES_OUT
from tidemark.captures.tables.document_schema import (
    JsonSchema,
    closed_schema,
    hashed_schema,
    typed,
    with_identities,
)

_LOC: JsonSchema = {
    "type": "array",
    "prefixItems": [{"type": "integer"}] * LOC_PARTS,
    "minItems": LOC_PARTS,
    "maxItems": LOC_PARTS,
    "description": "Orders all events: the log positions before the transaction, of the change and of the commit,"
    " and the number of the event in its log record.",
}


def document_schema(
    table: Table, columns: Sequence[Column], key: Sequence[str], *, truncates: bool, identified: bool = False
) -> JsonSchema:
    """The schema of the documents of ``table`` that have these columns.

    Args:
        truncates: A TRUNCATE makes a document, which has no columns at all; then not even the key is required.
        identified: The schema has the columns' identities, and what fills older rows.
    """
    # Not as an Unsayable: JSON's encoder takes no subclass of str for the name of a member.
    members = {str(column.name): _column_schema(column, in_key=column.name in key) for column in columns}
    generated = [column.name for column in table.columns if column.generated]
    left_out = f"Generated columns are left out: {', '.join(generated)}." if generated else ""
    schema = closed_schema(
        members,
        key,
        place=("loc", _LOC),
        txid={"type": "integer", "description": "The transaction id in the source."},
        truncates=truncates,
        quarantines=any(column.on_bad_value == "quarantine" for column in columns),
        description="\n".join(filter(None, (table.description, left_out))),
    )
    if not identified:
        return schema
    identities = {str(column.name): str(column.number) for column in columns if column.number}
    return with_identities(schema, identities, {str(c.name): json.loads(c.fill) for c in columns if c.fill})


def _column_schema(column: Column, *, in_key: bool) -> JsonSchema:
    nullable = (column.nullable or column.on_bad_value in LEAVES_OUT) and not in_key
    if column.salt:
        return hashed_schema(column.description, nullable=nullable)
    as_text = column.on_bad_value == "text"
    if in_key and as_text and column.type.beneath.kind == "array":
        schema: JsonSchema = {"type": "string"}
    else:
        schema = type_schema(column.type, nullable=nullable, as_text=as_text)
    if column.description:
        schema["description"] = column.description
    return schema


def type_schema(column_type: ColumnType, *, nullable: bool, as_text: bool = False) -> JsonSchema:
    """The schema of one type's values, by the choices of ``tidemark.captures.postgres.values.types.conversion``."""
    if column_type.base is not None:
        return type_schema(column_type.base, nullable=nullable, as_text=as_text)
    if column_type.kind == "array" and as_text:
        return {"type": typed("array", nullable=nullable)}  # The server holds no value to the dimensions of its column.
    if column_type.kind == "array" and column_type.element is not None:
        # An element can always be null, whatever the column says.
        schema = type_schema(column_type.element, nullable=True, as_text=as_text)
        for depth in range(column_type.dimensions):
            outermost = depth == column_type.dimensions - 1
            schema = {"type": typed("array", nullable=nullable and outermost), "items": schema}
        return schema
    if column_type.kind == "composite":
        fields = {
            str(field.name): type_schema(field.type, nullable=True, as_text=as_text) for field in column_type.fields
        }
        return {
            "type": typed("object", nullable=nullable),
            "properties": fields,
            "required": list(fields),
            "additionalProperties": False,
        }
    if column_type.kind == "enum":
        return {"type": typed("string", nullable=nullable), "x-enum": _sayable(column_type.labels)}
    if column_type.kind == "base":
        return _base_schema(column_type, nullable, as_text=as_text)
    return {"type": typed("string", nullable=nullable)}


def _base_schema(base: ColumnType, nullable: bool, *, as_text: bool) -> JsonSchema:
    of_extension = types.extension_type(base)
    if of_extension == "hstore":
        return {"type": typed("object", nullable=nullable), "additionalProperties": {"type": ["string", "null"]}}
    if of_extension == "vector":
        return {"type": typed("array", nullable=nullable), "items": {"type": "number"}}
    string = typed("string", nullable=nullable)
    if as_text and base.oid in types.ANY:
        return {"type": string}
    match base.oid:
        case types.BOOL:
            return {"type": typed("boolean", nullable=nullable)}
        case types.INT2 | types.INT4 | types.INT8 | types.OID:
            return {"type": typed("integer", nullable=nullable)}
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


def _sayable(labels: Sequence[str]) -> list[str]:
    """Those that a document can have: the others are bad values."""
    return [label for label in labels if not isinstance(label, Unsayable)]


def _precision(typmod: int) -> JsonSchema:
    digits = types.numeric_digits(typmod)
    return {} if digits is None else {"x-precision": digits[0], "x-scale": digits[1]}
