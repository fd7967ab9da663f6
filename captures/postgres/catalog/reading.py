"""Reads tables and types from the system catalogs (PostgreSQL docs, chapter "System Catalogs").

The number of queries does not grow with the number of tables. Names are bound, never formatted into SQL.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import psycopg

from tidemark.captures.postgres.catalog.columns import Attribute, Column, ColumnType, Kind, Table
from tidemark.captures.postgres.catalog.encodings import is_transcoded, rows_of_tables, stored_rows
from tidemark.captures.postgres.catalog.table_record import TYPE_PARTS

# Sizes and estimates of a partitioned table are those of its partitions. pg_inherits is walked by hand:
# pg_partition_tree() would wait for the lock of every table. So would pg_table_size(): of tables that somebody locks,
# the last VACUUM's word has to do.
_TABLES = """
WITH RECURSIVE tables AS (
    SELECT c.oid, n.nspname, c.relname, c.relreplident::text, c.relkind = 'p' AS partitioned,
           c.relispartition AS partition
    FROM pg_catalog.pg_class c
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p')
      AND (NOT c.relispartition OR %(schemas)s::text[] IS NOT NULL)
      AND c.relpersistence = 'p'
      AND n.nspname <> 'information_schema'
      AND left(n.nspname, 3) <> 'pg_'
      AND (%(schemas)s::text[] IS NULL
           OR (n.nspname, c.relname) IN (SELECT * FROM unnest(%(schemas)s::text[], %(names)s::text[])))
), parts AS (
    SELECT oid AS root, oid FROM tables
    UNION ALL
    SELECT p.root, i.inhrelid
    FROM parts p
    JOIN pg_catalog.pg_inherits i ON i.inhparent = p.oid
    JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid AND c.relispartition
), figures AS (
    SELECT p.root,
           sum(c.reltuples) FILTER (WHERE c.reltuples >= 0 AND c.relkind = 'r')::bigint AS estimated_rows,
           coalesce(sum(CASE WHEN c.oid = ANY(locked) THEN c.relpages * current_setting('block_size')::bigint
                        ELSE pg_catalog.pg_table_size(c.oid) END), 0)::bigint AS size_bytes
    FROM parts p JOIN pg_catalog.pg_class c ON c.oid = p.oid,
         (SELECT array(SELECT relation FROM pg_catalog.pg_locks WHERE mode = 'AccessExclusiveLock')) l (locked)
    GROUP BY p.root
)
SELECT t.oid::bigint, t.nspname, t.relname, t.relreplident, t.partitioned, t.partition,
       coalesce(pg_catalog.obj_description(t.oid, 'pg_class'), ''), f.estimated_rows, f.size_bytes
FROM tables t JOIN figures f ON f.root = t.oid
"""

# From version 18 on, attnotnull is also set while a NOT NULL constraint was not yet checked against the rows.
_COLUMNS = """
SELECT a.attrelid::bigint, a.attname, a.atttypid::bigint, a.atttypmod,
       pg_catalog.format_type(a.atttypid, a.atttypmod), a.attndims,
       NOT a.attnotnull OR EXISTS (SELECT FROM pg_catalog.pg_constraint n WHERE n.conrelid = a.attrelid
                                   AND n.contype = 'n' AND n.conkey[1] = a.attnum AND NOT n.convalidated),
       a.attgenerated::text, coalesce(pg_catalog.col_description(a.attrelid, a.attnum), ''), a.attnum
FROM pg_catalog.pg_attribute a
WHERE a.attrelid = ANY(%s::oid[]) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attrelid, a.attnum
"""

# A deferrable constraint is no key: inside a transaction two rows may have the same values, and the log shows them so.
# Of several unique indexes the one that the log carries (the replica identity) comes first, then the narrowest.
_KEYS = """
SELECT DISTINCT ON (i.indrelid) i.indrelid::bigint, NOT i.indisprimary, k.names
FROM pg_catalog.pg_index i
JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
CROSS JOIN LATERAL (
    SELECT array_agg(a.attname::text ORDER BY p.place) AS names,
           bool_and(a.attnotnull AND a.attgenerated = ''
                    AND NOT EXISTS (SELECT FROM pg_catalog.pg_constraint n WHERE n.conrelid = a.attrelid
                                    AND n.contype = 'n' AND n.conkey[1] = a.attnum AND NOT n.convalidated)) AS complete
    FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS p (attnum, place)
    JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = p.attnum
    WHERE p.place <= i.indnkeyatts
) k
WHERE i.indrelid = ANY(%s::oid[])
  AND i.indisunique AND i.indimmediate AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL AND k.complete
