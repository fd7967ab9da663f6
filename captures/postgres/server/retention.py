"""How much log the server retains for the capture, when it would invalidate the slot, and what holds the log back."""

from __future__ import annotations

import logging
import time

import psycopg
from psycopg import sql

from tidemark.captures.contract.source import RetainedLog
from tidemark.captures.postgres.catalog.encodings import stored_rows
from tidemark.captures.postgres.server.config import EndpointConfig
from tidemark.captures.postgres.server.positions import parse_lsn
from tidemark.captures.postgres.server.session import asking
from tidemark.protocol.errors import SourceError

logger = logging.getLogger(__name__)

_MB = 10**6

WARNING_SECONDS = 60.0
"""A slot that keeps too much is warned of at most this often."""

_RETAINED = """
SELECT pg_wal_lsn_diff(e.now, s.restart_lsn)::bigint, s.safe_wal_size, e.now, s.restart_lsn, s.confirmed_flush_lsn,
       s.wal_status, s.active
FROM pg_catalog.pg_replication_slots s
CROSS JOIN (SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END) e (now)
WHERE s.slot_name = %s
"""

# A transaction that writes holds back the restart position of every slot. Its locks show the tables that it writes to.
_WRITERS = """
SELECT a.pid, a.application_name, extract(epoch FROM now() - a.xact_start)::bigint,
       array(SELECT DISTINCT n.nspname || '.' || c.relname
             FROM pg_catalog.pg_locks l
             JOIN pg_catalog.pg_class c ON c.oid = l.relation AND c.relkind IN ('r', 'p')
             JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
             WHERE l.pid = a.pid AND l.mode IN ('RowExclusiveLock', 'ShareRowExclusiveLock', 'AccessExclusiveLock')
               AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database()))
FROM pg_catalog.pg_stat_activity a
WHERE a.backend_xid IS NOT NULL AND a.pid <> pg_backend_pid()
ORDER BY a.xact_start
LIMIT 1
"""

# Walsenders of logical slots are in the view too. Without the right to see them, their columns are null.
_REPLICA_LAG = """
SELECT CASE WHEN pg_is_in_recovery() THEN
            CASE WHEN pg_last_wal_receive_lsn() IS NOT DISTINCT FROM pg_last_wal_replay_lsn() THEN 0
                 ELSE extract(epoch FROM now() - pg_last_xact_replay_timestamp()) END
       ELSE max(extract(epoch FROM coalesce(r.replay_lag, '0'::interval))) END::float8,
       coalesce(bool_or(r.state IS NULL), false)
FROM pg_catalog.pg_stat_replication r
WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_replication_slots s WHERE s.active_pid = r.pid AND s.slot_type = 'logical')
"""


class Retention:
    """Watches the log that the slot retains."""

    def __init__(self, config: EndpointConfig) -> None:
        self._config = config
        self._warned_at: float | None = None

    def retained(self, session: psycopg.Connection, position: int, reading: str) -> RetainedLog:
        """The log from the slot's restart position to its end. Warns from half of ``max_retained_wal`` on.

        The limit is that at which the server invalidates the slot (max_slot_wal_keep_size).

        Args:
            position: The position up to which the capture has read.
            reading: The tables of the transaction that is being read; empty between transactions.

        Raises:
            SourceError: The server refuses, or the connection is lost.
        """
        with asking("asking how much log the slot retains"):
            row = session.execute(_RETAINED, [self._config.slot]).fetchone()
        if row is None:
            return RetainedLog(None, by=f"for slot {self._config.slot}, which does not exist")
        retained, safe, now, restart, confirmed, wal_status, active = row
        by = f"for slot {self._config.slot} ({wal_status or 'unused'}, {'active' if active else 'inactive'})"
        if retained is None:
            return RetainedLog(None, by=by)
        most = self._config.max_retained_wal
        due = self._warned_at is None or time.monotonic() - self._warned_at >= WARNING_SECONDS
        if most is not None and retained * 2 >= most and due:
            self._warned_at = time.monotonic()
            cause = self._cause(session, parse_lsn(now), parse_lsn(restart), parse_lsn(confirmed), position, reading)
            logger.warning(
                "slot %s retains %d MB of log, max_retained_wal is %d MB: %s",
                self._config.slot,
                retained // _MB,
                most // _MB,
                cause,
                extra={"retained_bytes": retained, "max_retained_wal": most},
            )
        limit = None if safe is None else int(retained + safe)
        return RetainedLog(int(retained), limit, parse_lsn(now), by)

    def _cause(
        self, session: psycopg.Connection, now: int, restart: int, confirmed: int, position: int, reading: str
    ) -> str:
        """The largest of the three parts of the retained log, and its cause."""
        unread, unacknowledged, held = now - position, position - confirmed, confirmed - restart
        if unread >= max(unacknowledged, held):
            what = f", now in a transaction that changed {reading}" if reading else ""
            return f"{unread // _MB} MB of it have not been read yet{what}"
        if unacknowledged >= held:
            return f"{unacknowledged // _MB} MB of it have been captured, but not acknowledged as durable yet"
        with asking("asking which transaction holds back the log"):
            writers = stored_rows(session, _WRITERS)
        if not writers:
            unseen = f"others that user {self._config.user} may not see (GRANT pg_read_all_stats)"
            return (
                f"{held // _MB} MB of it are held back by transactions: prepared ones, {unseen}, or ones that "
                "just ended"
            )
        pid, application, seconds, tables = writers[0]
        wrote = f" and has written to {', '.join(tables)}" if tables else ""
        return (
            f"process {pid} ({application}) holds back {held // _MB} MB of it: its transaction has been running for "
            f"{seconds} s{wrote}"
        )


def replica_lag(session: psycopg.Connection, user: str) -> float | None:
    """The lag of the slowest physical replica in seconds, on a standby its own lag; None without replicas.

    Raises:
        SourceError: ``TM-PG-008`` the role may not see it.
    """
    with asking("asking for the lag of replicas"):
        row = session.execute(_REPLICA_LAG).fetchone()
    assert row is not None
    seconds, hidden = row
    if hidden:
        raise SourceError(
            "TM-PG-008",
            f"user {user} may not see the lag of replicas",
            remedy=f"Run: GRANT pg_read_all_stats TO {sql.Identifier(user).as_string(None)}; or leave max_replica_lag "
            "out.",
        )
    return float(seconds) if seconds is not None else None
