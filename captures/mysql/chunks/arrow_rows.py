"""Rows that are sent as columns: how texts of the server become the rows of a chunk in Arrow."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, takewhile
from operator import attrgetter
from typing import Any, Self, TypeAlias

from nanoarrow import binary, string
from nanoarrow.c_array import CArray, c_array_from_buffers
from nanoarrow.c_schema import CSchema, c_schema
from nanoarrow.schema import struct as struct_of

from tidemark.captures.contract.chunk_rows import KEY_MARK, ColumnRows, JoinedRows, PassOn, ReadRows, Rows
from tidemark.captures.mysql.chunks.scan_target import ScanTarget
from tidemark.captures.mysql.rows.chunk_decoder import EXTRA_KEYS, MISFITS, NULL, SHORT, text_length
from tidemark.captures.mysql.values.arrow_forms import ArrowForm, arrow_form, arrow_plain, key_part
from tidemark.captures.mysql.values.json_values import Convert
from tidemark.captures.mysql.values.types import KeyForm, form, key_form
from tidemark.captures.rows.column_stream import BATCH_BYTES, ColumnStream
from tidemark.captures.rows.source_literals import generated
from tidemark.captures.tables.read_as_columns import LARGE_ROW, LargeRow, Unusual

_STRING, _BINARY = c_schema(string()), c_schema(binary())


@dataclass(frozen=True, slots=True)
class Selection:
    """What is made of the rows of ``target.scan``.

    Attributes:
        target: Columns with plain texts come last in it.
        places: Where the columns of documents are in it, in their order.
        cells: Of all that is selected: texts of keys follow the columns where necessary.
        key: Where the texts of keys are among all that is selected, and how they become parts.
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

    def gathered(self, pass_on: PassOn | None) -> ArrowRows:
        """Takes the rows of a chunk."""
        return ArrowRows(self, pass_on)


class ArrowRows:
    """Gathers the rows of a chunk, blocks of them at a time. See ``ColumnStream`` for ``pass_on``."""

    def __init__(self, selection: Selection, pass_on: PassOn | None) -> None:
        self._selection = selection
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._keys = JoinedRows(KEY_MARK)
        self._stream = ColumnStream(pass_on)

    def __len__(self) -> int:
        return len(self._keys) + len(self._waiting)

    @property
    def size(self) -> int:
        """Bytes of the rows so far, approximately."""
        return self._stream.size + self._waiting_bytes

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
        return ColumnRows(self._keys, self._stream.end(), self._stream.passed)

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
        except MISFITS as error:
            raise Unusual(f"a value that documents cannot have ({type(error).__name__})") from None
        self._keys.add_joined(keys, count)
        children = [made[place] for place in selection.places]
        batch = c_array_from_buffers(selection.schema, count, [None], children=children, validation_level="none")
        self._stream.write(batch)

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


Texts: TypeAlias = Sequence[bytes | None]
"""The texts of one column, None for NULL."""

Present: TypeAlias = Sequence[bytes]
"""The same without NULLs."""

Cutter: TypeAlias = Callable[[Sequence[bytes]], list[Any]]
"""Payloads of row packets, at least one, to the texts of each column: ``Texts``, or ``Present`` where it is NOT NULL.

Raises ValueError or LookupError for what is no row of the table.
"""


_PLAIN = 32
"""Lower bytes are no printable characters. A length that is one of them can be told from any plain text."""

_NULL = bytes([NULL])


@dataclass(frozen=True, slots=True)
class Cell:
    """What is known of the texts of a column.

    Attributes:
        short: Their lengths take one byte.
        plain: They have fewer than 32 characters, all of them printable ASCII.
    """

    short: bool
    nullable: bool
    plain: bool = False


def compile_cutter(cells: Sequence[Cell]) -> Cutter:
    """Generates the cutter of rows with these cells: best those come last whose texts are plain."""
    plain = len(list(takewhile(attrgetter("plain"), reversed(cells))))
    places = range(len(cells) - plain)
    # A list for each column, and nothing for each row: the collector of garbage would look at tuples again and again.
    lines = [
        "def cut(rows):",
        *(f"    c{place} = []; a{place} = c{place}.append" for place in places),
        "    rests = []; rest = rests.append",
        "    for row in rows:",
        "        q = 0",
        *(f"        {line}" for place in places for line in _taken(place, cells[place])),
        *([] if plain else ["        if q > len(row):", "            raise ValueError"]),
        "        rest(row[q:])",
        f"    return [{''.join(f'c{place}, ' for place in places)}*plain(rests)]",
    ]
    names = {"length": text_length, "plain": partial(_plain_columns, cells[len(places) :])}
    cut: Cutter = generated("row cutter", lines, names)["cut"]
    return cut


_SEPARATED = bytes.maketrans(bytes(range(_PLAIN)), bytes(_PLAIN))


def _plain_columns(cells: Sequence[Cell], rests: Sequence[bytes]) -> list[Texts]:
    """The columns of plain texts: the lengths before them are bytes that none of them holds."""
    width, data = len(cells), b"".join(rests)
    if any(cell.nullable for cell in cells):
        data = data.replace(_NULL, b"\0" + _NULL)
    texts = data.translate(_SEPARATED).split(b"\0")
    if len(texts) != width * len(rests) + 1 or texts[0]:
        raise ValueError
    columns = [texts[place::width] for place in range(1, width + 1)]
    return [
        [None if text == _NULL else text for text in column] if cell.nullable and _NULL in column else column
        for cell, column in zip(cells, columns, strict=True)
    ]


def _taken(place: int, cell: Cell) -> list[str]:
    """The statements that take a text from ``q`` on."""
    if cell.short and not cell.nullable:
        return ["p = q + 1", "q = p + row[q]", f"a{place}(row[p:q])"]
    long = [] if cell.short else [f"if n >= {NULL}:", "    n, p = length(row, n, p)"]
    take = ["p = q + 1", *long, "q = p + n", f"a{place}(row[p:q])"]
    if not cell.nullable:
        return ["n = row[q]", *take]
    return [
        "n = row[q]",
        f"if n == {NULL}:",
        "    q += 1",
        f"    a{place}(None)",
        "else:",
        *(f"    {line}" for line in take),
    ]