ORDER BY i.indrelid, i.indisprimary DESC, i.indisreplident DESC, i.indnkeyatts, c.relname
"""

# Everything that the given types are made of, however deep.
_TYPES = (
    """
WITH RECURSIVE reached (oid) AS (
    SELECT unnest(%s::oid[])
    UNION
    SELECT part.oid
    FROM reached r
    JOIN pg_catalog.pg_type t ON t.oid = r.oid
    """
    + TYPE_PARTS
    + """
)
SELECT t.oid::bigint, pg_catalog.format_type(t.oid, -1), t.typtype::text, t.typdelim::text,
       t.typbasetype::bigint, t.typtypmod, t.typndims,
       CASE WHEN t.typtype <> 'd' AND t.typoutput = 'pg_catalog.array_out'::regproc THEN t.typelem::bigint ELSE 0 END,
       (SELECT g.rngsubtype::bigint FROM pg_catalog.pg_range g WHERE t.oid IN (g.rngtypid, g.rngmultitypid)),
       array(SELECT e.enumlabel::text FROM pg_catalog.pg_enum e WHERE e.enumtypid = t.oid ORDER BY e.enumsortorder),
       (SELECT x.extname FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_extension x ON x.oid = d.refobjid
        WHERE d.classid = 'pg_catalog.pg_type'::regclass AND d.objid = t.oid AND d.deptype = 'e'
          AND d.refclassid = 'pg_catalog.pg_extension'::regclass)
FROM reached r JOIN pg_catalog.pg_type t ON t.oid = r.oid
"""
)

_ATTRIBUTES = """
SELECT t.oid::bigint, a.attname, a.atttypid::bigint, a.atttypmod,
       pg_catalog.format_type(a.atttypid, a.atttypmod), a.attndims
