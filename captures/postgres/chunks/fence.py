"""The high side of a fence: a log position at or after every transaction that a snapshot sees."""

from __future__ import annotations

import psycopg

from tidemark.captures.postgres.server.positions import parse_lsn
from tidemark.captures.postgres.server.session import asking, in_recovery

MESSAGE_PREFIX = "tidemark"

_INSERT_POSITION = "pg_current_wal_insert_lsn()"

# While a standby replays a commit, it shows the transaction a moment before the replay position moves past the record.
# So if more of the log is there than was replayed, the position must be later than the present one: it is the end of
# a record, and the next such end is that of the commit in question.
_REPLAY_POSITION = """
CASE WHEN pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn()
     THEN pg_last_wal_replay_lsn() ELSE pg_last_wal_replay_lsn() + 1 END
"""


class FenceTaker:
    """Takes high positions on a session of its own. Call ``high`` after the snapshot was opened.

    On a primary, a transactional logical message is committed with ``synchronous_commit = local``: it is flushed at
    once, waits for no standby, and its own commit makes the log reader pass the position even where nothing else is
    written. When ``read_only``, the log's insert position is used instead, and on a standby the replay position; the
    reader passes those by keepalives.
    """

    def __init__(self, session: psycopg.Connection, *, read_only: bool) -> None:
        self._session = session
        self._read_only = read_only

    def high(self) -> int:
        """Raises SourceError when the server refuses or is gone."""
        with asking("taking a fence"):
            if self._read_only or in_recovery(self._session):
                # A standby may be promoted at any moment: what it is, is decided where the position is taken.
                row = self._session.execute(
                    f"SELECT CASE WHEN pg_is_in_recovery() THEN {_REPLAY_POSITION} ELSE {_INSERT_POSITION} END"
                ).fetchone()
            else:
                row = self._session.execute("SELECT pg_logical_emit_message(true, %s, '')", [MESSAGE_PREFIX]).fetchone()
        assert row is not None
        return parse_lsn(row[0])
