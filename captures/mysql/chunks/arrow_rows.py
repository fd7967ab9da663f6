"""Rows that are sent as columns: how texts of the server become the rows of a chunk in Arrow."""

from __future__ import annotations

import io
import struct
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Self

from nanoarrow import binary, string
from nanoarrow.c_array import CArray, c_array_from_buffers
from nanoarrow.c_schema import CSchema, c_schema
from nanoarrow.ipc import StreamWriter
from nanoarrow.schema import struct as struct_of

from tidemark.captures.contract.chunk_rows import KEY_MARK, ColumnRows, JoinedRows, ReadRows, Rows
from tidemark.captures.mysql.chunks.scan_target import ScanTarget
from tidemark.captures.mysql.rows.chunk_decoder import EXTRA_KEYS, SHORT
from tidemark.captures.mysql.rows.row_cutter import Cell, Cutter, Present, Texts, compile_cutter
from tidemark.captures.mysql.values.arrow_forms import ArrowForm, arrow_form, arrow_plain, key_part
from tidemark.captures.mysql.values.json_values import Convert
from tidemark.captures.mysql.values.types import KeyForm, form, key_form
from tidemark.captures.tables.read_as_columns import LARGE_ROW, LargeRow, Unusual

BATCH_BYTES = 1024 * 1024
"""Bytes of a record batch, approximately."""

_UNFIT = (ValueError, LookupError, struct.error)
"""The errors of a text that has no form. They may hold values: never chain them."""

_STRING, _BINARY = c_schema(string()), c_schema(binary())


@dataclass(frozen=True, slots=True)
class Selection:
    """What is made of the rows of ``target.scan``.

    Attributes:
        target: Columns with plain texts come last in it.
        places: Where the columns of documents are in it, in their order.
        forms: Of its columns.
        cells: Of all that is selected: texts of keys follow the columns where necessary.
        key: Where the texts of keys are among all that is selected, and how they become parts.
        cut: Cuts rows into columns.
        schema: Of the columns of documents.
    """

    target: ScanTarget
    places: tuple[int, ...]
    forms: tuple[ArrowForm, ...]
    cells: tuple[Cell, ...]
    key: tuple[tuple[int, Convert | None], ...]
    cut: Cutter
    schema: CSchema

    @classmethod
    def of(cls, target: ScanTarget) -> Self | None:
        """None for a table whose rows have to be read as documents."""
        as_bool = target.tinyint1_as_bool
        columns = sorted(target.columns, key=lambda column: arrow_plain(column, tinyint1_as_bool=as_bool))
        forms = [found for column in columns if (found := arrow_form(column, tinyint1_as_bool=as_bool)) is not None]
        if len(forms) < len(columns):
            return None
        cells = [
            Cell(
                short=form(column, tinyint1_as_bool=as_bool) in SHORT,
                nullable=column.nullable,
                plain=arrow_plain(column, tinyint1_as_bool=as_bool),
            )
            for column in columns
        ]
        by_name = {column.name: place for place, column in enumerate(columns)}
        key: list[tuple[int, Convert | None]] = []
        for column in target.key:
            of = key_form(column)
            if of is None:
                return None
            place = by_name[column.name]
            if of in EXTRA_KEYS:
                place = len(cells)
                cells.append(Cell(short=of is KeyForm.NUMBER, nullable=False, plain=of is KeyForm.NUMBER))
            key.append((place, key_part(of)))
        places = tuple(by_name[column.name] for column in target.columns)
        return cls(
            replace(target, columns=tuple(columns)),
            places,
            tuple(forms),
            tuple(cells),
            tuple(key),
            compile_cutter(cells),
            c_schema(struct_of([_BINARY if forms[place].binary else _STRING for place in places])),
        )


class ArrowRows:
    """Gathers the rows of a chunk, blocks of them at a time."""

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._keys = JoinedRows(KEY_MARK)
        self._stream = io.BytesIO()
        self._writer = StreamWriter.from_writable(self._stream)

    def __len__(self) -> int:
        return len(self._keys) + len(self._waiting)

    @property
    def size(self) -> int:
        """Bytes of the rows so far, approximately."""
        return self._stream.tell() + self._waiting_bytes

    def take(self, block: Sequence[bytes]) -> None:
        """Takes payloads of row packets. Raises Unusual; then all of the chunk's rows are to be read as documents."""
        sizes = list(map(len, block))
        if max(sizes) > LARGE_ROW:
            raise LargeRow("a row that is large")
        self._waiting += block
        self._waiting_bytes += sum(sizes)
        if self._waiting_bytes >= BATCH_BYTES:
            self._write()

    def rows(self) -> ReadRows:
        """All rows; no more can be taken. Raises Unusual as ``take``."""
        if not len(self):
            return Rows()
        if self._waiting:
            self._write()
        self._writer.close()
        return ColumnRows(self._keys, self._stream.getvalue())

    def _write(self) -> None:
        """Writes what is waiting as a record batch."""
        rows, self._waiting, self._waiting_bytes = self._waiting, [], 0
        selection, count = self._selection, len(rows)
        try:
            columns = selection.cut(rows)
            present = [
                [text for text in texts if text is not None] if cell.nullable else texts
                for cell, texts in zip(selection.cells, columns, strict=True)
            ]
            keys = self._key_texts(present, count)
            made = list(map(_column, selection.forms, columns, present))
        except _UNFIT as error:
            raise Unusual(f"a value that documents cannot have ({type(error).__name__})") from None
        self._keys.add_joined(keys, count)
        children = [made[place] for place in selection.places]
        batch = c_array_from_buffers(selection.schema, count, [None], children=children, validation_level="none")
        self._writer.write_array(batch)

    def _key_texts(self, present: Sequence[Present], count: int) -> bytes:
        parts = []
        for place, make in self._selection.key:
            texts = present[place]
            if len(texts) < count:
                raise Unusual("a key column without a value")
            parts.append(texts if make is None else [make(text.decode("latin-1")).encode("latin-1") for text in texts])
        keys = KEY_MARK.join(parts[0] if len(parts) == 1 else map(b"\0".join, zip(*parts, strict=True)))
        if keys.count(KEY_MARK) != count - 1:
            raise Unusual("a key holds a byte that is invalid in UTF-8")
        return keys


def _column(of: ArrowForm, texts: Texts, present: Present) -> CArray:
    data, sizes = of.send(present)
    nulls = len(texts) - len(present)
    if nulls:
        each = iter(sizes)
        sizes = (0 if text is None else next(each) for text in texts)
    ends = array("i", list(accumulate(sizes, initial=0)))
    buffers = [_bits(texts) if nulls else None, ends, data]
    schema = _BINARY if of.binary else _STRING
    return c_array_from_buffers(schema, len(texts), buffers, null_count=nulls, validation_level="none")


def _bits(texts: Texts) -> bytes:
    """A bit for each text, the first one lowest: whether there is one."""
    bits = "".join("0" if text is None else "1" for text in reversed(texts))
    return int(bits, 2).to_bytes((len(texts) + 7) // 8, "little")
