"""Decodes any row message of pgoutput: NULLs, old rows, unchanged values, changes of the key, long values.

The generated functions of ``tidemark.captures.postgres.rows.log_decoder`` pass unusual messages on to it. By
PostgreSQL's docs, "Logical Replication Message Formats", a message is its kind, the relation's four bytes, and one or
two tuples, each with a marker in front. A tuple is a column count and, per column, ``n``, ``u``, or ``t`` with a length
and a text.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from tidemark.captures.postgres.rows.bad_values import RepairedValues
from tidemark.captures.postgres.rows.generated_source import MISFITS, UNCHANGED, Member, Value, join_key, misfit
from tidemark.captures.postgres.server.positions import next_place
from tidemark.captures.rows.captured_line import END, opening
from tidemark.captures.tables.bad_values import ROW_LIMIT, BadCounts

INSERT, UPDATE, DELETE = b"IUD"
NEW, OLD_KEY, OLD_ROW = b"NKO"
"""A tuple's marker: the new row, the old row's replica identity columns (the others null), or all of the old row."""

MARKER = 5
"""Where a message's first tuple begins, with its marker."""

HEAD = 8
"""Bytes of a message before its first value: the relation's number follows its kind, a column count the marker."""

SHORT = 1 << 16
"""Messages of fewer bytes are divided by one split."""

SEPARATOR = "t\0\0"
"""In a short message it stands before each text and nowhere else: see ``divided``."""

_MARKERS = {INSERT: (NEW,), UPDATE: (NEW, OLD_KEY, OLD_ROW), DELETE: (OLD_KEY, OLD_ROW)}
_TEXT, _NULL = b"tn"
_ABSENT: dict[str, Value] = {"n": None, "u": UNCHANGED}
_TUPLE_HEAD = 3
_LENGTH = struct.Struct(">i").unpack_from

Row = list[Value]

Touched = tuple[tuple[bytes, bool], ...]
"""Each key that a change touched, and whether its document lacks columns: one, or the old one and the new one."""

Decoded = tuple[bytes, Touched]


def divided(message: bytes) -> list[str]:
    """A short message from its first marker on, divided.

    ``t``, NUL, NUL stands before each text and nowhere else, since texts hold no NUL and the upper half of each length
    is zero. A part is the lower half of a length, two characters, the text, and the marks of the columns that follow
    and have no text.
    """
    return message.decode("latin-1")[MARKER:].split(SEPARATOR)


