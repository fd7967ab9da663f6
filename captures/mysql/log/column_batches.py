"""Gathers rows of the log for a batch of columns: see ``tidemark.protocol.batches``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tidemark.captures.mysql.log.open_transaction import OpenTransaction
from tidemark.captures.mysql.rows.log_decoder import DELETE, INSERT, UPDATE
from tidemark.captures.mysql.rows.row_images import MISFITS
from tidemark.captures.mysql.rows.row_loops import Gather, Gathered
from tidemark.captures.mysql.tables.logged_table import LoggedTable
from tidemark.captures.mysql.terms.event_bytes import ByteText
from tidemark.captures.rows.cells import Cell
from tidemark.captures.rows.gathered_columns import GatheredColumns
from tidemark.captures.rows.log_parts import LogMeta

_OPS = {INSERT: "c", UPDATE: "u", DELETE: "d"}

_TEXTS = frozenset((Cell.TEXT, Cell.JSON, Cell.BYTES))
_NUMBER_BYTES = 8


WaitingRows = tuple[LoggedTable, str, bytes, ByteText, int, Gather, OpenTransaction, str, bytes]
"""An event that waits: its table, what it does, its own bytes and text from the count of columns on, where in them rows
begin, what gathers them, its transaction, ``file:offset:`` of ``_meta.source.cursor``, and the table's number."""


@dataclass(slots=True)
class _Rows:
    """Those of a table: its events, and what they say besides the columns."""

    table: LoggedTable
    gathered: Gathered = field(default_factory=Gathered)
    n: list[int] = field(default_factory=list)
    op: list[str] = field(default_factory=list)
    loc: list[str] = field(default_factory=list)
    ts_ms: list[int] = field(default_factory=list)
    txid: list[str | None] = field(default_factory=list)

    def add(self, waiting: WaitingRows, first: int, number: int) -> int:
        """Adds an event whose rows are numbered from ``number`` on, and come as the batch's events from ``first`` on.

        Returns how many it has. Raises one of ``MISFITS``.
        """
        _, what, data, text, at, gather, transaction, place, _ = waiting
        gathered = self.gathered
        before, end = len(gathered.rows), len(data)
        if gather(data, text, at, end, gathered) != end:
            raise ValueError("rows do not have the table's columns")
        count = len(gathered.rows) - before
        if what != UPDATE:
            gathered.before += [None] * count
        if count == 1:
            self.n.append(first)
            self.loc.append(f'"{place}{number}"')
            self.ts_ms.append(transaction.milliseconds)
            self.txid.append(transaction.gtid or None)
            self.op.append(_OPS[what])
            return 1
        self.n += range(first, first + count)
        self.loc += [f'"{place}{each}"' for each in range(number, number + count)]
        self.ts_ms += [transaction.milliseconds] * count
        self.txid += [transaction.gtid or None] * count
        self.op.append(_OPS[what] * count)
        return count

    def meta(self) -> LogMeta:
        ops, moves = "".join(self.op), self.gathered.moves
        if moves:
            letters = list(ops)
            for place in moves:
                letters[place : place + 2] = "dc"
            ops = "".join(letters)
        before = self.gathered.before if "u" in ops else None
        return LogMeta(self.n, ops, self.ts_ms, self.loc, self.txid, before, None)


class ColumnBatches:
    """Makes one batch after another."""

    def __init__(self) -> None:
        self._gathered = GatheredColumns[LoggedTable]()

    def add(self, waiting: Sequence[WaitingRows]) -> bool:
        """Adds the rows of events, in their order. False, and nothing is added, if they are to be lines."""
        of: dict[int, _Rows] = {}
        for table, *_ in waiting:
            if table.binding not in of:
                of[table.binding] = _Rows(table)
            elif of[table.binding].table is not table:
                return False
        if not self._gathered.takes([rows.table for rows in of.values()]):
            return False
        next_event = self._gathered.events
        numbers: dict[OpenTransaction, int] = {}  # Of the next rows of those that number them over all events.
        for each in waiting:
            table, transaction = each[0], each[6]
            number = numbers.get(transaction, transaction.row or 0) if transaction.row is not None else 0
            try:
                count = of[table.binding].add(each, next_event, number)
            except MISFITS:
                self._gathered.refuse(table)
                return False
            if transaction.row is not None:
                numbers[transaction] = number + count
            next_event += count
        if not self._gathered.are_enough(next_event - self._gathered.events, len(of)):
            return False
        size = 0
        columns: dict[int, list[Sequence[Any]]] = {}
        for binding, rows in of.items():
            columns[binding] = list(zip(*rows.gathered.rows, strict=True))
            try:
                size += _checked(rows.table, columns[binding], rows.gathered.before)
            except UnicodeDecodeError:
                self._gathered.refuse(rows.table)
                return False
        if not self._gathered.has_room(size):
            return False
        for binding, rows in of.items():
            self._gathered.part(rows.table, _cells(rows.table)).add(columns[binding], rows.meta())
        self._gathered.added(size)
        for transaction, number in numbers.items():
            transaction.row = number
        return True

    def take(self) -> list[bytes]:
        """The line of the batch and its streams; nothing if it has no rows. Another one begins."""
        return self._gathered.take()


def _cells(table: LoggedTable) -> Sequence[Cell]:
    assert table.decoder is not None and table.decoder.cells is not None
    return table.decoder.cells


def _checked(table: LoggedTable, columns: Sequence[Sequence[Any]], before: Sequence[str | None]) -> int:
    """Bytes of values and JSON, once all texts are known to be UTF-8: the server does not check what it has as such.

    Raises UnicodeDecodeError.
    """
    size = _checked_size("".join(filter(None, before)))
    for cell, values in zip(_cells(table), columns, strict=True):
        if cell not in _TEXTS:
            size += _NUMBER_BYTES * len(values)
            continue
        try:
            # What stands between keeps parts of characters in two texts apart.
            joined = "\n".join(values)
        except TypeError:  # Some are None.
            joined = "\n".join(filter(None, values))
        size += len(joined) if cell is Cell.BYTES else _checked_size(joined)
    return size


def _checked_size(text: str) -> int:
    if not text.isascii():
        text.encode("latin-1").decode()
    return len(text)
