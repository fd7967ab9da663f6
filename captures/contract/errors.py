"""Errors by which a database tells the engine the fate of a table, or of the log."""

from __future__ import annotations

from tidemark.protocol.errors import SourceError


class LostPosition(SourceError):
    """The log cannot be resumed from the capture's position, and a retry cannot help.

    It was removed (a slot dropped or invalidated, a binlog purged), or it is another log (another server, a restore, a
    failover that lost it). With ``on_lost_position: backfill`` the engine starts over instead of failing.
    """


class AnotherServer(SourceError):
    """Another server answers at the address, so positions of this session mean nothing there. A retry within the
    session cannot help: a new one looks for its position on that server.
    """


class TableAway(SourceError):
    """A table is missing, or cannot be captured as it is. If it does not return within a moment, it is set aside."""


class TableAltered(SourceError):
    """A chunk found that a table is not what the log has shown of it so far.

    The engine tells the source (``Source.found_altered``), and no chunk of the table counts until it is known what
    became of it. To wait for that is no failure of the table.
    """


class UnfitValues(SourceError):
    """A table has values that cannot be captured as it is configured: it is set aside at once.

    The table itself does not show whether it can be captured again. It is emptied and read again after a change of
    ``OpenedTable.policy``, or on a command.
    """


class SessionEnded(Exception):
    """The session ended while a source was waiting."""