class ExactDecoder:
    """Decodes the messages of one relation.

    Args:
        columns: The columns that documents have.
        identity: Places of the columns of an old key.
        key: Places of the key columns, in the key's order.
        count: The number of columns of a tuple.

    Attributes:
        apart: Keys of rows that a consumer may know in part only: see ``RowPartlyKnown``.
        members: The generated function that makes the members of a document.
    """

    members: Callable[..., str]

    def __init__(
        self,
        binding: int,
        columns: Sequence[Member],
        identity: Sequence[int],
        key: Sequence[int],
        count: int,
        table: str,
        quoted: str = "",
    ) -> None:
        self._opening = {op: opening(binding, op) for op in "cud"}
        self._columns = columns
        self._identity = [m for m in columns if m.place in identity]
        self._key = key
        self._count = count
        self._table = table
        self._repaired_values = RepairedValues(table, columns, key, quoted)
        self._keeps_apart = any(member.column.on_bad_value == "quarantine" for member in columns)
        self.apart: list[tuple[bytes, bool]] = []
        self._new_head, self._old_head = (
            (bytes((marker,)) + count.to_bytes(2, "big")).decode("latin-1") for marker in (NEW, OLD_ROW)
        )

    @property
    def bad(self) -> BadCounts:
        """The number of bad values that policies have let through."""
        return self._repaired_values.repairs.counts

    def decode(self, message: bytes, source: bytes, parts: list[str] | None) -> Decoded:
        """A message's lines and keys.

        Args:
            parts: Of a short message, as ``divided`` gives them; None for any other.

        Raises:
            BadValues: ``TM-CAP-020`` values have no place in a document, and are not to be let through.
            SourceError: ``TM-PG-030`` the message does not have the columns.
        """
        try:
            marker, rows = self.tuples(message, parts)
        except MISFITS:
            raise misfit(self._table, None, self._count) from None
        try:
            decoded = self._lines(message[0], marker, rows, source)
        except MISFITS:
            decoded = None
        if decoded is None:  # Outside of the handler: what the error holds must not be seen beside another one.
            return self._repaired(message[0], marker, rows, source)
        if len(decoded[0]) > ROW_LIMIT and max(map(len, decoded[0].splitlines())) > ROW_LIMIT:
            return self._repaired(message[0], marker, rows, source, too_large=True)
        if self._keeps_apart:
            self.apart += ((key, False) for key, lacks in decoded[1] if lacks)
        return decoded

    def _repaired(self, kind: int, marker: int, rows: list[Row], source: bytes, *, too_large: bool = False) -> Decoded:
        """The lines of a message some of whose values have no place in a document, or that is too large for one."""
        old = None if marker == NEW else rows[0]
        new = None if kind == DELETE else self._merged(rows)
        try:
            # Of the values as they are, not of what takes their place.
            keys = [join_key(row, self._key) for row in (old, new) if row is not None]
            missing = "" if new is None else self._missing(new)
            deletion = b""
            limit = ROW_LIMIT if too_large else None
            if old is not None and (new is None or keys[0] != keys[-1]):
                mark = self._repair(old, keys[0], limit, marked=False)
                deletion = self._line("d", source, mark, self.old_members(marker, old))
            if new is None:
                return deletion, ((keys[0], False),)
            before = mark = ""
            if old is not None and not deletion:
                limit = limit and limit // 2
                mark = self._repair(old, keys[0], limit, marked=False)
                known = self.old_members(marker, old)
                before = f',"before":{{{known[1:]}}}' if known else ""
            mark = self._repair(new, keys[-1], limit, marked=True) or mark
            if mark or (missing and self._keeps_apart):
                self.apart.append((keys[-1], mark != ""))
            op = "c" if kind == INSERT or deletion else "u"
            place = next_place(source) if deletion else source
            line = self._line(op, place, before + missing + mark, self.members(*new))
        except MISFITS:
            # An old row may have no more than the replica identity, and NULL for all else.
            whole = [row for row in rows if marker != OLD_KEY or row is not old]
            nulls = (
                m.column.name for m in self._columns if m.place in self._key and any(r[m.place] is None for r in whole)
            )
            raise misfit(self._table, rows[-1], self._count, nulls) from None
        touched = ((keys[-1], missing != ""),)
        return deletion + line, (((keys[0], False), *touched) if deletion else touched)

    def _repair(self, row: Row, key: bytes, limit: int | None, *, marked: bool) -> str:
        """Gives a row values that have a place, in so many bytes; returns the mark of its event. Raises BadValues."""
        repaired = self._repaired_values
        repaired.repair(row, marked=marked)
        if limit is not None and not repaired.repairs.stopped:
            repaired.shrink(row, limit, marked=marked)
        repaired.repairs.check(key or None)
        return repaired.repairs.mark()

    def _merged(self, rows: list[Row]) -> Row:
        """The last row, with what it left out and the one before has."""
        if len(rows) == 1:
            return rows[0]
        return [was if now is UNCHANGED and was is not None else now for was, now in zip(*rows, strict=True)]

    def _lines(self, kind: int, marker: int, rows: list[Row], source: bytes) -> Decoded:
        if kind == INSERT:
            return self._inserted(rows[0], source)
        if kind == DELETE:
            return self._deleted(marker, rows[0], source)
        if marker == NEW:
            return self._updated("", rows[0], source)
        return self._replaced(marker, rows[0], rows[1], source)

    def _new_row(self, parts: list[str]) -> Row:
        """A new row from its parts. One whose last character is no mark of a column needs no look at its length."""
        if len(parts) == self._count + 1 and len(parts[0]) == _TUPLE_HEAD:
            return [part[2:] for part in parts[1:]]
        absent = _ABSENT
        row = [absent[mark] for mark in parts[0][_TUPLE_HEAD:]]
        for part in parts[1:]:
            if part[-1] in absent:
                end = (ord(part[0]) << 8 | ord(part[1])) + 2
                row.append(part[2:end])
                for mark in part[end:]:
                    row.append(absent[mark])
            else:
                row.append(part[2:])
        if len(row) != self._count:
            raise ValueError
        return row

    def tuples(self, message: bytes, parts: list[str] | None) -> tuple[int, list[Row]]:
        """The first tuple's marker, and a message's tuples: the row, or the old one and the new one.

        Args:
            parts: As of ``decode``.

        Raises:
            ValueError, LookupError, struct.error: The message does not have the columns.
        """
        if parts is not None and parts[0].startswith(self._new_head):
            return NEW, [self._new_row(parts)]
        if parts is not None and len(parts) == 2 * self._count + 1 and parts[0] == self._old_head:
            last = parts[self._count]
            if last.endswith(self._new_head):
                texts = [part[2:] for part in parts[1:]]
                texts[self._count - 1] = last[2:-_TUPLE_HEAD]
                return OLD_ROW, [list(texts[: self._count]), list(texts[self._count :])]
        return self._rows(message)

    def _rows(self, message: bytes) -> tuple[int, list[Row]]:
        text = message.decode("latin-1")
        marker = message[MARKER]
        if marker not in _MARKERS[message[0]]:
            raise ValueError
        at, row = self._tuple(message, text, MARKER + 1)
        rows = [row]
        if message[0] == UPDATE and marker != NEW:
            if message[at] != NEW:
                raise ValueError
            at, row = self._tuple(message, text, at + 1)
            rows.append(row)
        if at != len(message):
            raise ValueError
        return marker, rows

    def _tuple(self, message: bytes, text: str, at: int) -> tuple[int, Row]:
        """Where the tuple at ``at`` ends, and its values."""
        if int.from_bytes(message[at : at + 2], "big") != self._count:
            raise ValueError
        at += 2
        row: Row = []
        for _ in range(self._count):
            kind = message[at]
            if kind == _TEXT:
                start = at + 5
                at = start + _LENGTH(message, at + 1)[0]
                row.append(text[start:at])
            else:
                at += 1
                row.append(None if kind == _NULL else _ABSENT[chr(kind)])
        return at, row

    def _inserted(self, row: Row, source: bytes) -> Decoded:
        missing = self._missing(row)
        return self._line("c", source, missing, self.members(*row)), ((join_key(row, self._key), missing != ""),)

    def _deleted(self, marker: int, old: Row, source: bytes) -> Decoded:
        return self._line("d", source, "", self.old_members(marker, old)), ((join_key(old, self._key), False),)

    def _updated(self, before: str, row: Row, source: bytes) -> Decoded:
        missing = self._missing(row)
        line = self._line("u", source, before + missing, self.members(*row))
        return line, ((join_key(row, self._key), missing != ""),)

    def _replaced(self, marker: int, old: Row, new: Row, source: bytes) -> Decoded:
        """An update with an old row, which has the values that the new one leaves out, or some of them.

        The old row may be there although the key is the same: always with REPLICA IDENTITY FULL, and when a value of
        the key is stored out of line.
        """
        row = [was if now is UNCHANGED and was is not None else now for was, now in zip(old, new, strict=True)]
        if join_key(old, self._key) == join_key(row, self._key):
            before = self.old_members(marker, old)
            return self._updated(f',"before":{{{before[1:]}}}' if before else "", row, source)
        deleted, gone = self._deleted(marker, old, source)
        created, come = self._inserted(row, next_place(source))
        return deleted + created, gone + come

    def old_members(self, marker: int, old: Row) -> str:
        """The members of what an old row is known to have, with a comma in front."""
        if marker == OLD_ROW:
            return self.members(*old)
        # Columns outside of the identity come as null, whatever they are: only those that have a value are known.
        return "".join(
            m.label + m.conversion.convert(value) for m in self._identity if isinstance(value := old[m.place], str)
        )

    def known(self, marker: int, old: Row) -> Row:
        """An old row with NULL for what is not known of it."""
        if marker == OLD_ROW:
            return old
        row: Row = [None] * self._count
        for member in self._identity:
            row[member.place] = old[member.place]
        return row

    def unchanged(self, row: Row) -> str:
        """JSON of the names of the columns without a value; empty when there are none."""
        if UNCHANGED not in row:
            return ""
        names = ",".join(m.label[1:-1] for m in self._columns if row[m.place] is UNCHANGED)
        return f"[{names}]" if names else ""

    def _missing(self, row: Row) -> str:
        """The member ``unchanged`` of ``_meta``, with a comma in front; empty when nothing is."""
        names = self.unchanged(row)
        return f',"unchanged":{names}' if names else ""

    def _line(self, op: str, source: bytes, meta: str, members: str) -> bytes:
        return f"{self._opening[op]}{source.decode('latin-1')}{meta}}}{members}{END}".encode("latin-1")
