"""What a column that was added with a constant has in the rows from before: pg_attribute.attmissingval.

The server writes no row for such a column. It keeps the constant until all rows are written again, and no row that is
older than the column has another value. Of a partitioned table each partition has its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import orjson
import psycopg

from tidemark.captures.postgres.catalog.columns import Column, ColumnType, Table
from tidemark.captures.postgres.catalog.encodings import Unsayable, stored_rows
from tidemark.captures.postgres.rows.generated_source import MISFITS
from tidemark.captures.postgres.server.config import EndpointConfig
from tidemark.captures.postgres.tables.bindings import PostgresBinding, bound_tables
from tidemark.captures.postgres.values.types import JSON, JSONB, byte_text, column_conversion

LARGEST = 64 * 1024
"""Bytes of a constant's JSON: schemas are sent again and again."""

# The output of a composite type would wait for the lock of the type.
_MISSING = """
WITH RECURSIVE parts AS (
    SELECT %(oid)s::oid AS oid
    UNION ALL
    SELECT i.inhrelid
    FROM parts p
    JOIN pg_catalog.pg_inherits i ON i.inhparent = p.oid
    JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid AND c.relispartition
)
SELECT r.attnum, r.atttypid::bigint, p.oid::bigint,
       CASE WHEN r.attnum = ANY(%(readable)s::int2[]) THEN a.attmissingval::text END
FROM pg_catalog.pg_attribute r
CROSS JOIN parts p
JOIN pg_catalog.pg_attribute a ON a.attrelid = p.oid AND a.attname = r.attname AND NOT a.attisdropped
WHERE r.attrelid = %(oid)s AND r.attnum = ANY(%(numbers)s::int2[]) AND a.atthasmissing
"""


def present(session: psycopg.Connection, config: EndpointConfig, binding: PostgresBinding) -> Table | None:
    """The table as it is now, with its record, and with what fills new columns. Raises as ``bound_tables``."""
    table = bound_tables(session, [binding.resource], config.publication)[0]
    return None if table is None else with_fills(session, binding, table)


def with_fills(session: psycopg.Connection, binding: PostgresBinding, table: Table) -> Table:
    """The binding's table with what fills the columns that its fingerprint does not have. Raises psycopg.Error."""
    noted, record = binding.noted, table.record
    if record is None or noted.oid != table.oid:
        return table
    new = {c.number: c for c in table.columns if str(c.number) not in noted.columns and not c.generated}
    if not new:
        return table
    readable = [number for number, column in new.items() if not _is_composite(column.type)]
    found: dict[int, dict[int, str | None]] = {}
    parameters = {"oid": table.oid, "numbers": list(new), "readable": readable}
    for number, type_oid, store, text in stored_rows(session, _MISSING, parameters):
        known = type_oid == new[number].type.oid and not isinstance(text, Unsayable)
        found.setdefault(number, {})[store] = text if known else None
    # The rows of a partition that has joined since then are read, or have come by the log.
    joined = record.partitions is not None
    stores = {store.oid for store in record.stores if not joined or str(store.oid) in (noted.partitions or ())}
    handled = {column.number: column for column in replace(binding, table=table).columns}
    fills = {number: _fill(handled.get(number), texts, stores) for number, texts in found.items()}
    return replace(
        table,
        columns=tuple(replace(column, fill=fills.get(column.number, "")) for column in table.columns),
        record=replace(
            record,
            columns=tuple(
                each._replace(filled=each.filled or each.number in found, constant=bool(fills.get(each.number)))
                for each in record.columns
            ),
        ),
    )


def _fill(column: Column | None, texts: Mapping[int, str | None], stores: set[int]) -> str:
    """JSON of the constant; empty if it is not known."""
    if column is None or column.salt or not stores <= texts.keys() or len(set(texts.values())) != 1:
        return ""
    (text,) = set(texts.values())
    if text is None:
        return ""
    try:
        made = column_conversion(column).convert(byte_text(_element(text))).encode("latin-1")
    except MISFITS:
        return ""  # Such rows are read, and the table's policy decides.
    # Of JSON documents have the very text, which the schema does not keep.
    kept = not _is_json(column.type) or orjson.dumps(orjson.loads(made)) == made
    return made.decode() if kept and len(made) <= LARGEST else ""


def _element(array: str) -> str:
    """The element of an array that has one, which is not NULL (PostgreSQL docs, 8.15.6)."""
    inner = array[1:-1]
    return re.sub(r"\\(.)", r"\1", inner[1:-1], flags=re.DOTALL) if inner.startswith('"') else inner


def _is_composite(column_type: ColumnType) -> bool:
    parts = (column_type.base, column_type.element)
    return column_type.kind in ("composite", "other") or any(_is_composite(part) for part in parts if part is not None)


def _is_json(column_type: ColumnType) -> bool:
    parts = (column_type.base, column_type.element)
    of_json = column_type.oid in (JSON, JSONB) or bool(column_type.extension)
    return of_json or any(_is_json(part) for part in parts if part is not None)
