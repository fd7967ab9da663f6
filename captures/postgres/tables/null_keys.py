"""Configured keys that may be NULL: a scan by key does not find a row whose key is NULL, and no event identifies it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import psycopg
from psycopg import sql

from tidemark.captures.postgres.catalog.columns import Table
from tidemark.captures.postgres.rows.generated_source import null_key
from tidemark.protocol.errors import SourceError

logger = logging.getLogger(__name__)

SECONDS = 10
"""That the server may look for NULLs in a column. With an index that begins with the column it takes a moment."""


def null_key_failures(session: psycopg.Connection, table: Table, key: Sequence[str]) -> Iterator[SourceError]:
    """An error if a key column has NULLs. Warns if that cannot be told in time.

    A key of the catalog has none: only a column without NOT NULL is looked at.

    Raises:
        psycopg.Error: The server refuses.
    """
    nullable = [column.name for column in table.columns if column.name in key and column.nullable]
    with_nulls = [name for name in nullable if _has_nulls(session, table, name)]
    if with_nulls:
        yield null_key(table.qualified_name, with_nulls)


def _has_nulls(session: psycopg.Connection, table: Table, column: str) -> bool:
    query = sql.SQL("SELECT EXISTS (SELECT FROM {} WHERE {} IS NULL)").format(
        sql.Identifier(table.schema, table.name), sql.Identifier(column)
    )
    session.execute(sql.SQL("SET statement_timeout = {}").format(f"{SECONDS}s"))
    try:
        return session.execute(query).fetchone() == (True,)
    except (psycopg.errors.QueryCanceled, psycopg.errors.LockNotAvailable):
        logger.warning(
            "%s: whether the key column %s has NULLs could not be told within %d s. A backfill would leave such rows "
            "out: make the column NOT NULL",
            table.qualified_name,
            column,
            SECONDS,
        )
    except psycopg.errors.InsufficientPrivilege:
        pass  # That its rows cannot be read is another error.
    finally:
        if not session.broken:
            session.execute("SET statement_timeout = 0")
    return False
