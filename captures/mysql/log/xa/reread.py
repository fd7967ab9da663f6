"""Reading again the rows of a prepared XA transaction, which are in the log before the commit that makes them count."""

from __future__ import annotations

from dataclasses import dataclass

from captures.contract.errors import LostPosition
from captures.mysql.log import events
from captures.mysql.log.gtid import Gtids, MysqlGtids
from captures.mysql.log.position import LogPosition, PreparedPlace
from captures.mysql.rows.row_events import ROW_EVENTS
from protocol.errors import SourceError

_CONTENT = frozenset((events.TABLE_MAP, events.TRANSACTION_PAYLOAD, events.XA_PREPARE, *ROW_EVENTS))


@dataclass(slots=True)
class Recall:
    """The search for the rows of a transaction that is committed now.

    Attributes:
        xid: Of the transaction.
        place: Where it begins.
        commit: The GTID under which it is committed, in one phase that of the begin; empty without GTIDs.
        after: Where reading the log resumes.
    """

    xid: str
    place: PreparedPlace
    commit: str
    after: LogPosition
    _passing: bool = False

    def start(self, read: Gtids) -> LogPosition:
        """Where to read from. ``read`` are the GTIDs up to the commit. Raises LostPosition ``TM-MY-053``."""
        place = self.place
        if place.file:
            return LogPosition(place.file, place.offset)
        if not place.gtid:
            raise LostPosition("TM-MY-053", f"{self.xid} was prepared without a GTID, on another server")
        # Another server has it elsewhere: by GTIDs. Only MySQL's sets can ask for a single one.
        return LogPosition("", 0, read.without(place.gtid) if isinstance(read, MysqlGtids) else place.before)

    def begins(self, gtid: str) -> None:
        """A transaction begins. Raises LostPosition ``TM-MY-053``: it is the one that commits, so the other is gone."""
        if gtid and gtid == self.commit != self.place.gtid:
            raise LostPosition("TM-MY-053", f"the log has the commit of {self.xid}, but not its rows")
        self._passing = not self.place.file and gtid != self.place.gtid

    def passes_over(self, kind: int) -> bool:
        """Whether an event is of another transaction."""
        return self._passing and kind in _CONTENT

    def check(self, xid: str) -> None:
        """A prepared transaction ends. Raises LostPosition ``TM-MY-053`` when it is another one."""
        if xid != self.xid:
            raise LostPosition("TM-MY-053", f"the log no longer has the rows of {self.xid} at their position")


def not_recalled(error: SourceError) -> SourceError:
    """What it means that the log could not be opened at the begin of a prepared transaction."""
    if isinstance(error, LostPosition):
        return LostPosition("TM-MY-053", f"the rows of a prepared transaction: {error.message}")
    return error
