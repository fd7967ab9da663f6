"""Decodes rows of COPY's text format (PostgreSQL docs, COPY, "Text Format"), some hundred at a time, by column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

from tidemark.captures.contract.chunk_rows import KEY_MARK, TAIL_MARK, ChunkRows
from tidemark.captures.postgres.catalog.columns import Column
from tidemark.captures.postgres.rows.bad_values import RepairedValues
from tidemark.captures.postgres.rows.generated_source import MISFITS, Member, Value, key_positions, misfit
from tidemark.captures.postgres.values.column_values import ColumnConvert, column_convert
from tidemark.captures.rows.captured_line import END
from tidemark.captures.tables.bad_values import ROW_LIMIT, BadCounts

_BETWEEN_TAILS = TAIL_MARK.decode("latin-1")
_BETWEEN_KEYS = KEY_MARK.decode("latin-1")
_NULL = "\\N"

Texts = list[str] | list[str | None]
"""The values of one column by row: byte texts (``tidemark.captures.postgres.values.json_values``), None for NULL."""


class DecodedLines(NamedTuple):
    """What became of some rows.

    Attributes:
        tails: What follows the last comma of ``loc`` in a captured line, ``0]}},"id":1,"name":"a"}}}`` and a newline,
            of each row; ``TAIL_MARK`` between them.
        keys: The texts of each row's key columns joined by NUL, the same as the log's; ``KEY_MARK`` between them.
    """

    tails: bytes
    keys: bytes


class ChunkDecoder:
    """Decodes the rows of a table's chunks.

    All rows of a call are divided into fields by one split, and each column's texts are converted together: where they
    are as usual, Python's own loop does nothing for each value.

    Args:
        columns: What COPY selects, in order. At least one: a tail needs a first member.
        quoted_table: The table's name as SQL has it.

    Attributes:
        apart: Keys of the rows so far that are kept apart for their bad values.
    """

    def __init__(
        self, columns: Sequence[Column], key: Sequence[str], *, table: str = "", quoted_table: str = ""
    ) -> None:
        if not columns:
            raise ValueError("a chunk without columns has no tails")
        self._table = table
        self._members = [Member(place, column, in_key=column.name in key) for place, column in enumerate(columns)]
        self._converts = [column_convert(member.conversion) for member in self._members]
        self._key = key_positions([column.name for column in columns], key)
        self._repaired_values = RepairedValues(table, self._members, self._key, quoted_table)
        self.apart: list[bytes] = []

    @property
    def bad(self) -> BadCounts:
        """How many bad values the policies of their columns let through so far."""
        return self._repaired_values.repairs.counts

    def decode(self, lines: Sequence[bytes], first: int = 0) -> DecodedLines:
        """Rows, each with its newline; at least one. ``first`` is the number of the first one in its chunk.

        Raises BadValues ``TM-CAP-020``, SourceError ``TM-PG-030``.
        """
        try:
            columns, nulls = _columns(lines, len(self._members))
        except MISFITS:
            raise misfit(self._table, None, len(self._members)) from None
        return self._decoded(columns, nulls, first)

    def decode_placed(self, lines: Sequence[bytes], first: int = 0) -> tuple[DecodedLines, tuple[int, int]]:
        """Rows that begin with their ctid, and page and line of the last one. Otherwise as ``decode``."""
        try:
            (ctids, *columns), nulls = _columns(lines, 1 + len(self._members))
            last = _page_and_line(ctids[-1])
        except MISFITS:
            raise misfit(self._table, None, len(self._members)) from None
        return self._decoded(columns, nulls, first), last

    def _decoded(self, columns: Sequence[Texts], nulls: bool, first: int) -> DecodedLines:
        try:
            keys = self._keys(columns, len(columns[0]))
        except MISFITS:
            without = (self._members[place].column.name for place in self._key if None in columns[place])
            raise misfit(self._table, [text[0] for text in columns], len(self._members), without) from None
        try:
            tails = self._tails(columns, nulls, list(map(str, range(first, first + len(columns[0])))), "]}},")
        except MISFITS:
            tails = None
        if tails is None:  # Outside of the handler: what the error holds must not be seen beside another one.
            tails = self._repaired(columns, first)
        if len(tails) > ROW_LIMIT:
            tails = self._shortened(tails, columns, first)
        return DecodedLines(tails, keys)

    def _tails(self, columns: Sequence[Texts], nulls: bool, openings: Sequence[str], before: str) -> bytes:
        """The rows' tails.

        Args:
            columns: The texts of each.
            nulls: Whether there may be any.
            openings: What each tail begins with.
            before: What follows in all of them, up to the first member.
        """
        count = len(columns[0])
        # Of a row, in turn: what stands before a value, and room for the value.
        row: list[str] = ["", ""]
        made: list[Sequence[str]] = [openings]
        for member, convert, texts in zip(self._members, self._converts, columns, strict=True):
            quote, values = _json(member, convert, texts, nulls=nulls)
            label = member.label if member.place else member.label[1:]  # No comma before the first.
            row += (f"{before}{label}{quote}", "")
            made.append(values)
            before = quote
        end = before + END
        row[0] = end + _BETWEEN_TAILS
        parts = row * count
        for place, values in enumerate(made):
            parts[2 * place + 1 :: len(row)] = values
        parts[0] = ""
        parts.append(end)
        return "".join(parts).encode("latin-1")

    def _keys(self, columns: Sequence[Texts], count: int) -> bytes:
        if not self._key:
            return KEY_MARK * (count - 1)
        parts = [columns[place] for place in self._key]
        try:
            # A type error tells of None, which is NULL.
            texts = parts[0] if len(parts) == 1 else map("\0".join, zip(*parts, strict=True))
            keys = _BETWEEN_KEYS.join(texts).encode("latin-1")  # type: ignore[arg-type]
        except TypeError:
            raise ValueError("a key column without a value") from None
        if keys.count(KEY_MARK) != count - 1:
            raise ValueError("a key holds a byte that is invalid in UTF-8")
        return keys

    # What is not usual.

    def _repaired(self, columns: Sequence[Texts], first: int) -> bytes:
        """The tails of rows some of whose values have no place in a document."""
        rows = [list[Value](row) for row in zip(*columns, strict=True)]
        openings = []
        repairs = self._repaired_values.repairs
        bad_key: bytes | None = None
        for place, row in enumerate(rows):
            stopped = len(repairs.stopped)
            if self._repaired_values.repair(row) and len(repairs.stopped) > stopped and bad_key is None:
                bad_key = self._key_of(columns, place)
            openings.append(f"{first + place}]}}{self._mark(columns, place)}")
        repairs.check(bad_key)
        return self._tails(_by_column(rows), True, openings, "},")

    def _shortened(self, tails: bytes, columns: Sequence[Texts], first: int) -> bytes:
        """The tails of rows of which one may be larger than a line can be."""
        cut = tails.split(TAIL_MARK)
        repairs = self._repaired_values.repairs
        for place, tail in enumerate(cut):
            if len(tail) > ROW_LIMIT:
                row: list[Value] = [texts[place] for texts in columns]
                self._repaired_values.repair(row)
                self._repaired_values.shrink(row)
                repairs.check(self._key_of(columns, place))
                opening = f"{first + place}]}}{self._mark(columns, place)}"
                cut[place] = self._tails(_by_column([row]), True, [opening], "},")
        return TAIL_MARK.join(cut)

    def _mark(self, columns: Sequence[Texts], row: int) -> str:
        mark = self._repaired_values.repairs.mark()
        if mark:
            self.apart.append(self._key_of(columns, row))
        return mark

    def _key_of(self, columns: Sequence[Texts], row: int) -> bytes:
        return "\0".join(columns[place][row] or "" for place in self._key).encode("latin-1")


def _by_column(rows: Sequence[Sequence[Value]]) -> list[Texts]:
    return [cast("Texts", list(texts)) for texts in zip(*rows, strict=True)]


def _columns(lines: Sequence[bytes], width: int) -> tuple[list[Texts], bool]:
    """The lines' fields by column, and whether there may be NULLs. Raises ValueError when a line has not ``width``."""
    text = b"".join(lines).decode("latin-1")
    if _BETWEEN_TAILS in text:
        raise ValueError("a text holds a NUL, which PostgreSQL's text cannot")
    backslashes = "\\" in text  # Without one there is no NULL, and nothing is escaped.
    fields = text.replace("\n", "\n\t").split("\t")
    del text  # Rows may be large.
    last = "".join(fields[width - 1 :: width])
    # As many newlines as lines, each at the end of a last column: so every line has all its fields.
    if len(fields) != len(lines) * width + 1 or last.count("\n") != len(lines) or fields.pop():
        raise ValueError("another number of fields")
    columns = [*(fields[place::width] for place in range(width - 1)), last[:-1].split("\n")]
    return (list(map(_unescaped, columns)) if backslashes else list[Texts](columns)), backslashes


