"""XA transactions that are prepared: in the log since XA PREPARE, visible after XA COMMIT only."""

from __future__ import annotations

import logging

import pymysql
from pymysql.constants import ER

from captures.mysql.session import Session

logger = logging.getLogger(__name__)

XA = "xa:"
"""What their names begin with."""

_REFUSED = (ER.XAER_RMERR, ER.SPECIFIC_ACCESS_DENIED_ERROR)


def prepared_transactions(session: Session) -> list[str]:
    """Names of those at this moment, without blanks. None where the server does not tell us: MySQL wants a privilege.

    Raises:
        pymysql.Error: The server refuses otherwise, or the connection is lost.
    """
    try:
        rows = session.rows("XA RECOVER")
    except pymysql.Error as error:
        if error.args[0] not in _REFUSED:
            raise
        logger.warning(
            "the user may not see XA transactions (GRANT XA_RECOVER_ADMIN): one that is prepared now, and committed "
            "later, is missing from the capture"
        )
        return []
    names = []
    for form, global_length, _, data in rows:
        name = data if isinstance(data, bytes) else str(data).encode()
        names.append(f"{XA}{form}:{global_length}:{name.hex()}")
    return names
