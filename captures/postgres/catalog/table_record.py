"""The record of a captured table: everything in the catalogs that its correct capture depends on.

One query reads the records of any number of tables. The ``xmin`` of a catalog row is the transaction that wrote it. It
is in the record where a change that is undone between two looks matters: the two records then differ.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import psycopg

from tidemark.captures.postgres.catalog.encodings import rows_of_tables

FIRST_NORMAL_OID = 16384
"""Types below are the server's own (transam.h)."""

SCHEMAS_VERSION = 150000
"""Since this one, a publication can have all tables of a schema, and some rows or columns of a table."""

OF_PARTITION = "/* of a partition */ "
"""Begins a condition for the rows of a partition, which the server finds by it."""

# An entry of the publication publishes a table. Entries are created and dropped, and never changed: while an entry is
# the same, its table was always published. The entry of a schema proves that only for a table that has not left the
# schema. So the table's row type is a part of it, whose catalog row is written when the table is renamed or moved, and
# rarely otherwise.
_ENTRY = """
    SELECT 'table ' || r.oid FROM pg_catalog.pg_publication_rel r WHERE r.prpubid = p.oid AND r.prrelid = w.oid"""
_ALL_TABLES = """
    SELECT 'all ' || p.oid WHERE p.puballtables"""
_SCHEMA = """
    SELECT 'schema ' || s.oid || ' ' || t.xmin
    FROM pg_catalog.pg_publication_namespace s JOIN pg_catalog.pg_type t ON t.oid = w.reltype
    WHERE s.pnpubid = p.oid AND s.pnnspid = w.relnamespace"""
# The entry of a table above it may publish a partition, too.
_ELSEWHERE = """
    SELECT 'part ' || p.oid FROM pg_catalog.pg_publication_tables t
    WHERE (t.pubname, t.schemaname, t.tablename) = (p.pubname, w.nspname, w.relname)"""
_IN_PART = """(SELECT r.prqual IS NOT NULL OR r.prattrs IS NOT NULL FROM pg_catalog.pg_publication_rel r
               WHERE r.prpubid = p.oid AND r.prrelid = w.oid)"""

_PUBLISHED = """json_build_array(p.xmin::text, p.pubinsert, p.pubupdate, p.pubdelete, p.pubtruncate, p.pubviaroot,
                                   to_jsonb(p) ->> 'pubgencols')"""

TYPE_PARTS = """CROSS JOIN LATERAL (
        SELECT t.typbasetype WHERE t.typtype = 'd'
        UNION ALL
        SELECT t.typelem WHERE t.typtype <> 'd' AND t.typoutput = 'pg_catalog.array_out'::regproc
        UNION ALL
        SELECT g.rngsubtype FROM pg_catalog.pg_range g WHERE t.oid IN (g.rngtypid, g.rngmultitypid)
        UNION ALL
        SELECT a.atttypid FROM pg_catalog.pg_attribute a
        WHERE t.typtype = 'c' AND a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped
    ) AS part (oid)"""
"""What a type ``t`` is made of directly, as ``part.oid``: its base, its elements, its attributes."""

