"""The high side of a fence: a log position at or after every transaction that a snapshot sees."""

from __future__ import annotations

import psycopg

from captures.postgres.lsn import parse_lsn
from captures.postgres.session import asking

MESSAGE_PREFIX = "tidemark"


class FenceTaker:
    """Takes high positions on a session of its own. Call ``high`` after the snapshot was opened.

    A transactional logical message is committed with ``synchronous_commit = local``: it is flushed at once, waits for
    no standby, and its own commit makes the log reader pass the position even where nothing else is written. When
    ``read_only``, the log's insert position is used instead, and the reader passes it by keepalives.
    """

    def __init__(self, session: psycopg.Connection, *, read_only: bool) -> None:
        self._session = session
        self._read_only = read_only

    def high(self) -> int:
        """Raises SourceError when the server refuses or is gone."""
        with asking("taking a fence"):
            if self._read_only:
                row = self._session.execute("SELECT pg_current_wal_insert_lsn()").fetchone()
            else:
                row = self._session.execute("SELECT pg_logical_emit_message(true, %s, '')", [MESSAGE_PREFIX]).fetchone()
        assert row is not None
        return parse_lsn(row[0])
