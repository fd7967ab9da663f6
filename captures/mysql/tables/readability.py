"""Whether the user may read all columns of tables: the catalog lacks the others, but the log has them."""

from __future__ import annotations

from collections.abc import Sequence

import pymysql
from pymysql.constants import ER

from tidemark.captures.mysql.server.session import LOCK_SECONDS, TOGETHER_LOCK_SECONDS, Session, error_of
from tidemark.captures.mysql.tables.catalog import AT_ONCE, Path
from tidemark.captures.mysql.terms.columns import Table
from tidemark.captures.mysql.terms.quoting import quoted_name


def is_readable(session: Session, table: Table) -> bool:
    """Raises pymysql.Error for any other reason why it cannot be read."""
    try:
        session.rows(f"SELECT * FROM {_name(table)} LIMIT 0")
    except pymysql.Error as error:
        if error_of(error)[0] not in (ER.TABLEACCESS_DENIED_ERROR, ER.COLUMNACCESS_DENIED_ERROR):
            raise
        return False
    return True


def seen_readable(session: Session, tables: Sequence[Table]) -> set[Path]:
    """The paths of tables that are readable, as far as many together tell: there may be thousands.

    Raises pymysql.Error if the connection is lost.
    """
    seen: set[Path] = set()
    # A table that is locked must not keep the locks of all others.
    session.rows(f"SET SESSION lock_wait_timeout = {TOGETHER_LOCK_SECONDS}")
    for first in range(0, len(tables), AT_ONCE):
        group = tables[first : first + AT_ONCE]
        if _are_readable(session, group):
            seen.update(table.path for table in group)
    session.rows(f"SET SESSION lock_wait_timeout = {LOCK_SECONDS}")
    return seen


def _are_readable(session: Session, tables: Sequence[Table]) -> bool:
    """False if that of one of them is not known: asked by itself, each tells."""
    asked = (f"SELECT 1 FROM (SELECT * FROM {_name(table)} LIMIT 0) t" for table in tables)
    try:
        session.rows(" UNION ALL ".join(asked))
    except pymysql.Error:
        return False
    return True


def _name(table: Table) -> str:
    return f"{quoted_name(table.schema)}.{quoted_name(table.name)}"
