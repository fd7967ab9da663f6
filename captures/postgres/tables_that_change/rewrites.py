"""Whether an ALTER TABLE rewrote the rows of a table, and whether they are older than it: their ``xmin`` tells."""

from __future__ import annotations

from typing import TypeVar

import psycopg
from psycopg import sql

from tidemark.captures.postgres.catalog.table_record import OF_PARTITION, Store
from tidemark.captures.postgres.tables.noted_table import Filled

Answer = TypeVar("Answer", bool, str)

ROWS = 10_000
"""How many of its first rows are looked at."""


LOCK_MILLISECONDS = 100
"""How long the table's lock is waited for: the log is not read meanwhile."""


def has_lost_none(
    session: psycopg.Connection, store: Store, since: str, truncated: str, filled: Filled | None = None
) -> bool | None:
    """Whether it is sure that a store with another file lost no rows that the log does not tell; None if it is locked,
    or has yet another file by now.

    An ALTER TABLE that rewrites a table, such as SET LOGGED, writes every row in its own transaction. VACUUM FULL,
    CLUSTER and SET TABLESPACE keep the transaction of each row. So a row from before ``since``, among the first ones,
    proves that there was no such ALTER TABLE and no TRUNCATE since then. So does a file that the last TRUNCATE made.
    The rows that its transaction wrote came later, unless they were written to another file that took its place.

    The same transaction may TRUNCATE a partition once more, which keeps the file and is in no log. To the server it is
    then another partition, because of its indexes, and is shown again before its next row. So if it was shown once, any
    row proves that there was no such TRUNCATE. If later transactions had it shown again, a row of that one proves it.

    The result is False if the user may not read the table.

    Args:
        truncated: The last transaction in the log since then that has a TRUNCATE of the table; empty without one.
        filled: What the log has shown of the store since that TRUNCATE; None for nothing.

    Raises:
        psycopg.Error: The server refuses.
    """
    if filled is not None and filled.transaction != truncated:
        filled = None  # All its rows are from later transactions, which cannot have emptied this file.
    query = sql.SQL(
        "WITH r AS (SELECT xmin, cmin FROM ONLY {} LIMIT {}) SELECT EXISTS (SELECT FROM pg_catalog.pg_class c"
        " WHERE c.oid = {} AND c.xmin = {}::text::xid AND NOT EXISTS (SELECT FROM r"
        " WHERE r.xmin = c.xmin AND r.cmin::text::bigint <= c.cmin::text::bigint)"
        " AND ({} OR EXISTS (SELECT FROM r WHERE {} OR r.xmin = c.xmin)))"
        " OR EXISTS (SELECT FROM r WHERE age(r.xmin) > age({}::text::xid))"
    ).format(
        sql.Identifier(store.schema, store.name),
        sql.Literal(ROWS),
        sql.Literal(store.oid),
        sql.Literal(truncated if truncated and (filled is None or filled.times == 1) else None),
        sql.Literal(filled is None),
        sql.Literal(filled is not None and not filled.later),
        sql.Literal(str(int(since) % (1 << 32))),
    )
    return _asked(session, store, query, refused=False)


def holds_rows(session: psycopg.Connection, store: Store, transaction: str | None = None) -> bool | None:
    """Whether it has rows, of this transaction among the first ones if there is one, or the user may not read it; None
    as above. Raises psycopg.Error.
    """
    query = sql.SQL("SELECT EXISTS (SELECT FROM (SELECT xmin FROM ONLY {} LIMIT {}) r WHERE {})").format(
        sql.Identifier(store.schema, store.name),
        sql.Literal(ROWS),
        sql.SQL("true" if transaction is None else "r.xmin = {}::text::xid").format(sql.Literal(transaction)),
    )
    return _asked(session, store, query, refused=True)