FROM pg_catalog.pg_type t
JOIN pg_catalog.pg_attribute a ON a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped
WHERE t.oid = ANY(%s::oid[]) AND t.typtype = 'c'
ORDER BY t.oid, a.attnum
"""


def read_tables(connection: psycopg.Connection, names: Sequence[tuple[str, str]] | None = None) -> list[Table]:
    """Every table that can be captured, sorted by schema and name. Raises psycopg.Error.

    These are ordinary tables and the roots of partitioned tables, outside the system's schemas. Foreign, temporary and
    unlogged tables are left out, because the log does not have their rows. Partitions are left out unless they are in
    ``names``, because the log has their rows under the root's name. Names with bytes that stand for no character are
    ``Unsayable``. All of it is of one moment: a table that is altered or dropped meanwhile is read as it was before.

    Args:
        connection: In autocommit mode.
        names: Only these tables, as (schema, name). A name without such a table is left out.
    """
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        found = rows_of_tables(connection, _TABLES, names)
        oids = [row[0] for row in found]
        columns = _read_columns(connection, oids)
        keys = {oid: (tuple(key), fallback) for oid, fallback, key in stored_rows(connection, _KEYS, [oids])}
    tables = []
    for oid, schema, name, identity, partitioned, partition, description, estimated_rows, size_bytes in found:
        key, fallback = keys.get(oid, ((), False))
        tables.append(
            Table(
                oid=oid,
                schema=schema,
                name=name,
                columns=tuple(columns[oid]),
                key=key,
                key_is_fallback=fallback,
                replica_identity=identity,
                partitioned=partitioned,
                partition=partition,
                description=description,
                estimated_rows=estimated_rows,
                size_bytes=size_bytes,
            )
        )
    # Python sorts them: the order must not change with the server's collation.
    return sorted(tables, key=lambda table: table.path)


def read_types(connection: psycopg.Connection, oids: Iterable[int]) -> dict[int, ColumnType]:
    """Types by oid, without modifiers, for columns that are in the log and no longer in the catalog.

    The result has every oid of ``oids``. A type that was dropped has the kind ``other``.

    Raises:
        psycopg.Error: The server refuses.
    """
    wanted = list(oids)
    types = _read_type_rows(connection, wanted)
    return {oid: types.declared(oid, -1, None, 0) for oid in wanted}


def _read_columns(connection: psycopg.Connection, relations: list[int]) -> dict[int, list[Column]]:
    rows = stored_rows(connection, _COLUMNS, [relations])
    types = _read_type_rows(connection, {row[2] for row in rows})
    transcoded = is_transcoded(connection)
    columns: dict[int, list[Column]] = defaultdict(list)
    for relation, name, oid, typmod, type_name, dimensions, nullable, generated, description, number in rows:
        declared = types.declared(oid, typmod, type_name, dimensions)
        columns[relation].append(
            Column(name, declared, nullable, generated, description, number=number, transcoded=transcoded)
        )
    return columns


@dataclass(frozen=True, slots=True)
class _TypeRow:
    """A row of pg_type, with what other catalogs say of it."""

    oid: int
    name: str
    typtype: str
    delimiter: str
    base: int
    base_typmod: int
    dimensions: int
    element: int
    subtype: int | None
    labels: list[str]
    extension: str | None


class _Types:
    """Builds types from catalog rows, each once per way of declaring it."""

    def __init__(self, rows: dict[int, _TypeRow], attributes: dict[int, list[tuple[str, int, int, str, int]]]) -> None:
        self._rows = rows
        self._attributes = attributes
        self._built: dict[tuple[int, int, str | None, int], ColumnType] = {}

    def declared(self, oid: int, typmod: int, name: str | None, dimensions: int) -> ColumnType:
        """The type as a column declares it. With ``name`` None it has the type's own name."""
        declaration = (oid, typmod, name, dimensions)
        if declaration not in self._built:
            row = self._rows.get(oid)
            if row is None:
                return ColumnType(oid, typmod, name or "???", "other")  # as format_type prints an unknown oid
            self._built[declaration] = self._build(row, typmod, name or row.name, dimensions)
        return self._built[declaration]

    def _build(self, row: _TypeRow, typmod: int, name: str, dimensions: int) -> ColumnType:
        plain = ColumnType(
            row.oid,
            typmod,
            name,
            "base",
            delimiter=row.delimiter,
            extension=row.extension or "",
            labels=tuple(row.labels),
        )
        if row.typtype == "d":
            return replace(plain, kind="domain", base=self.declared(row.base, row.base_typmod, None, row.dimensions))
        if row.element:
            # The modifier of an array type applies to its elements.
            element = self.declared(row.element, typmod, None, 0)
            return replace(plain, kind="array", element=element, dimensions=max(dimensions, 1))
        if row.subtype is not None:
            return replace(plain, kind="range", element=self.declared(row.subtype, -1, None, 0))
        if row.typtype == "c":
            fields = tuple(
                Attribute(field, self.declared(oid, field_typmod, type_name, field_dimensions))
                for field, oid, field_typmod, type_name, field_dimensions in self._attributes.get(row.oid, ())
            )
            return replace(plain, kind="composite", fields=fields)
        kind: Kind = "enum" if row.typtype == "e" else "base" if row.typtype == "b" else "other"
        return replace(plain, kind=kind)


def _read_type_rows(connection: psycopg.Connection, oids: Iterable[int]) -> _Types:
    rows = {row[0]: _TypeRow(*row) for row in stored_rows(connection, _TYPES, [list(oids)])}
    attributes: dict[int, list[Any]] = defaultdict(list)
    composites = [row.oid for row in rows.values() if row.typtype == "c"]
    for oid, *attribute in stored_rows(connection, _ATTRIBUTES, [composites]) if composites else ():
        attributes[oid].append(attribute)
    return _Types(rows, attributes)