# No part of the query may wait for the lock of a table. pg_partition_tree() would wait, so the query walks pg_inherits
# itself. pg_get_expr() would wait, so every default that is no constant counts as one that filled existing rows.
_RECORDS = (
    """
WITH RECURSIVE wanted AS (
    SELECT c.oid, n.nspname, c.relname, c.relkind, c.relnamespace, c.reltype, c.relnatts
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE (n.nspname, c.relname) IN (SELECT * FROM unnest(%(schemas)s::text[], %(names)s::text[]))
), parts AS (
    SELECT oid AS root, oid, ''::text AS joined FROM wanted
    UNION ALL
    SELECT p.root, i.inhrelid, ltrim(p.joined || ' ' || i.xmin::text)
    FROM parts p
    JOIN pg_catalog.pg_inherits i ON i.inhparent = p.oid AND NOT i.inhdetachpending
    JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid AND c.relispartition
), stores AS (
    SELECT p.root, json_agg(json_build_array(
               c.oid::bigint, n.nspname, c.relname, c.relkind::text, c.relpersistence::text, c.relfilenode::bigint,
               c.relreplident::text, p.joined,
               (SELECT json_agg(a.attname ORDER BY k.place)
                FROM pg_catalog.pg_index i
                CROSS JOIN unnest(i.indkey::int2[]) WITH ORDINALITY AS k (attnum, place)
                JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
                WHERE i.indrelid = c.oid AND i.indisvalid AND i.indimmediate AND k.place <= i.indnkeyatts
                  AND (c.relreplident = 'd' AND i.indisprimary OR c.relreplident = 'i' AND i.indisreplident))
           ) ORDER BY c.oid) AS stores
    FROM parts p
    JOIN pg_catalog.pg_class c ON c.oid = p.oid
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind <> 'p' OR c.oid = p.root
    GROUP BY p.root
), reached (root, attnum, oid) AS (
    SELECT a.attrelid, a.attnum, a.atttypid
    FROM wanted w JOIN pg_catalog.pg_attribute a ON a.attrelid = w.oid AND a.attnum > 0 AND NOT a.attisdropped
    WHERE a.atttypid >= %(normal)s
    UNION
    SELECT r.root, r.attnum, part.oid
    FROM reached r
    JOIN pg_catalog.pg_type t ON t.oid = r.oid
    """
    + TYPE_PARTS
    + """
    WHERE part.oid >= %(normal)s
), types AS (
    SELECT r.root, r.attnum, json_agg(json_build_array(
               t.oid::bigint, t.typtype::text, pg_catalog.format_type(t.oid, NULL),
               CASE t.typtype
                    WHEN 'e' THEN (SELECT json_agg(json_build_array(e.enumlabel, e.xmin::text) ORDER BY e.oid)
                                   FROM pg_catalog.pg_enum e WHERE e.enumtypid = t.oid)
                    WHEN 'c' THEN (SELECT json_agg(json_build_array(
                                                       a.attname, a.atttypid::bigint, a.atttypmod, a.xmin::text)
                                                   ORDER BY a.attnum)
                                   FROM pg_catalog.pg_attribute a
                                   WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped) END
           ) ORDER BY t.oid) AS types
    FROM reached r JOIN pg_catalog.pg_type t ON t.oid = r.oid
    GROUP BY r.root, r.attnum
), columns AS (
    SELECT w.oid AS root, json_agg(json_build_array(
               a.attnum, a.attname, a.atttypid::bigint, a.atttypmod, a.attgenerated::text, a.xmin::text,
               a.atthasmissing OR a.attidentity <> '' OR coalesce(d.adbin::text NOT LIKE '{{CONST%%', false), t.types,
               a.attcollation::bigint
           ) ORDER BY a.attnum) AS columns
    FROM wanted w
    JOIN pg_catalog.pg_attribute a ON a.attrelid = w.oid AND a.attnum > 0 AND NOT a.attisdropped
    LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum AND a.attgenerated = ''
    LEFT JOIN types t ON t.root = a.attrelid AND t.attnum = a.attnum
    GROUP BY w.oid
), records AS (
    SELECT w.nspname, w.relname, json_build_array(
               w.oid::bigint, s.stores, c.columns,
               (SELECT json_agg(json_build_array(
                           coalesce(n.oid, i.indexrelid)::bigint,
                           i.indisvalid AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL,
                           (SELECT json_agg(a.attname) FROM pg_catalog.pg_attribute a
                            WHERE a.attrelid = w.oid AND a.attnum = ANY((i.indkey::int2[])[0:i.indnkeyatts - 1])),
                           i.indisprimary, i.indisreplident) ORDER BY i.indexrelid)
                FROM pg_catalog.pg_index i
                LEFT JOIN pg_catalog.pg_constraint n
                     ON n.conrelid = w.oid AND n.conindid = i.indexrelid AND n.contype IN ('p', 'u')
                WHERE i.indrelid = w.oid AND i.indisunique),
               (SELECT entry FROM ({entries}) AS found (entry) LIMIT 1),
               {in_part},
               (SELECT {published} WHERE p.oid IS NOT NULL),
               pg_catalog.has_table_privilege(w.oid, 'SELECT')
                   AND pg_catalog.has_schema_privilege(w.relnamespace, 'USAGE'),
               pg_catalog.row_security_active(w.oid), w.relnatts
           )::text AS record
    FROM wanted w
    JOIN stores s ON s.root = w.oid
    LEFT JOIN columns c ON c.root = w.oid
    LEFT JOIN pg_catalog.pg_publication p ON p.pubname = %(publication)s
)
SELECT nspname, relname, {result} FROM records
"""
)


