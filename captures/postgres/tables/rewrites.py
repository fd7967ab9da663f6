"""Whether an ALTER TABLE rewrote a table's rows, or only their storage changed, as by VACUUM FULL."""

from __future__ import annotations

import psycopg
from psycopg import sql

from captures.postgres.tables.table_record import Store

ROWS = 10_000
"""How many of its first rows are looked at."""


LOCK_MILLISECONDS = 100
"""How long the table's lock is waited for: the log is not read meanwhile."""


def holds_older_rows(session: psycopg.Connection, store: Store, since: str) -> bool | None:
    """Whether some of the first rows were written before the transaction ``since``; None while somebody locks them.

    An ALTER TABLE that rewrites a table, such as SET LOGGED, writes every row in its own transaction. VACUUM FULL and
    CLUSTER keep the transaction of each. So one older row proves that it was none of the first kind since then.

    False, too, where the user may not read them.

    Raises:
        psycopg.Error: The server refuses.
    """
    query = sql.SQL(
        "SELECT EXISTS (SELECT FROM (SELECT xmin FROM ONLY {} LIMIT {}) r WHERE age(r.xmin) > age({}::text::xid))"
    ).format(sql.Identifier(store.schema, store.name), sql.Literal(ROWS), sql.Literal(str(int(since) % (1 << 32))))
    try:
        with session.transaction():
            session.execute(f"SET LOCAL lock_timeout = {LOCK_MILLISECONDS}")
            row = session.execute(query).fetchone()
    except psycopg.errors.LockNotAvailable:
        return None
    except psycopg.errors.InsufficientPrivilege:
        return False
    return row is not None and bool(row[0])
