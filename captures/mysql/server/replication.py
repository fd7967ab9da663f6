"""What a server is to its replicas: which one it is, and why it ended the stream of its log."""

from __future__ import annotations

from captures.contract.errors import LostPosition
from captures.mysql.server.session import Session
from protocol.errors import SourceError

_READ_LOG = 1236  # ER_MASTER_FATAL_ERROR_READING_BINLOG
_FORBIDDEN = frozenset((1045, 1142, 1227))


def server_name(session: Session) -> str:
    """What tells a server from any other: MySQL's uuid; MariaDB's id, host and port. Raises PyMySQL's errors."""
    if session.mariadb:
        return ":".join(str(part) for part in session.rows("SELECT @@server_id, @@hostname, @@port")[0])
    return str(session.value("SELECT @@server_uuid"))


def stream_failure(number: int, message: str, server_id: int) -> SourceError:
    """What it means that the server ended the stream with an error. ER_MASTER_FATAL_ERROR_READING_BINLOG has many
    causes, told apart by the message.
    """
    text = " ".join(message.split())
    reason = f"{text} (error {number})"
    lower = text.lower()
    if "same server" in lower and "connected" in lower:
        return SourceError("TM-MY-042", f"another replica took server_id {server_id}: {reason}")
    if number in _FORBIDDEN:
        return SourceError("TM-MY-006", reason, remedy="Run GRANT REPLICATION SLAVE ON *.* TO the configured user;")
    if number != _READ_LOG:
        return SourceError("TM-MY-020", f"the server ended the stream of the binary log: {reason}")
    if "purged" in lower or "could not find first log" in lower or "could not find gtid state" in lower:
        return LostPosition("TM-MY-015", reason)
    if "max_allowed_packet" in lower:
        return SourceError("TM-MY-043", reason)
    if "is not in the master" in lower or "impossible position" in lower or "has more gtids" in lower:
        return LostPosition("TM-MY-016", reason)
    if "out-of-order" in lower or "diverged" in lower or "position > file size" in lower:
        return LostPosition("TM-MY-016", reason)
    return SourceError("TM-MY-020", f"the server cannot read its binary log: {reason}")
