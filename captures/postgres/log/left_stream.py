"""The stream that an earlier process of a capture left at the server, which may hold the slot for minutes.

The server ends a stream whose client is gone when it hears nothing for ``wal_sender_timeout``, unless the network tells
it sooner. A network that fails without an error does not. A new process knows the stream by its name, which is the
capture's own (see ``Owner.application``). That another process of the capture reads it still is possible, for example
with a copy of the change log, so only a stream that has been silent for a while is ended: ours says something every
``STATUS_SECONDS``.
"""

from __future__ import annotations

import logging
import time

import psycopg

from tidemark.captures.postgres.log.connection import STATUS_SECONDS, SlotInUse
from tidemark.captures.postgres.server.config import EndpointConfig
from tidemark.captures.postgres.server.session import APPLICATION_NAME, asking
from tidemark.captures.postgres.server.slot_ownership import Owner

logger = logging.getLogger(__name__)

SILENT_SECONDS = STATUS_SECONDS * 1.5
"""A stream of ours that has said nothing for so long is nobody's any more."""

# Without pg_read_all_stats the time of the last reply is null. Then the slot's position alone tells.
_READER = """
SELECT a.pid, a.backend_start::text, r.reply_time::text, s.confirmed_flush_lsn::text
FROM pg_catalog.pg_replication_slots s
JOIN pg_catalog.pg_stat_activity a ON a.pid = s.active_pid
LEFT JOIN pg_catalog.pg_stat_replication r ON r.pid = a.pid
WHERE s.slot_name = %s AND a.application_name = %s
"""

_END = """
SELECT pg_terminate_backend(a.pid)
FROM pg_catalog.pg_replication_slots s JOIN pg_catalog.pg_stat_activity a ON a.pid = s.active_pid
WHERE s.slot_name = %s AND a.pid = %s AND a.backend_start::text = %s
"""


class LeftStream:
    """Watches who reads the slot, while it is in use, and ends a stream that this capture left.

    Attributes:
        expected: The slot may become free: a stream of this capture reads it, and has not been silent for long enough
            yet, or has just been ended.
    """

    def __init__(self, session: psycopg.Connection, config: EndpointConfig, owner: Owner) -> None:
        self._session = session
        self._slot = config.slot
        self._application = owner.application
        self._seen: tuple[object, ...] | None = None
        self._seen_at = 0.0
        self.expected = False

    def look(self) -> None:
        """Looks once. Raises SourceError if the server cannot be asked."""
        if self._application == APPLICATION_NAME:
            return
        with asking("looking for the reader of the replication slot"):
            seen = self._session.execute(_READER, [self._slot, self._application]).fetchone()
        now = time.monotonic()
        if seen != self._seen:
            self._seen, self._seen_at = seen, now
        silent = now - self._seen_at
        self.expected = seen is not None and silent < SILENT_SECONDS
        if seen is None or self.expected:
            return
        pid, begun, *_ = seen
        with asking("ending the stream that an earlier process left"):
            try:
                self._session.execute(_END, [self._slot, pid, begun])
            except psycopg.errors.InsufficientPrivilege:
                return  # Of another user, which the capture had before: a person must end it.
        self._seen, self.expected = None, True  # It takes a moment to end.
        logger.warning(
            "ended process %s of the server: the stream of slot %s that an earlier process of this capture left there. "
            "It had been silent for %.0f s",
            pid,
            self._slot,
            silent,
        )


def in_use(session: psycopg.Connection, config: EndpointConfig, owner: Owner, pid: int | None) -> SlotInUse:
    """The error for a slot that another process reads. Raises SourceError if the server cannot be asked."""
    with asking("looking for the reader of the replication slot"):
        reader = session.execute(
            "SELECT application_name, client_addr::text FROM pg_catalog.pg_stat_activity WHERE pid = %s", [pid]
        ).fetchone()
    application, address = reader or (None, None)
    what = f"replication slot {config.slot} is in use by process {pid} "
    where = f"from {address or 'the server itself'}"
    end = f"SELECT pg_terminate_backend({pid});"
    if application == owner.application != APPLICATION_NAME:
        return SlotInUse(
            "TM-PG-014",
            f"{what}({application} {where}), which is a stream of this capture",
            remedy=(
                f"Stop the other process of this capture. If there is none any more, run: {end} Do not configure "
                "another slot: this one has the capture's position."
            ),
        )
    return SlotInUse(
        "TM-PG-014",
        f"{what}({application} {where})",
        remedy=(
            f"Stop that process. If it is a stream that this capture left, run: {end} Configure another `slot` only "
            "before the capture's first start: a new slot does not have its position."
        ),
    )