def had_rows_before_it_joined(session: psycopg.Connection, store: Store, root: int) -> bool | None:
    """Whether some of the first rows of a partition are older than its attachment; None as above. Raises psycopg.Error.

    The log has such rows as another table's, or not at all. Rows of the attaching transaction itself are older if an
    earlier command wrote them; a later transaction may have ids like those of its subtransactions, so its rows count
    as older, too, if an earlier command of it wrote them. Of rows that were updated since, the log lacks what is stored
    out of line, so if there is such a value, some count as older. An ALTER TABLE that rewrites rows, such as SET
    LOGGED, hides their age: after it, every row counts as older. So does the last row that is looked at, in a table
    that an earlier transaction made: VACUUM may have given the place of older rows to newer ones.

    A partition that was created as one had no rows before. ATTACH writes the rows of all its columns in pg_attribute,
    so one that its creation wrote, as it wrote those of the system's columns, tells that it was.

    The result is True if the user may not read the table.

    Args:
        root: The number of the table that it is a partition of.
    """
    query = sql.SQL(
        "WITH i AS MATERIALIZED (SELECT i.xmin, i.cmin FROM pg_catalog.pg_inherits i"
        " WHERE i.inhrelid IN (SELECT relid FROM pg_catalog.pg_partition_ancestors({oid})) AND i.inhrelid <> {root}"
        " AND ({rewritten} OR NOT EXISTS (SELECT FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_attribute s"
        " ON s.attrelid = a.attrelid AND s.attnum = -1 AND s.xmin = a.xmin AND s.cmin = a.cmin"
        " WHERE a.attrelid = i.inhrelid AND a.attnum > 0 AND a.xmax = 0)))"
        " SELECT EXISTS (SELECT FROM"
        " (SELECT xmin, cmin, row_number() OVER () AS number FROM ONLY {store} LIMIT {rows}) r CROSS JOIN i"
        " WHERE {rewritten} OR age(r.xmin) > age(i.xmin)"
        " OR r.cmin::text::bigint < i.cmin::text::bigint"
        " OR (SELECT pg_catalog.pg_relation_size(c.reltoastrelid) > 0 FROM pg_catalog.pg_class c WHERE c.oid = {oid})"
        " OR r.number = {rows} AND age(i.xmin) <"
        " (SELECT age(a.xmin) FROM pg_catalog.pg_attribute a WHERE a.attrelid = {oid} AND a.attnum = -1))"
    ).format(
        store=sql.Identifier(store.schema, store.name),
        oid=sql.Literal(store.oid),
        root=sql.Literal(root),
        rows=sql.Literal(ROWS),
        rewritten=sql.Literal(store.file != store.oid),
    )
    return _asked(session, store, query, refused=True)


def condition_of(session: psycopg.Connection, store: Store) -> str | None:
    """A condition for the rows of a partition, by which the server finds it; None as above. Raises psycopg.Error."""
    query = sql.SQL("SELECT {} || coalesce(pg_catalog.pg_get_partition_constraintdef({}), 'true')")
    return _asked(session, store, query.format(sql.Literal(OF_PARTITION), sql.Literal(store.oid)), refused="true")


def _asked(session: psycopg.Connection, store: Store, query: sql.Composed, *, refused: Answer) -> Answer | None:
    # An ALTER TABLE that had the lock may have moved the rows: its rows say nothing about the file of the record. The
    # server takes the query's snapshot when it has the lock.
    same_file = sql.SQL("EXISTS (SELECT FROM pg_catalog.pg_class WHERE oid = {} AND relfilenode = {})")
    guarded = sql.SQL("SELECT CASE WHEN {} THEN ({}) END").format(
        same_file.format(sql.Literal(store.oid), sql.Literal(store.file)), query
    )
    try:
        with session.transaction():
            session.execute(f"SET LOCAL lock_timeout = {LOCK_MILLISECONDS}")
            row = session.execute(guarded).fetchone()
    except (psycopg.errors.LockNotAvailable, psycopg.errors.UndefinedTable):
        return None  # It is locked, or was dropped or renamed just now: the next look tells.
    except psycopg.errors.InsufficientPrivilege:
        return refused
    assert row is not None
    answer: Answer = row[0]
    return answer
