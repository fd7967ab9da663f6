"""Row events and their tables: each names its table by a number from a TABLE_MAP event before it.

Where batches of columns may be sent, rows wait: those that follow one another, of any transactions, are added to a
batch, some at a time. Before anything else of the log is written, and at the end of each read, none waits any more, and
the batch is written. Rows that columns cannot hold become lines, with all that wait with them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tidemark.captures.contract.errors import UnfitValues
from tidemark.captures.contract.log import LogBatch
from tidemark.captures.mysql.log.events import WITHOUT_TABLE, row_event
from tidemark.captures.mysql.log.logged_tables import LoggedTables
from tidemark.captures.mysql.log.open_transaction import MappedRows, OpenTransaction
from tidemark.captures.mysql.rows.log_decoder import UnreadableRows
from tidemark.captures.mysql.rows.partial_rows import LacksKey
from tidemark.captures.mysql.rows.row_loops import Sink
from tidemark.captures.mysql.tables.logged_table import LoggedTable
from tidemark.captures.mysql.terms.event_bytes import ByteText
from tidemark.captures.tables.bad_values import BadValues
from tidemark.captures.tables.read_as_columns import LARGE_ROW
from tidemark.protocol.errors import SourceError

if TYPE_CHECKING:
    from tidemark.captures.mysql.log.column_batches import ColumnBatches, WaitingRows

MOST_WAITING = 512
"""Events that wait."""

MOST_WAITING_BYTES = 128 * 1024
"""Bytes of their rows. What they are on their way into columns fits a processor's cache."""

_OF_A_TABLE = (UnfitValues, LacksKey, UnreadableRows)
"""Errors about rows that concern no other table."""


