"""A server as its replicas see it: its identity, its GTIDs, its log's end, its prepared transactions."""

from __future__ import annotations

import logging
from typing import Any

import pymysql
from pymysql.constants import ER

from tidemark.captures.contract.errors import LostPosition
from tidemark.captures.mysql.server.session import Session
from tidemark.captures.mysql.terms.gtid import xa_id
from tidemark.captures.mysql.terms.position import position
from tidemark.protocol.errors import SourceError

_READ_LOG = 1236  # ER_MASTER_FATAL_ERROR_READING_BINLOG
FORBIDDEN = frozenset((1045, 1142, 1227))
"""ER_ACCESS_DENIED_ERROR, ER_TABLEACCESS_DENIED_ERROR, ER_SPECIFIC_ACCESS_DENIED_ERROR."""


class WithoutGtids(SourceError):
    """The log goes on by file and offset: ``gtid_mode`` was changed, and it has transactions without GTIDs."""


def server_name(session: Session) -> str:
    """The identity of a server: MySQL's uuid; MariaDB's id, host and port. Raises PyMySQL's errors."""
    if session.mariadb:
        return ":".join(str(part) for part in session.rows("SELECT @@server_id, @@hostname, @@port")[0])
    return str(session.value("SELECT @@server_uuid"))


def has_gtids(session: Session) -> bool:
    """Whether every transaction of a MySQL server has a GTID."""
    return session.variable("gtid_mode") == "ON"


def log_status(session: Session) -> list[tuple[Any, ...]]:
    """What the server says of its binlog: file, offset, databases that are logged, and those that are not."""
    modern = not session.mariadb and session.version >= (8, 2, 0)
    return session.rows("SHOW BINARY LOG STATUS" if modern else "SHOW MASTER STATUS")


def replica_status(session: Session) -> list[dict[str, Any]]:
    """What the server says of each server that it replicates, by names that depend on its version."""
    modern = not session.mariadb and session.version >= (8, 0, 22)
    with session.connection.cursor(pymysql.cursors.DictCursor) as cursor:
        cursor.execute("SHOW REPLICA STATUS" if modern else "SHOW SLAVE STATUS")
        return list(cursor.fetchall())


def log_file_and_offset(session: Session) -> tuple[str, int]:
    """The binlog's end. Raises SourceError ``TM-MY-005`` when the binlog is off, pymysql.Error."""
    rows = log_status(session)
    if not rows:
        raise SourceError("TM-MY-005", "the server writes no binary log")
    return str(rows[0][0]), int(rows[0][1])


def end_of_log(session: Session) -> int:
    """The binlog's end as a position. Raises as ``log_file_and_offset``."""
    return position(*log_file_and_offset(session))


def stream_failure(number: int, message: str, server_id: int, account: str) -> SourceError:
    """The error for a stream that the server ended, or does not begin for ``account``.

    ER_MASTER_FATAL_ERROR_READING_BINLOG has many causes, which only the message distinguishes.
    """
    text = " ".join(message.split())
    reason = f"{text} (error {number})"
    lower = text.lower()
    if "same server" in lower and "connected" in lower:
        return SourceError("TM-MY-042", f"another replica took server_id {server_id}: {reason}")
    if number in FORBIDDEN:
        remedy = f"Run, as an administrator: GRANT REPLICATION SLAVE ON *.* TO {account};"
        return SourceError("TM-MY-006", f"the user may not read the log: {reason}", remedy=remedy)
    if number != _READ_LOG:
        return SourceError("TM-MY-020", f"the server ended the stream of the binary log: {reason}")
    if "purged" in lower:
        return LostPosition("TM-MY-015", reason)
    if "could not find first log" in lower or "could not find gtid state" in lower:
        return LostPosition("TM-MY-015", f"the log was purged, or was reset by RESET MASTER: {reason}")
    if "auto_position" in lower:
        return WithoutGtids("TM-MY-020", f"the server no longer sends its log by GTIDs: {reason}")
    if "cannot replicate" in lower and "gtid_mode = o" in lower:
        mode = "ON_PERMISSIVE" if "anonymous" in lower else "OFF_PERMISSIVE"
        remedy = f"Run: SET GLOBAL gtid_mode = {mode}; and change it back when the capture has read its log to the end."
        return SourceError("TM-MY-011", f"gtid_mode was changed before the log was read: {reason}", remedy=remedy)
    if "max_allowed_packet" in lower:
        return SourceError("TM-MY-043", reason)
    if "is not in the master" in lower or "impossible position" in lower or "has more gtids" in lower:
        return LostPosition("TM-MY-016", reason)
    if "out-of-order" in lower or "diverged" in lower or "position > file size" in lower:
        return LostPosition("TM-MY-016", reason)
    return SourceError("TM-MY-020", f"the server cannot read its binary log: {reason}")


logger = logging.getLogger(__name__)

XA = "xa:"
"""The prefix of their names."""

_REFUSED = (ER.XAER_RMERR, ER.SPECIFIC_ACCESS_DENIED_ERROR)


def may_see_prepared(session: Session) -> bool:
    """Whether the user may see prepared transactions. Raises pymysql.Error."""
    return _recoverable(session) is not None


def prepared_transactions(session: Session) -> list[str]:
    """Their names now, without blanks. Empty if the user may not see them: MySQL requires a privilege. Raises
    pymysql.Error.
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
