"""The open transaction of the log: what begins and ends it, where its rows go, and its summary for the engine."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple

from tidemark.backfill.keys import TouchedKeys
from tidemark.captures.contract.log import LogBatch, Transaction
from tidemark.captures.contract.table_events import BadValuesCounted, RowsAffected
from tidemark.captures.mysql.log.events import Gtid
from tidemark.captures.mysql.rows.row_loops import Sink
from tidemark.captures.mysql.statements.tokens import Name
from tidemark.captures.mysql.tables.logged_table import LoggedTable
from tidemark.captures.mysql.tables.table_changes import ROLLED_BACK, UNKNOWN_ROWS
from tidemark.captures.mysql.terms.event_bytes import ByteText
from tidemark.captures.mysql.terms.gtid import xa_id
from tidemark.captures.mysql.terms.position import PreparedPlace
from tidemark.captures.rows.captured_line import opening, origin_members, without_columns
from tidemark.captures.tables.truncation import Truncation, emptied, ignored
from tidemark.protocol.errors import SourceError

logger = logging.getLogger(__name__)

_EVENT_BYTES = 128
"""Memory that an event takes besides its rows."""


class MappedRows(NamedTuple):
    """The rows of an event, of a captured table: arguments of ``RowDecoder.decode``, and the number of the table in the
    log.
    """

    table: LoggedTable
    what: str
    data: bytes
    text: ByteText
    at: int
    end: int
    number: bytes = b""


@dataclass(slots=True)
class Prepared:
    """A prepared transaction; ``events`` is None when they must be read again, and ``size`` the bytes of memory that
    they take.
    """

    place: PreparedPlace
    events: list[MappedRows] | None = field(default_factory=list)
    size: int = 0
    bindings: set[int] = field(default_factory=set)

    def let_go(self) -> None:
        """Holds no rows: they are read again when the transaction commits."""
        self.events, self.size = None, 0

    def add(self, rows: MappedRows, room: int) -> None:
        """Holds an event, or drops all of them if it takes more than ``room`` bytes."""
        self.bindings.add(rows.table.binding)
        if self.events is None:
            return
        own = rows.data[rows.at : rows.end]
        size = len(own) + _EVENT_BYTES
        if size > room:
            self.let_go()
            return
        self.events.append(MappedRows(rows.table, rows.what, own, "", 0, len(own)))  # Its text is made when it counts.
        self.size += size


class OpenTransaction:
    """One transaction, from its beginning.

    Args:
        number: Counts transactions.
        gtid: The event that begins it.
        timestamp: Of the event that began it, in seconds since 1970.
        tracked: Bindings whose touched keys are recorded.
        written: Row events whose documents were returned before the connection broke, and are not returned again.

    Attributes:
        explicit: It ends with a commit, not after its first statement.
        undecided: See ``Gtid``: its statement has changed nothing.
        held: It is an XA transaction: its rows are kept for its commit.
        row: The next row's number if several events share a position; None if each event has its own.
        row_events: Row events so far, including those of tables that are not captured.
        ends: The xid of the prepared transaction that it commits or rolls back; empty for none.
    """

    def __init__(self, number: int, gtid: Gtid, timestamp: int, tracked: frozenset[int], written: int) -> None:
        self._number = number
        self._tracked = tracked
        self._written = written
        self._entered: list[LoggedTable] = []
        self._current: Transaction | None = None
        self.gtid = gtid.text
        self.explicit = gtid.begins
        self.undecided = gtid.undecided
        self.milliseconds = gtid.commit_time // 1000 if gtid.commit_time else timestamp * 1000
        self.committed_at = gtid.commit_time / 1e6 if gtid.commit_time else None
        self.held: Prepared | None = None
        self.row: int | None = None
        self.row_events = 0
        self.ends = ""

    @property
    def bindings(self) -> set[int]:
        """The bindings that it changed."""
        return {table.binding for table in self._entered}

    def enter(self, table: LoggedTable) -> bool:
        """Counts an event with rows of a table. Returns whether its documents were returned already."""
        returned = self.row_events < self._written
        self.row_events += 1
        if table.transaction != self._number:
            self._enter(table)
        return returned

    def rows(self, rows: MappedRows, place: str, lines: list[bytes], batch: LogBatch) -> None:
        """Writes an event's rows to ``lines``. ``place`` is ``file:offset:`` of ``_meta.source.cursor``.

        Raises SourceError.
        """
        table, what, data, text, at, end, _ = rows
        if table.decoder is None:
            self._unknown(table, batch)
            return
        sink = Sink(lines, table.touched, table.incomplete)
        row = self.row
        before = len(lines)
        try:
            after = table.decoder.decode(what, data, text, at, end, self._source(table, place), row or 0, sink)
            if table.as_of:
                b"".join(lines[before:]).decode()
        except (SourceError, UnicodeDecodeError):
            if not table.as_of:
                raise
            # They do not fit the catalog, which is of a later position in the log.
            del lines[before:]
            table.decoder.repairs.counts.clear()
            self._unknown(table, batch)
            return
        if bad := table.decoder.repairs.counts:
            batch.events += (BadValuesCounted(table.binding, policy, count) for policy, count in bad.items())
            bad.clear()
        if row is not None:
            self.row = after

    @staticmethod
    def _unknown(table: LoggedTable, batch: LogBatch) -> None:
        """The rows cannot be decoded: the table is read again, and what was read before does not count."""
        batch.tell(RowsAffected(table.binding, UNKNOWN_ROWS.cause()))
        if table.touched is not None:
            table.touched.truncate()

    def _source(self, table: LoggedTable, place: str) -> tuple[str, str]:
        """The source of a row's ``_meta``, in the two parts that ``RowDecoder.decode`` takes."""
        txid = f'","txid":"{self.gtid}"}}' if self.gtid else '"}'
        return f'{{"ts_ms":{self.milliseconds},{table.origin},"cursor":"{place}', txid

    def pass_over(self) -> None:
        """Skips an event's rows, of a table that is not captured.

        They count like others. A table may be left out in the middle of a transaction; when the transaction is read
        again, the table is skipped from the beginning.
        """
        self.row_events += 1

    def abandoned(self, batch: LogBatch) -> None:
        """The source rolled back rows of the transaction: a backfill replaces what was written of them."""
        held = self.held
        for binding in self.bindings | (set() if held is None else held.bindings):
            batch.tell(RowsAffected(binding, ROLLED_BACK.cause()))
        if held is not None:
            held.events = []

    def truncation(self, binding: int, name: Name, place: str, batch: LogBatch, becomes: Truncation) -> None:
        """Writes that the table of this name was emptied."""
        table = LoggedTable(binding, None, True, origin_members(*name).decode("latin-1"))
        self._enter(table)
        if table.touched is not None:
            table.touched.truncate()
        if becomes is Truncation.EMIT:
            source = "0".join(self._source(table, place)).encode("latin-1")
            batch.lines.append(without_columns(opening(table.binding, "t").encode() + source))
        elif becomes is Truncation.BACKFILL:
            batch.lines += emptied(table.binding)
        else:
            logger.warning("%s", ignored(".".join(name)))

    def finished(self, position: int) -> Transaction | None:
        """Its summary for the engine when it ends at ``position``; None if it changed no captured table."""
        current = self._current
        if current is not None:
            current.txn = self.gtid or position
            for table in self._entered:
                current.incomplete += [(table.binding, key) for key in table.incomplete]
                table.incomplete.clear()
        return current

    def _enter(self, table: LoggedTable) -> None:
        """The table's first change in this transaction."""
        if self._current is None:
            self._current = Transaction(self.gtid, self._tracked)
        table.transaction = self._number
        table.touched = None
        if table.binding in self._tracked:
            table.touched = self._current.touched.setdefault(table.binding, TouchedKeys())
        self._entered.append(table)