class Store(NamedTuple):
    """A relation that holds rows of a table: the table itself, or a partition. The root of a partitioned table, which
    holds no rows, is a store, too.

    Attributes:
        kind: pg_class.relkind.
        persistence: pg_class.relpersistence.
        file: pg_class.relfilenode, which changes when all rows are rewritten.
        identity: pg_class.relreplident.
        joined: The transactions that attached a partition, and the partitions above it, from the root down; empty for
            any other store.
        identified_by: The columns of the primary key or index that is the replica identity; empty under ``FULL``, and
            without an identity.
    """

    oid: int
    schema: str
    name: str
    kind: str
    persistence: str
    file: int
    identity: str
    joined: str
    identified_by: tuple[str, ...]

    @property
    def qualified_name(self) -> str:
        """``schema.table``, for people."""
        return f"{self.schema}.{self.name}"


class Partition(NamedTuple):
    """What is noted of a partition: ``Store.joined``, and its name for people; empty if an earlier version noted it."""

    joined: str
    name: str


class TypePart(NamedTuple):
    """A type that a column's type consists of, at any depth. The server's own types are left out.

    Attributes:
        kind: pg_type.typtype.
        name: The output of ``format_type``. Statements contain the names of the key's types.
        parts: The labels of an enum, in the order in which they were added; the attributes of a composite type.
    """

    oid: int
    kind: str
    name: str
    parts: tuple[str, ...]


class ColumnRecord(NamedTuple):
    """A column.

    Attributes:
        number: pg_attribute.attnum. No other column of the table ever has it.
        generated: pg_attribute.attgenerated.
        written: The transaction that wrote the column's row in the catalog.
        filled: When the column was added, existing rows got values in it.
        collation: pg_attribute.attcollation; 0 without one.
        constant: It is known which: the same value in all of them, see
            ``tidemark.captures.postgres.tables_that_change.column_fills``.
    """

    number: int
    name: str
    type: int
    typmod: int
    generated: str
    written: str
    filled: bool
    types: tuple[TypePart, ...]
    collation: int = 0
    constant: bool = False

    @property
    def definition(self) -> str:
        """A text that changes with the column, how its values are written and compared, and its types' names."""
        of_types = digest(self.types) if self.types else ""
        return f"{self.number} {self.type} {self.typmod} {self.collation} {of_types}".strip()


class Published(NamedTuple):
    """A publication.

    Attributes:
        written: The transaction that wrote the publication's row in the catalog. It changes with the options.
        generated: pg_publication.pubgencols; None before version 18.
    """

    written: str
    insert: bool
    update: bool
    delete: bool
    truncate: bool
    via_root: bool
    generated: str | None

    @property
    def options(self) -> str:
        return digest(self)


class Unique(NamedTuple):
    """What keeps rows apart by some columns at any time: a constraint, or else an index.

    Attributes:
        number: The oid of the constraint, which REINDEX CONCURRENTLY keeps, or of the index, which it does not.
        columns: Unordered.
    """

    number: int
    columns: frozenset[str]


