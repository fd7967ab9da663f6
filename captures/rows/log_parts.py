"""Parts of the log in columns, as Arrow IPC: see ``tidemark.protocol.batches``.

A part is gathered some events at a time, so that what becomes of their values is small, and soon free again. Values are
byte texts (one character a byte, usually of UTF-8) or numbers, and None for NULL. There is no call for a value.
"""

from __future__ import annotations

import io
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import Any

import nanoarrow as na
from nanoarrow.c_array import CArray, c_array_from_buffers
from nanoarrow.c_schema import CSchema, c_schema
from nanoarrow.ipc import StreamWriter

from tidemark.captures.rows.cells import Cell

Texts = Sequence[str | None]

BATCH_BYTES = 256 * 1024
"""Bytes of a record batch, approximately: larger ones take longer to write, for their memory is new each time."""


@dataclass(frozen=True, slots=True)
class LogMeta:
    """The further columns of some events of a part of the log.

    Attributes:
        n: Places in the batch.
        op: A letter for each event.
        ts_ms: When their transactions were committed.
        loc: JSON of ``loc`` or ``cursor``.
        txid: Ids of their transactions.
        before: JSON of ``before``; None if no event has it.
        unchanged: JSON of the list; None if no event has it.
    """

    n: list[int]
    op: str
    ts_ms: list[int]
    loc: Texts
    txid: Texts
    before: Texts | None
    unchanged: Texts | None


class LogPart:
    """Gathers the events of one table; ``columns`` says what each of the table's has."""

    def __init__(self, columns: Sequence[Cell]) -> None:
        self._of = tuple(columns)
        self._count = 0
        self._stream = io.BytesIO()
        self._writer = StreamWriter.from_writable(self._stream)
        self._begin()

    def _begin(self) -> None:
        """Begins a record batch."""
        self._columns = [_NumberColumn(of) if of in _CODES else _TextColumn(of) for of in self._of]
        self._n, self._op, self._ts_ms = array("I"), list[str](), array("q")
        self._loc, self._txid, self._before, self._unchanged = (_TextColumn(Cell.TEXT) for _ in range(4))

    def __len__(self) -> int:
        return self._count

    def add(self, columns: Sequence[Sequence[Any]], meta: LogMeta) -> None:
        """Adds events, one at least."""
        for column, values in zip(self._columns, columns, strict=True):
            column.add(values)
        self._n.fromlist(meta.n)
        self._op.append(meta.op)
        self._ts_ms.fromlist(meta.ts_ms)
        self._loc.add(meta.loc)
        self._txid.add(meta.txid)
        for column, texts in ((self._before, meta.before), (self._unchanged, meta.unchanged)):
            if texts is None:
                column.add_nulls(len(meta.n))
            else:
                column.add(texts)
        self._count += len(meta.n)
        if self._before.size + sum(column.size for column in self._columns) >= BATCH_BYTES:
            self._write()

    def stream(self) -> bytes:
        """The Arrow IPC stream of all events. No more can be added."""
        if self._n:
            self._write()
        self._writer.close()
        return self._stream.getvalue()

    def _write(self) -> None:
        """Writes what was gathered as a record batch."""
        count = len(self._n)
        letters = [None, array("i", range(count + 1)), "".join(self._op).encode()]
        children = [
            *(column.array() for column in self._columns),
            _array(_PLACE, count, [None, self._n]),
            _array(_SCHEMAS[Cell.TEXT], count, letters),
            _array(_SCHEMAS[Cell.INTEGER], count, [None, self._ts_ms]),
            *(column.array() for column in (self._loc, self._txid, self._before, self._unchanged)),
        ]
        rows = c_array_from_buffers(
            _schema(self._of),
            count,
            [None],
            null_count=0,
            children=children,
            validation_level="none",
            move=True,
        )
        self._writer.write_array(rows)
        self._begin()


