"""Prepared XA transactions: the log has them since XA PREPARE, and XA COMMIT makes them visible."""

from __future__ import annotations

import logging

import pymysql
from pymysql.constants import ER

from tidemark.captures.mysql.server.session import Session
from tidemark.captures.mysql.terms.transaction_ids import xa_id

logger = logging.getLogger(__name__)

XA = "xa:"
"""The prefix of their names."""

_REFUSED = (ER.XAER_RMERR, ER.SPECIFIC_ACCESS_DENIED_ERROR)


def may_see_prepared(session: Session) -> bool:
    """Whether the user may see prepared transactions. Raises pymysql.Error."""
    return _recoverable(session) is not None


def prepared_transactions(session: Session) -> list[str]:
    """Their names now, without blanks. Empty if the user may not see them: MySQL requires a privilege.

    Raises:
        pymysql.Error: The server refuses otherwise, or the connection is lost.
    """
    found = _recoverable(session)
    if found is None:
        logger.warning(
            "the user may not see XA transactions (GRANT XA_RECOVER_ADMIN): if one that is prepared now is committed "
            "later, all tables are read again"
        )
        return []
    return [f"{XA}{form}:{len(first)}:{(first + second).hex()}" for first, second, form in found]


def prepared_xids(session: Session) -> frozenset[str]:
    """Their xids now, and those whose commit is not complete, as ``xa_id`` writes them. Raises pymysql.Error."""
    return frozenset(xa_id(*parts) for parts in _listed(session))


def _recoverable(session: Session) -> list[tuple[bytes, bytes, int]] | None:
    """As ``_listed``; None where the user may not see them."""
    try:
        return _listed(session)
    except pymysql.Error as error:
        if error.args[0] not in _REFUSED:
            raise
        return None


def _listed(session: Session) -> list[tuple[bytes, bytes, int]]:
    """Transaction, branch and format of each."""
    # Most transaction managers make xids of any bytes, and MariaDB declares them as text.
    rows = session.rows_of_bytes("XA RECOVER")
    return [(data[: int(length)], data[int(length) :], int(form)) for form, length, _, data in rows]
