"""Whether one transaction made everything that changed of a table since it was noted.

The catalogs then show the table as the log has it where that transaction ends, however much of the log is left.
"""

from __future__ import annotations

import psycopg

from tidemark.captures.postgres.catalog.columns import Table, recorded
from tidemark.captures.postgres.catalog.table_record import TableRecord
from tidemark.captures.postgres.tables.bindings import PostgresBinding
from tidemark.captures.postgres.tables.noted_table import NotedTable
from tidemark.captures.postgres.tables_that_change.table_fingerprint import fingerprint

# VACUUM and ANALYZE write a row of pg_class in its place, and leave its xmin.
_LAST_WRITTEN = """
SELECT count(*) FROM pg_catalog.pg_class WHERE oid = ANY(%s::oid[]) AND xmin::text = %s
"""


def is_sole_change(
    session: psycopg.Connection, binding: PostgresBinding, table: Table, since: str, transaction: str
) -> bool:
    """Whether the transaction rewrote the table, and nothing else wrote what is noted of it since.

    It does not hold of an ALTER TABLE after a SAVEPOINT: the catalogs then have the id of a subtransaction.

    Args:
        table: As the catalogs show it now.
        since: As of ``fingerprint``.
        transaction: Its id, in 32 bits.

    Raises:
        psycopg.Error: The server refuses.
    """
    record, before = recorded(table), binding.noted
    key = binding.resource.key if binding.resource.key is not None else table.key
    now = fingerprint(record, binding.resource, key, since)
    if not _same_otherwise(before, now) or not _columns_are_of(before, now, record, transaction):
        return False
    files = [store.oid for store in record.rewritten(before.files)]
    last_written = session.execute(_LAST_WRITTEN, [files, transaction]).fetchone()
    return bool(files) and last_written == (len(files),)


def _same_otherwise(before: NotedTable, now: NotedTable) -> bool:
    """Whether two fingerprints are the same but for columns and files."""
    mine = before.oid, before.key, before.entry, before.options, before.readable, before.partitions
    return mine == (now.oid, now.key, now.entry, now.options, now.readable, now.partitions)


def _columns_are_of(before: NotedTable, now: NotedTable, record: TableRecord, transaction: str) -> bool:
    """Whether the transaction wrote all columns that are not as before, and dropped none."""
    added = now.columns.keys() - before.columns.keys()
    if before.attributes is None or record.attributes != before.attributes + len(added):
        return False
    if not before.columns.keys() <= now.columns.keys():
        return False
    return all(column.written == transaction or column == before.columns.get(n) for n, column in now.columns.items())
