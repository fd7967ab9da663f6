"""The SQL conditions of the configuration and of commands: each must be a condition by itself."""

from __future__ import annotations

import pymysql
from pymysql.constants import ER

from tidemark.captures.mysql.server.session import Session, error_of, query_failure
from tidemark.captures.mysql.terms.columns import Table
from tidemark.captures.mysql.terms.quoting import quoted_name
from tidemark.protocol.errors import SourceError

END_OF_CONDITION = "\n)"
"""A comment at the end of a condition must not take the rest of the statement with it."""

_PASSING = {ER.LOCK_WAIT_TIMEOUT, ER.LOCK_DEADLOCK, ER.QUERY_INTERRUPTED}

_REMEDY = "Correct it: it must be one whole SQL condition, as it could stand by itself after WHERE."


def condition_failure(
    session: Session, table: Table, condition: str, *, whose: str, only_malformed: bool = False
) -> SourceError | None:
    """Why chunks cannot be limited by a condition; None where they can. Reads no row.

    Args:
        whose: Where the condition stands, for the message.
        only_malformed: An error that something else than the condition may have caused, as a column that is gone, is
            none.

    Raises:
        pymysql.Error: The server cannot answer now.
    """
    source = f"{quoted_name(table.schema)}.{quoted_name(table.name)}"
    try:
        # ``n > 4) or (1 = 1`` fits the parentheses that chunks put around it, and is no condition.
        session.rows("PREPARE tidemark_condition FROM %s", f"SELECT 1 FROM {source} WHERE {condition}")
        session.rows("DEALLOCATE PREPARE tidemark_condition")
        # ``n > 4 LIMIT 1`` is none either, though it may stand after WHERE.
        session.rows(f"SELECT 1 FROM {source} WHERE ({condition}{END_OF_CONDITION} LIMIT 0")
    except pymysql.Error as error:
        number, reason = error_of(error)
        if number in _PASSING or query_failure(error, "").code == "TM-MY-020":
            raise
        if only_malformed and number != ER.PARSE_ERROR:
            return None
        return SourceError("TM-MY-022", f"{table.name_in_full}: {whose} is no condition: {reason}", remedy=_REMEDY)
    return None