class _Validity:
    """Which values of a column are there."""

    def __init__(self) -> None:
        self._valid: list[str] = []  # A digit for each value.
        self._nulls = 0

    def all_there(self, count: int) -> None:
        self._valid.append("1" * count)

    def without(self, values: Sequence[Any]) -> None:
        self._nulls += values.count(None)
        self._valid.append("".join(["0" if value is None else "1" for value in values]))

    def none_there(self, count: int) -> None:
        self._nulls += count
        self._valid.append("0" * count)

    def array(self, of: Cell, count: int, *buffers: Any) -> CArray:
        validity = None
        if self._nulls:
            validity = int("".join(self._valid)[::-1], 2).to_bytes((count + 7) // 8, "little")
        return _array(_SCHEMAS[of], count, [validity, *buffers], self._nulls)


class _TextColumn:
    def __init__(self, of: Cell) -> None:
        self._of = of
        self._ends = array("i", [0])
        self._data: list[bytes] = []
        self._validity = _Validity()

    @property
    def size(self) -> int:
        """Bytes of the values."""
        return self._ends[-1]

    def add(self, values: Texts) -> None:
        try:
            self._add(values)  # type: ignore[arg-type]
        except TypeError:  # Some are None.
            if values.count(None) == len(values):
                self.add_nulls(len(values))
                return
            self._validity.without(values)
            self._add(["" if value is None else value for value in values])
        else:
            self._validity.all_there(len(values))

    def add_nulls(self, count: int) -> None:
        self._validity.none_there(count)
        self._ends.extend(self._ends[-1:] * count)

    def _add(self, texts: Sequence[str]) -> None:
        self._data.append("".join(texts).encode("latin-1"))
        ends = accumulate(map(len, texts), initial=self._ends[-1])
        next(ends)
        # An array takes a list in half of the time of any other iterable.
        self._ends.fromlist(list(ends))

    def array(self) -> CArray:
        return self._validity.array(self._of, len(self._ends) - 1, self._ends, b"".join(self._data))


class _NumberColumn:
    def __init__(self, of: Cell) -> None:
        self._of = of
        self._values: array[Any] = array(_CODES[of])
        self._validity = _Validity()

    @property
    def size(self) -> int:
        """Bytes of the values."""
        return len(self._values) * self._values.itemsize

    def add(self, values: Sequence[Any]) -> None:
        try:
            self._values.fromlist(list(values))
        except TypeError:  # Some are None; then nothing was added.
            self._validity.without(values)
            self._values.fromlist([0 if value is None else value for value in values])
        else:
            self._validity.all_there(len(values))

    def array(self) -> CArray:
        return self._validity.array(self._of, len(self._values), self._values)


_TYPES = {
    Cell.TEXT: na.string(),
    Cell.JSON: na.string(),
    Cell.BYTES: na.binary(),
    Cell.INTEGER: na.int64(),
    Cell.DOUBLE: na.float64(),
    Cell.DATE: na.date32(),
    Cell.DATETIME: na.timestamp("us"),
    Cell.TIMESTAMP: na.timestamp("us", "UTC"),
}
_SCHEMAS = {of: c_schema(type_) for of, type_ in _TYPES.items()}
_CODES = {Cell.INTEGER: "q", Cell.DOUBLE: "d", Cell.DATE: "i", Cell.DATETIME: "q", Cell.TIMESTAMP: "q"}
_PLACE = c_schema(na.uint32())


@cache
def _schema(columns: tuple[Cell, ...]) -> CSchema:
    own = {"n": na.uint32(), "op": na.string(), "ts_ms": na.int64()}
    texts = dict.fromkeys(("loc", "txid", "before", "unchanged"), na.string())
    table = {f"c{place}": _TYPES[of] for place, of in enumerate(columns)}
    return c_schema(na.struct({**table, **own, **texts}))


def _array(schema: CSchema, count: int, buffers: Sequence[Any], nulls: int = 0) -> CArray:
    return c_array_from_buffers(schema, count, buffers, null_count=nulls, validation_level="none")
