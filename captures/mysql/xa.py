"""XA transactions that are prepared: in the log since XA PREPARE, visible after XA COMMIT only."""

from __future__ import annotations

import logging
from typing import Any

import pymysql
from pymysql.constants import ER

from captures.mysql.session import Session

logger = logging.getLogger(__name__)

XA = "xa:"
"""What their names begin with."""

_REFUSED = (ER.XAER_RMERR, ER.SPECIFIC_ACCESS_DENIED_ERROR)


def may_see_prepared(session: Session) -> bool:
    """Whether ``prepared_transactions`` knows of all. Raises pymysql.Error."""
    return _recoverable(session) is not None


def prepared_transactions(session: Session) -> list[str]:
    """Names of those at this moment, without blanks. None where the server does not tell us: MySQL wants a privilege.

    Raises:
        pymysql.Error: The server refuses otherwise, or the connection is lost.
    """
    rows = _recoverable(session)
    if rows is None:
        logger.warning(
            "the user may not see XA transactions (GRANT XA_RECOVER_ADMIN): when one that is prepared now is committed "
            "later, every table is read again"
        )
        return []
    names = []
    for form, global_length, _, data in rows:
        name = data if isinstance(data, bytes) else str(data).encode()
        names.append(f"{XA}{form}:{global_length}:{name.hex()}")
    return names


def _recoverable(session: Session) -> list[tuple[Any, ...]] | None:
    """None where the user may not see them."""
    try:
        return session.rows("XA RECOVER")
    except pymysql.Error as error:
        if error.args[0] not in _REFUSED:
            raise
        return None