class Control(Enum):
    """The effect of such a statement."""

    BEGIN = auto()
    COMMIT = auto()
    ROLLBACK = auto()
    SAVEPOINT = auto()
    ROLLBACK_TO = auto()
    XA_START = auto()
    XA_END = auto()
    XA_COMMIT = auto()
    XA_ROLLBACK = auto()


class ControlStatement(NamedTuple):
    """``xid`` as ``xa_id`` writes it; empty where the statement has none."""

    control: Control
    xid: str = ""


_BEGIN = ControlStatement(Control.BEGIN)
_COMMIT = ControlStatement(Control.COMMIT)

_FORMS = re.compile(
    rb"\s*(?:(?P<begin>BEGIN|START\s+TRANSACTION)\b(?!\s*NOT)"
    rb"|(?P<commit>COMMIT)\b"
    rb"|(?P<rollback_to>ROLLBACK\s+(?:WORK\s+)?TO)\b"
    rb"|(?P<rollback>ROLLBACK)\b"
    rb"|(?P<savepoint>(?:RELEASE\s+)?SAVEPOINT)\b"
    rb"|XA\s+(?P<xa>START|BEGIN|END|PREPARE|COMMIT|ROLLBACK)\s+(?P<xid>.*))",
    re.IGNORECASE | re.DOTALL,
)
_XID = re.compile(rb"X'([0-9a-f]*)'\s*,\s*X'([0-9a-f]*)'\s*,\s*(-?\d+)", re.IGNORECASE)
_XA = {
    b"START": Control.XA_START,
    b"BEGIN": Control.XA_START,
    b"END": Control.XA_END,
    b"PREPARE": Control.XA_END,
    b"COMMIT": Control.XA_COMMIT,
    b"ROLLBACK": Control.XA_ROLLBACK,
}


def control(statement: bytes) -> ControlStatement | None:
    """The effect of a statement on transactions; None if it has none."""
    if statement == b"BEGIN":
        return _BEGIN
    if statement == b"COMMIT":
        return _COMMIT
    match = _FORMS.match(statement)
    if match is None:
        return None
    if match["xa"] is not None:
        xid = _XID.match(match["xid"])
        parts = (bytes.fromhex(xid[1].decode()), bytes.fromhex(xid[2].decode()), int(xid[3])) if xid else None
        return ControlStatement(_XA[match["xa"].upper()], xa_id(*parts) if parts else "")
    return ControlStatement(Control[(match.lastgroup or "").upper()])
