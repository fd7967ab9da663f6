"""The schema of a table's documents: see ``tidemark.captures.tables.document_schema``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tidemark.captures.mysql.terms.columns import Column, Table
from tidemark.captures.mysql.values.types import ANY, Form, form
from tidemark.captures.tables.bad_values import LEAVES_OUT
from tidemark.captures.tables.document_schema import JsonSchema, closed_schema, hashed_schema, with_identities
from tidemark.protocol.messages import Json

_BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}


def document_schema(
    table: Table,
    columns: Sequence[Column],
    key: Sequence[str],
    *,
    truncates: bool,
    tinyint1_as_bool: bool,
    identities: Mapping[str, str] | None = None,
    fills: Mapping[str, Json] | None = None,
) -> JsonSchema:
    """The schema of the documents of a table; ``truncates``: of a TRUNCATE, too, which has no columns
    at all, not even the key. ``identities`` and ``fills`` as of ``with_identities``; None where schemas lack them.
    """
    members = {
        column.name: _column_schema(column, in_key=column.name in key, tinyint1_as_bool=tinyint1_as_bool)
        for column in columns
    }
    schema = closed_schema(
        members,
        key,
        place=(
            "cursor",
            {"type": "string", "description": "Orders the events of one server: binlog file, position, row."},
        ),
        txid={"type": "string", "description": "The GTID of the transaction in the source."},
        truncates=truncates,
        quarantines=any(column.on_bad_value == "quarantine" for column in columns),
        description=table.description,
    )
    if identities is None:
        return schema
    return with_identities(schema, {name: identities[name] for name in members}, fills or {})


def _column_schema(column: Column, *, in_key: bool, tinyint1_as_bool: bool) -> JsonSchema:
    nullable = (column.nullable or column.on_bad_value in LEAVES_OUT) and not in_key
    if column.salt:
        return hashed_schema(column.description, nullable=column.nullable)
    schema = type_schema(column, nullable=nullable, tinyint1_as_bool=tinyint1_as_bool)
    if column.description:
        schema["description"] = column.description
    return schema


def type_schema(column: Column, *, nullable: bool, tinyint1_as_bool: bool = False) -> JsonSchema:
    """The schema of a column's values, by ``tidemark.captures.mysql.values.types.form``.

    Raises ValueError for a type without one.
    """

    def typed(name: str, **more: Any) -> JsonSchema:
        return {"type": [name, "null"] if nullable else name, **more}

    found = form(column, tinyint1_as_bool=tinyint1_as_bool)
    if column.on_bad_value == "text" and found in ANY:
        return typed("string")
    match found:
        case Form.BOOLEAN:
            return typed("boolean")
        case Form.INTEGER:
            return typed("integer", **_range(column))
        case Form.DECIMAL:
            return typed("string", format="number", **_precision(column))
        case Form.FLOAT | Form.DOUBLE:
            return typed("number")
        case Form.BINARY:
            return typed("string", contentEncoding="base64")
        case Form.DATE:
            return typed("string", format="date")
        case Form.DATETIME:
            return typed("string", **{"x-local": True})
        case Form.TIMESTAMP:
            return typed("string", format="date-time")
        case Form.JSON:
            return {"contentMediaType": "application/json"}
        case Form.VECTOR:
            return typed("array", items={"type": "number"})
        case Form.STRING if column.data_type == "enum":
            return typed("string", **{"x-enum": list(column.labels)})
        case Form.STRING | Form.TIME | Form.GEOMETRY:
            return typed("string")
        case None:
            raise ValueError(f"{column.data_type} has no form")


def _range(column: Column) -> JsonSchema:
    """Least and greatest value where a consumer cannot take a signed integer of 64 bits for granted."""
    bits = column.length if column.data_type == "bit" else _BITS.get(column.data_type)
    if bits is None or not (column.unsigned or column.data_type == "bit"):
        return {}
    return {"minimum": 0, "maximum": 2**bits - 1}


def _precision(column: Column) -> JsonSchema:
    return {} if column.precision is None else {"x-precision": column.precision, "x-scale": column.scale or 0}
