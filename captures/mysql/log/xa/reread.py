"""Reads the rows of a prepared XA transaction again, which are in the log before its commit."""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.captures.contract.errors import LostPosition
from tidemark.captures.mysql.log import events
from tidemark.captures.mysql.log.row_events import ROW_EVENTS
from tidemark.captures.mysql.terms.gtid import Gtids, MysqlGtids
from tidemark.captures.mysql.terms.position import LogPosition, PreparedPlace
from tidemark.protocol.errors import SourceError

_CONTENT = frozenset((events.TABLE_MAP, events.TRANSACTION_PAYLOAD, events.XA_PREPARE, *ROW_EVENTS))


@dataclass(slots=True)
class Recall:
    """The search for the rows of a transaction whose commit was read.

    Attributes:
        xid: Of the transaction.
        place: Where it begins.
        commit: The GTID of its commit, or of its beginning if it has one phase; empty without GTIDs.
        after: Where reading the log resumes.
        passing: What is read is of another transaction.
    """

    xid: str
    place: PreparedPlace
    commit: str
    after: LogPosition
    passing: bool = False

    def start(self, read: Gtids) -> LogPosition:
        """Where to read from. ``read`` are the GTIDs up to the commit. Raises LostPosition ``TM-MY-053``."""
        place = self.place
        if place.file:
            return LogPosition(place.file, place.offset)
        if not place.gtid:
            raise LostPosition("TM-MY-053", f"{self.xid} was prepared without a GTID, on another server")
        # Another server has it at another position: by GTIDs. Only MySQL's sets can ask for a single one.
        return LogPosition("", 0, read.without(place.gtid) if isinstance(read, MysqlGtids) else place.before)

    def begins(self, gtid: str) -> None:
        """A transaction begins. Raises LostPosition ``TM-MY-053`` if it is the commit: then the rows are missing."""
        if gtid and gtid == self.commit != self.place.gtid:
            raise LostPosition("TM-MY-053", f"the log has the commit of {self.xid}, but not its rows")
        self.passing = not self.place.file and gtid != self.place.gtid

    def passes_over(self, kind: int) -> bool:
        """Whether an event is of another transaction."""
        return self.passing and kind in _CONTENT

    def check(self, xid: str) -> None:
        """A prepared transaction ends. Raises LostPosition ``TM-MY-053`` when it is another one."""
        if xid != self.xid:
            raise LostPosition("TM-MY-053", f"the log no longer has the rows of {self.xid} at their position")


def not_recalled(error: SourceError) -> SourceError:
    """The error for a log that could not be opened at the beginning of a prepared transaction."""
    if isinstance(error, LostPosition):
        return LostPosition("TM-MY-053", f"the rows of a prepared transaction: {error.message}")
    return error
