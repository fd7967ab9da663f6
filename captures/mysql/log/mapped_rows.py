"""Row events and their tables: each names its table by a number from a TABLE_MAP event before it."""

from __future__ import annotations

from typing import NamedTuple

from tidemark.captures.contract.log import LogBatch
from tidemark.captures.mysql.log.logged_tables import LoggedTables
from tidemark.captures.mysql.log.open_transaction import OpenTransaction
from tidemark.captures.mysql.log.row_events import WITHOUT_TABLE, row_event
from tidemark.captures.mysql.rows.partial_rows import LacksKey
from tidemark.captures.mysql.rows.row_sink import Sink
from tidemark.captures.mysql.tables.logged_table import LoggedTable
from tidemark.captures.mysql.terms.event_bytes import ByteText
from tidemark.captures.tables.bad_values import BadValues
from tidemark.protocol.errors import SourceError


class MappedRows(NamedTuple):
    """The rows of an event, of a captured table.

    Attributes:
        what: As of ``RowDecoder.decode``, like all that follow.
        number: Of the table, in the log.
    """

    table: LoggedTable
    what: str
    data: bytes
    text: ByteText
    at: int
    end: int
    number: bytes = b""


class TableMaps:
    """The tables by their numbers.

    Args:
        tables: The captured tables by name.
    """

    def __init__(self, tables: LoggedTables) -> None:
        self._tables = tables
        self._maps: dict[bytes, LoggedTable | None] = {}
        self._unfit: dict[bytes, tuple[LoggedTable, BadValues]] = {}  # Set aside for their values in this batch.

    def __len__(self) -> int:
        """How many numbers stand for a table now."""
        return len(self._maps)

    def begin_batch(self) -> None:
        self._unfit.clear()

    def clear(self) -> None:
        """Another file begins: transactions map their tables again there. Each ALTER gives a table another number."""
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
        self._maps[body[:6]] = self._tables.mapped(body, batch)

    def rows(
        self, kind: int, data: bytes, text: ByteText, start: int, end: int, place: object, batch: LogBatch
    ) -> MappedRows | None:
        """The rows of an event at ``place``, None where the table is not captured. Raises SourceError."""
        number = data[start : start + 6]
        table = self._maps.get(number)
        if table is not None:
            return MappedRows(table, *row_event(kind, data, text, start, end), number)
        if number not in self._maps and number != WITHOUT_TABLE:
            raise SourceError("TM-MY-044", f"rows at {place} without their table")
        if number in self._unfit:
            rows = MappedRows(self._unfit[number][0], *row_event(kind, data, text, start, end), number)
            self._look_for_more(rows, batch)
        return None

    def write(self, rows: MappedRows, transaction: OpenTransaction, place: str, batch: LogBatch) -> None:
        """Writes rows, or sets their table aside. Raises SourceError."""
        table, what, data, text, at, end, number = rows
        try:
            transaction.rows(table, what, data, text, at, end, place, batch)
        except (BadValues, LacksKey) as error:
            self._tables.set_aside(table.binding, error, batch)
            if isinstance(error, BadValues):
                self._unfit[number] = table, error

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