class TableMaps:
    """The tables by their numbers."""

    def __init__(self, tables: LoggedTables, *, columns: bool) -> None:
        self._tables = tables
        self._batches: ColumnBatches | None = None
        if columns:
            # Only where they can be sent, the package that writes them has to be there.
            from tidemark.captures.mysql.log.column_batches import ColumnBatches

            self._batches = ColumnBatches()
        self._waiting: list[WaitingRows] = []
        self._waiting_bytes = 0
        self._maps: dict[bytes, LoggedTable | None] = {}
        self._unfit: dict[bytes, tuple[LoggedTable, BadValues]] = {}  # Set aside for their values in this batch.

    def __len__(self) -> int:
        """How many numbers stand for a table now."""
        return len(self._maps)

    @contextmanager
    def reading(self, batch: LogBatch) -> Iterator[None]:
        """Inside, rows are read for a batch; at the end, also after an error, it has all of them."""
        self._unfit.clear()
        try:
            yield
        finally:
            self.flush(batch)

    def drained(self, position: int, batch: LogBatch) -> None:
        """All of the log was read, up to ``position`` between transactions. Raises as ``LoggedTables.doubted``."""
        self.flush(batch)
        self._tables.doubted(position, batch)

    def clear(self, batch: LogBatch) -> None:
        """Another file begins: transactions map their tables again there. Each ALTER gives a table another number."""
        self.flush(batch)
        self._maps.clear()

    def leave_out(self, binding: int) -> None:
        """Passes over the rows of a binding from here on."""
        self._tables.forget()
        for number, table in self._maps.items():
            if table is not None and table.binding == binding:
                self._maps[number] = None

    def take_up(self, binding: int) -> None:
        """The end of ``leave_out``, between transactions."""
        self._tables.forget()

    def mapped(self, body: bytes, batch: LogBatch) -> None:
        """A TABLE_MAP event. Raises SourceError."""
        if not self._tables.knows(body):
            self.flush(batch)
        self._maps[body[:6]] = self._tables.mapped(body, batch)

    def rows(
        self, kind: int, data: bytes, text: ByteText, start: int, end: int, place: object, batch: LogBatch
    ) -> MappedRows | None:
        """The rows of an event at ``place``, None where the table is not captured. Raises SourceError."""
        number = data[start : start + 6]
        table = self._maps.get(number)
        if table is not None:
            return self._read(kind, data, text, start, end, table, number, batch)
        if number not in self._maps and number != WITHOUT_TABLE:
            raise SourceError("TM-MY-044", f"rows at {place} without their table")
        if number in self._unfit:
            rows = self._read(kind, data, text, start, end, self._unfit[number][0], number, batch)
            if rows is not None:
                self._look_for_more(rows, batch)
        return None

    def _read(
        self,
        kind: int,
        data: bytes,
        text: ByteText,
        start: int,
        end: int,
        table: LoggedTable,
        number: bytes,
        batch: LogBatch,
    ) -> MappedRows | None:
        """The rows of an event; None, and their table is set aside, if they do not decompress."""
        try:
            return MappedRows(table, *row_event(kind, data, text, start, end), number)
        except ValueError:
            self.flush(batch)
            name = self._tables.tables[table.binding].name
            error = UnreadableRows("TM-MY-058", f"{name}: compressed rows in the log do not decompress")
        if self._tables.tables.captures(table.binding):
            self._tables.set_aside(table.binding, error, batch)
        return None

    def write(self, rows: MappedRows, transaction: OpenTransaction, place: str, batch: LogBatch) -> None:
        """Writes rows, which may wait, or sets their table aside. ``place`` is ``file:offset:`` of
        ``_meta.source.cursor``.

        Raises SourceError.
        """
        table, what, data, text, at, end, number = rows
        returned = transaction.enter(table)
        if self._batches is not None and not returned and table.fits_columns and end - at <= LARGE_ROW:
            assert table.decoder is not None
            gather, first = table.decoder.gather(what, data, at)
            if gather is not None:
                # Whatever else came with them is not kept.
                own = table, what, data[at:end], text[at:end], first - at, gather, transaction, place, number
                self._waiting.append(own)
                self._waiting_bytes += end - at
                if self._waiting_bytes >= MOST_WAITING_BYTES or len(self._waiting) >= MOST_WAITING:
                    self._gather(batch)
                return
        self.flush(batch)
        self._write(rows, transaction, place, [] if returned else batch.lines, batch)

    def flush(self, batch: LogBatch) -> None:
        """Writes the rows that wait, and the batch of columns that they belong to. Raises SourceError."""
        if self._batches is not None:
            if self._waiting:
                self._gather(batch)
            batch.lines += self._batches.take()

    def _gather(self, batch: LogBatch) -> None:
        """Adds the rows that wait to the batch of columns, or writes them as lines."""
        assert self._batches is not None
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        if self._batches.add(waiting):
            return
        batch.lines += self._batches.take()
        for table, what, data, text, _, _, transaction, place, number in waiting:
            rows = MappedRows(table, what, data, text, 0, len(data), number)
            # An earlier one of them may have its table set aside.
            if self._tables.tables.captures(table.binding):
                self._write(rows, transaction, place, batch.lines, batch)
            elif number in self._unfit:
                self._look_for_more(rows, batch)

    def _write(
        self, rows: MappedRows, transaction: OpenTransaction, place: str, lines: list[bytes], batch: LogBatch
    ) -> None:
        try:
            transaction.rows(rows, place, lines, batch)
        except _OF_A_TABLE as error:
            self._tables.set_aside(rows.table.binding, error, batch)
            if isinstance(error, BadValues):
                self._unfit[rows.number] = rows.table, error

    def _look_for_more(self, rows: MappedRows, batch: LogBatch) -> None:
        """Reports all bad columns of a table that a batch shows at once."""
        table, what, data, text, at, end, number = rows
        known = self._unfit[number][1]
        if table.decoder is None:
            return
        try:
            table.decoder.decode(what, data, text, at, end, ("{", "}"), 0, Sink([], None, []))
        except BadValues as error:
            if not error.columns.keys() <= known.columns.keys():
                self._unfit[number] = table, known.joined(error)
                batch.set_aside(table.binding, self._unfit[number][1])
        except _OF_A_TABLE:
            return  # The table is set aside already.
