"""XA transactions in the log: their rows are before XA PREPARE, and count from XA COMMIT on.

Rows that are not held in memory until then are read from the log again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container
from dataclasses import dataclass

from tidemark.captures.contract.errors import LostPosition
from tidemark.captures.contract.log import LogBatch
from tidemark.captures.contract.table_events import ChangesPassed, RowsAffected
from tidemark.captures.mysql.log import events
from tidemark.captures.mysql.log.binlog_cursor import LogPlace, ReadTo
from tidemark.captures.mysql.log.events import ROW_EVENTS
from tidemark.captures.mysql.log.logged_tables import LoggedTables
from tidemark.captures.mysql.log.mapped_rows import TableMaps
from tidemark.captures.mysql.log.open_transaction import MappedRows, OpenTransaction, Prepared
from tidemark.captures.mysql.tables.table_changes import PREPARED_BEFORE
from tidemark.captures.mysql.terms.event_bytes import byte_text
from tidemark.captures.mysql.terms.gtid import Gtids, MysqlGtids
from tidemark.captures.mysql.terms.position import LogPosition, PreparedPlace
from tidemark.protocol.errors import SourceError

_CONTENT = frozenset((events.TABLE_MAP, events.TRANSACTION_PAYLOAD, events.XA_PREPARE, *ROW_EVENTS))


@dataclass(slots=True)
class Recall:
    """The search for the rows of a transaction whose commit was read; ``commit`` is the GTID of that, or of its
    beginning if it has one phase, and empty without GTIDs.
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


class XaTransactions:
    """Holds the rows of prepared transactions, and writes them when the transactions commit.

    Args:
        committing: The commits that may not be visible yet; None on MySQL, which has GTIDs for that.

    Attributes:
        recall: The transaction whose rows are being read again; None for none.
        place: ``file:offset:`` of the latest commit, for the cursors of its rows.
    """

    def __init__(
        self,
        read_to: ReadTo,
        tables: LoggedTables,
        maps: TableMaps,
        committing: Committing | None,
        held_bytes: int,
    ) -> None:
        self._read_to = read_to
        self._tables = tables
        self._maps = maps
        self._held_bytes = held_bytes
        self.committing = committing
        self.recall: Recall | None = None
        self.place = ""

    def begin(self, transaction: OpenTransaction) -> None:
        """Holds the rows that follow for the transaction's commit."""
        transaction.held = self._read_to.prepared_here(transaction.gtid)

    def hold(self, prepared: Prepared, rows: MappedRows) -> None:
        """Keeps the rows of an event in memory while there is room for them."""
        held = sum(other.size for other in self._read_to.prepared.values()) + prepared.size
        prepared.add(rows, self._held_bytes - held)

    def prepare(self, transaction: OpenTransaction, xid: str) -> None:
        """XA PREPARE: the transaction ends in the log, and its rows wait for the commit of ``xid``."""
        self._read_to.prepared[xid] = self._taken(transaction)
        if self.committing is not None:
            self.committing.prepared(xid)

    def commit(
        self, transaction: OpenTransaction, xid: str, place: LogPlace, batch: LogBatch, *, one_phase: bool = False
    ) -> LogPosition | None:
        """XA COMMIT: the transaction's rows are written, with the place of this statement; ``one_phase``: it was not
        prepared.

        Returns None when all rows were written; otherwise where the log has them, from where it must be read again.
        Raises SourceError, and LostPosition ``TM-MY-053`` where the log no longer has the rows.
        """
        if one_phase:
            return self._count(transaction, xid, self._taken(transaction), place, batch)
        transaction.ends = xid
        prepared = self._read_to.prepared.get(xid)
        if prepared is None:
            # Prepared before the capture. It waits for those that it can see before it reads tables.
            for binding in self._tables.tables.without_prepared():
                batch.tell(RowsAffected(binding, PREPARED_BEFORE.cause()))
            return None
        return self._count(transaction, xid, prepared, place, batch)

    def recalled(self, xid: str) -> LogPosition:
        """XA PREPARE, after the rows before it were read again. Returns where the log continues after the commit.
        Raises LostPosition ``TM-MY-053`` if it is of another transaction than ``xid``.
        """
        assert self.recall is not None
        self.recall.check(xid)
        after, self.recall = self.recall.after, None
        return after

    def over(self, xid: str) -> None:
        """A transaction has ended: it committed or rolled back ``xid``, empty for none."""
        if xid and self.committing is not None:
            self.committing.add(xid)

    def _taken(self, transaction: OpenTransaction) -> Prepared:
        """The held rows of a transaction that ends."""
        held, transaction.held = transaction.held, None
        return held or self._read_to.prepared_here(transaction.gtid)

    def _count(
        self, transaction: OpenTransaction, xid: str, prepared: Prepared, place: LogPlace, batch: LogBatch
    ) -> LogPosition | None:
        # The rows get the place of the commit, and are numbered there over all events.
        self.place = f"{place}:"
        transaction.row = 0
        if prepared.events is None:
            self.recall = Recall(xid, prepared.place, transaction.gtid, LogPosition(place.file, place.offset))
            return self.recall.start(self._read_to.gtids)
        for rows in prepared.events:
            table = rows.table
            if not self._tables.tables.captures(table.binding):
                batch.tell(ChangesPassed(table.binding))
                transaction.pass_over()
            elif self._tables.leaves_out(table, transaction.gtid, place.order, transaction.ends, batch):
                transaction.pass_over()
            else:
                self._maps.write(rows._replace(text=byte_text(rows.data)), transaction, self.place, batch)
        return None


REMEMBERED = 1_000
"""After this many commits of prepared transactions the server is asked which are not complete."""


class Committing:
    """Xids whose XA COMMIT was read from the log, and which snapshots may not show yet.

    Args:
        prepared: Those that were prepared, and did not end, before the position where reading begins.
        still_prepared: Asks which xids are prepared, or whose commit is not complete: all others are visible. Those
            that ``prepared`` lacks may have been committed before that position.

    Attributes:
        xids: All of them, and some that are complete.
    """

    def __init__(self, prepared: Container[str], still_prepared: Callable[[], Collection[str]]) -> None:
        self._still_prepared = still_prepared
        self._limit = REMEMBERED
        self.xids = {xid for xid in still_prepared() if xid not in prepared}

    def add(self, xid: str) -> None:
        """The log has the XA COMMIT."""
        self.xids.add(xid)

    def prepared(self, xid: str) -> None:
        """The log has the XA PREPARE of another transaction with this xid, so the earlier one is complete."""
        self.xids.discard(xid)

    def forget(self) -> None:
        """Forgets those that are complete, once there are many. Raises as ``still_prepared``."""
        if len(self.xids) > self._limit:
            self.xids.intersection_update(self._still_prepared())
            self._limit = REMEMBERED + 2 * len(self.xids)
