"""Errors by which a database tells the engine what became of a table, or of the log."""

from __future__ import annotations

from protocol.errors import SourceError


class LostPosition(SourceError):
    """The log can no longer be gone on with from where the capture stands, however often it is tried.

    It is gone (a slot dropped or invalidated, a binlog purged), or it is another one (another server, a restore, a
    failover that lost it). With ``on_lost_position: backfill`` the engine starts over instead of ending with it.
    """


class TableAway(SourceError):
    """A table is not there, or not as it can be captured. It has a moment to come back, then it is set aside."""


class TableAltered(SourceError):
    """A chunk found that a table is not what the log has shown of it so far.

    The engine tells the source (``Source.found_altered``), and no chunk of the table counts until it is known what
    became of it. To wait for that is no failure of the table.
    """


class UnfitValues(SourceError):
    """A table has values that cannot be captured as it is configured: it is set aside at once.

    To look at the table does not tell whether it can be captured again: another ``OpenedTable.policy`` does, or a
    command. It is emptied and read again then.
    """


class SessionEnded(Exception):
    """What a source waited for is wanted no more, because the session is over."""
