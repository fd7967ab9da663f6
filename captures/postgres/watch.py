"""What the catalogs say of the captured tables now, as cheaply as can be asked every few seconds.

The log shows that a table was altered or made again with its next change of a row, and never that it was published no
more and then again: what changed in between is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import psycopg

# Entries of a publication are made and dropped, never changed: as long as one is there, its table was always published.
_ENTRY = """
(SELECT r.oid FROM pg_catalog.pg_publication_rel r WHERE r.prpubid = p.oid AND r.prrelid = c.oid),
(SELECT p.oid WHERE p.puballtables)"""

_SCHEMA_ENTRY = """,
(SELECT s.oid FROM pg_catalog.pg_publication_namespace s WHERE s.pnpubid = p.oid AND s.pnnspid = c.relnamespace)"""

SCHEMAS_VERSION = 150000
"""Since this one, a publication can have all tables of a schema."""

# A partition may also be published because of a table that it is a part of.
_APPEARANCES = """
SELECT n.nspname, c.relname,
       coalesce({entries}, (SELECT p.oid FROM pg_catalog.pg_publication_tables t
                            WHERE (t.pubname, t.schemaname, t.tablename) = (p.pubname, n.nspname, c.relname)))::text,
       concat_ws('|', c.oid, c.relreplident,
           (SELECT md5(string_agg(concat_ws(' ', a.attnum, a.attname, a.atttypid, a.atttypmod, a.attnotnull,
                                            a.attisdropped), ',' ORDER BY a.attnum))
            FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0),
           (SELECT string_agg(concat_ws(' ', i.indexrelid, i.indisprimary, i.indisreplident, i.indisvalid), ','
                              ORDER BY i.indexrelid)
            FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid AND i.indisunique))
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_catalog.pg_publication p ON p.pubname = %s
WHERE (n.nspname, c.relname) IN (SELECT * FROM unnest(%s::text[], %s::text[]))
"""


class Appearance(NamedTuple):
    """What is to be seen of a table without reading its columns.

    Attributes:
        entry: What publishes it: it is another one once the table was not published for a while. None while it is not.
        shape: Another one whenever the table, its columns or its keys may be others.
    """

    entry: str | None
    shape: str


def read_appearances(
    session: psycopg.Connection, publication: str, names: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], Appearance]:
    """By (schema, name); those that are not there are left out. Raises psycopg.Error."""
    entries = _ENTRY + (_SCHEMA_ENTRY if session.info.server_version >= SCHEMAS_VERSION else "")
    rows = session.execute(
        _APPEARANCES.format(entries=entries),  # Both are constants.
        [publication, [schema for schema, _ in names], [name for _, name in names]],
    ).fetchall()
    return {(schema, name): Appearance(entry, shape) for schema, name, entry, shape in rows}
