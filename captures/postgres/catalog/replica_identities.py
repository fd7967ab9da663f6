"""The replica identity, by which the log identifies the rows of a table.

Each partition has its own replica identity. The log uses that one, and shows the rows as the root's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import psycopg
from psycopg import sql

from tidemark.captures.postgres.catalog.columns import Table
from tidemark.captures.postgres.catalog.encodings import Unsayable, stored_rows
from tidemark.captures.postgres.catalog.table_record import Store
from tidemark.protocol.errors import SourceError

REMEDIES = 50
"""Statements that an error gives, at most."""

# From version 18 on an index of generated columns makes the server refuse changes, too.
_INDEX = """
SELECT c.relname
FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
WHERE i.indrelid = %s
  AND i.indisunique AND i.indimmediate AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
  AND NOT EXISTS (SELECT FROM unnest(i.indkey::int2[]) k (attnum)
                  JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
                  WHERE NOT a.attnotnull OR a.attgenerated <> '')
ORDER BY i.indnkeyatts, c.relname
"""

_FOREIGN = "f"
"""pg_class.relkind of a table whose rows are in no log, and none of whose changes the server refuses."""


def identity_failures(table: Table, key: Sequence[str]) -> Iterator[SourceError]:
    """One error if the replica identity of the table, or of partitions, lacks the key. Its remedy fixes all of them.

    Once such a table is published, the server refuses updates and deletes if there is no identity at all. Otherwise the
    log has changes that do not identify their row.

    Args:
        key: The columns that identify rows downstream; empty if their position in the log does.
    """
    found = [_failure(store, key) for store in table.stores if store.kind != _FOREIGN]
    failures = [failure for failure in found if failure is not None]
    if not failures:
        return
    first = failures[0]
    others = f" (and {len(failures) - 1} more partitions)" if len(failures) > 1 else ""
    statements = " ".join(failure.remedy.removeprefix("Run: ") for failure in failures[:REMEDIES])
    yield SourceError(first.code, f"{first.message}{others}", remedy=f"Run: {statements}")


def identified_by_all(stores: Iterable[Store]) -> bool:
    """Whether the table, or at least one partition, has REPLICA IDENTITY FULL."""
    return any(store.identity == "f" for store in stores)


def full_identities(table: Table) -> str:
    """The statements that set REPLICA IDENTITY FULL for a table and its partitions; empty if all of them have it."""
    statements = [_full(store) for store in table.stores if store.kind != _FOREIGN and store.identity != "f"]
    return f"Run: {' '.join(statements[:REMEDIES])}" if statements else ""


def _full(store: Store) -> str:
    return f"ALTER TABLE {sql.Identifier(store.schema, store.name).as_string(None)} REPLICA IDENTITY FULL;"


def identity_index(session: psycopg.Connection, table: Table) -> str | None:
    """The name of an index that can be the table's replica identity. Raises psycopg.Error."""
    found = stored_rows(session, _INDEX, [table.oid])
    return next((name for (name,) in found if not isinstance(name, Unsayable)), None)


def _failure(store: Store, key: Sequence[str]) -> SourceError | None:
    if store.identity == "f":
        return None
    name = store.qualified_name
    identifier = sql.Identifier(store.schema, store.name).as_string(None)
    full = f"Run: {_full(store)}"
    default = f"Run: ALTER TABLE {identifier} REPLICA IDENTITY DEFAULT;"
    if store.identity == "n":
        return SourceError("TM-PG-018", f"{name} has REPLICA IDENTITY NOTHING", remedy=default)
    if store.identity == "d" and not (store.identified_by and key):
        return SourceError("TM-PG-018", f"{name} has no primary key for its REPLICA IDENTITY", remedy=full)
    if not store.identified_by:
        return SourceError(
            "TM-PG-018", f"{name} has REPLICA IDENTITY USING INDEX, but the index does not exist", remedy=default
        )
    missing = [column for column in key if column not in store.identified_by]
    if missing or not key:
        return SourceError("TM-PG-032", f"{name}: deletes do not carry the key {', '.join(key)}".rstrip(), remedy=full)
    return None