@dataclass(frozen=True, slots=True)
class TableRecord:
    """A table.

    Attributes:
        stores: The stores of its rows, in the order of their oids.
        entry: The entry of the publication, which changes if the table was not published for a while; None while it is
            not published.
        in_part: The entry has a row filter or a list of columns.
        publication: None if it does not exist.
        readable: The user may read the table.
        hidden: Row security hides rows from the user.
        attributes: pg_class.relnatts: the columns that the table has or had.
        unique: Its primary key, and other unique constraints and indexes, but for those that are deferrable, not valid,
            or of some rows or of expressions.
    """

    oid: int
    stores: tuple[Store, ...]
    columns: tuple[ColumnRecord, ...]
    entry: str | None
    in_part: bool
    publication: Published | None
    readable: bool
    hidden: bool
    attributes: int
    unique: tuple[Unique, ...]

    @classmethod
    def of(cls, found: Sequence[Any]) -> Self:
        """The record from a row of the query."""
        oid, stores, columns, indexes, entry, in_part, publication, readable, hidden, attributes = found
        return cls(
            oid,
            tuple(Store._make([*store[:8], tuple(store[8] or ())]) for store in stores),
            tuple(
                ColumnRecord._make([*column, tuple(_type_part(*part) for part in types or ()), collation, False])
                for *column, types, collation in columns or ()
            ),
            entry,
            bool(in_part),
            None if publication is None else Published(*publication),
            readable,
            hidden,
            attributes,
            tuple(Unique(number, frozenset(names)) for number, is_key, names, *_ in indexes or () if is_key),
        )

    @property
    def files(self) -> dict[str, int]:
        """The files of the stores, by the store's oid. A store's first file, which has that number, is left out: the
        state stays small although partitions come and go.
        """
        return {str(store.oid): store.file for store in self.stores if store.file not in (0, store.oid)}

    def rewritten(self, files: Mapping[str, int]) -> list[Store]:
        """The stores that had other ``files``: an ALTER TABLE, TRUNCATE or VACUUM FULL wrote all of their rows."""
        return [store for store in self.stores if store.file and store.file != files.get(str(store.oid), store.oid)]

    @property
    def partitions(self) -> dict[str, Partition] | None:
        """The partitions that are not foreign tables, by oid; None if the table is not partitioned."""
        if not any(store.kind == "p" for store in self.stores):
            return None
        parts = [store for store in self.stores if store.joined and store.kind != "f"]
        return {str(store.oid): Partition(store.joined, store.qualified_name) for store in parts}


def read_records(
    session: psycopg.Connection, publication: str, names: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], TableRecord]:
    """The records by (schema, name). Tables that do not exist are left out. Raises psycopg.Error."""
    found = _ask(session, publication, names, "record::json")
    return {(schema, name): TableRecord.of(record) for schema, name, record in found}


def read_digests(
    session: psycopg.Connection, publication: str, names: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], str]:
    """A text for each table that exists, which changes with its record. Raises psycopg.Error."""
    found = _ask(session, publication, names, "md5(record)")
    return {(schema, name): record for schema, name, record in found}


def read_publication(session: psycopg.Connection, publication: str) -> Published | None:
    """The publication; None if it does not exist. Raises psycopg.Error."""
    row = session.execute(
        f"SELECT {_PUBLISHED} FROM pg_catalog.pg_publication p WHERE p.pubname = %s",
        [publication],
    ).fetchone()
    return None if row is None else Published(*row[0])


def digest(value: object) -> str:
    """A short text that stands for a value in the state."""
    return hashlib.blake2b(repr(value).encode(), digest_size=6).hexdigest()


def _ask(
    session: psycopg.Connection, publication: str, names: Iterable[tuple[str, str]], result: str
) -> list[Sequence[Any]]:
    newer = session.info.server_version >= SCHEMAS_VERSION
    entries = [_ENTRY, _ALL_TABLES, *([_SCHEMA] if newer else []), _ELSEWHERE]
    query = _RECORDS.format(
        entries=" UNION ALL ".join(f"({entry})" for entry in entries),
        in_part=_IN_PART if newer else "false",
        published=_PUBLISHED,
        result=result,
    )
    return rows_of_tables(session, query, names, publication=publication, normal=FIRST_NORMAL_OID)


def _type_part(oid: int, kind: str, name: str, parts: Sequence[Sequence[object]] | None) -> TypePart:
    return TypePart(oid, kind, name, tuple(" ".join(map(str, part)) for part in parts or ()))