def _unescaped(texts: list[str]) -> Texts:
    """A column's fields without COPY's escapes, None for NULL."""
    if _NULL not in texts:
        return _unescape(texts)
    values = iter(_unescape([text for text in texts if text != _NULL]))
    return [None if text == _NULL else next(values) for text in texts]


def _unescape(texts: list[str]) -> list[str]:
    """COPY prints the escapes b, f, n, r, t, v and the backslash, and no other: Python's codec has them all."""
    joined = "\0".join(texts)
    return joined.encode("latin-1").decode("unicode_escape").split("\0") if "\\" in joined else texts


def _json(member: Member, convert: ColumnConvert, texts: Texts, *, nulls: bool) -> tuple[str, Sequence[str]]:
    """The JSON of a column's values, and what stands on both sides of each: a double quote, or nothing."""
    present = [text for text in texts if text is not None] if nulls else cast("list[str]", texts)
    quote = '"' if convert.quoted else ""
    try:
        values = convert.convert(present) if present else []
    except MISFITS:
        quote, values = "", list(map(member.conversion.convert, present))
    if len(present) == len(texts):
        return quote, values
    made = iter(values)
    return "", ["null" if text is None else f"{quote}{next(made)}{quote}" for text in texts]


def _page_and_line(ctid: str | None) -> tuple[int, int]:
    """Raises ValueError when it is not one."""
    page, line = (ctid or "")[1:-1].split(",")
    return int(page), int(line)


class DecodedRows(ChunkRows):
    """Where the lines of a chunk's COPY become rows, a batch at a time.

    Args:
        first: As of ``ChunkRows``.
        placed: Lines begin with their ctid.

    Attributes:
        last: Page and line of the last row, of lines that are placed.
    """

    def __init__(self, decoder: ChunkDecoder, first: int = 0, *, placed: bool = False) -> None:
        super().__init__(first)
        self._decoder = decoder
        self._placed = placed
        self.last = (0, 0)

    def take(self, lines: list[bytes]) -> int:
        """Decodes lines; returns how many bytes came of them. Raises as the decoder."""
        if self._placed:
            decoded, self.last = self._decoder.decode_placed(lines, self.number)
        else:
            decoded = self._decoder.decode(lines, self.number)
        self.add_joined(decoded.keys, decoded.tails, len(lines))
        return len(decoded.tails)
