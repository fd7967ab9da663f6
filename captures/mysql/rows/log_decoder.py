"""Row events to captured lines: inserts, updates and deletes, with whole rows or with the columns that a session's
``binlog_row_image`` includes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from tidemark.captures.contract.errors import UnfitValues
from tidemark.captures.mysql.rows.partial_rows import PartialRows, RepairedImage, RepairedRows
from tidemark.captures.mysql.rows.row_images import MISFITS, DecodedTable, Image
from tidemark.captures.mysql.rows.row_loops import (
    Gather,
    Sink,
    Write,
    WriteRow,
    next_place,
    one_by_one,
    rows_cells,
    rows_loop,
    updates_cells,
    updates_loop,
)
from tidemark.captures.mysql.terms.event_bytes import ByteText, lenenc
from tidemark.captures.rows.captured_line import END, opening
from tidemark.captures.rows.cells import Cell
from tidemark.captures.tables.bad_values import ROW_LIMIT, Repairs
from tidemark.protocol.errors import SourceError

INSERT, UPDATE, DELETE, PARTIAL_UPDATE = "insert", "update", "delete", "partial update"
"""What an event does to rows."""

_OPS = {INSERT: "c", DELETE: "d"}

_GROWTH = 6
"""The most bytes of JSON for a byte of a row: U+0000 to U+001F take that many."""


class UnreadableRows(SourceError):
    """``TM-MY-058``: it is not known where the values of a row in the log end, or what they are."""


class RowDecoder:
    """Decodes the row events that follow one TABLE_MAP. ``repairs`` says what was done with bad values."""

    def __init__(self, binding: int, table: DecodedTable, name: str) -> None:
        self.has_key = bool(table.key)
        self.repairs = Repairs(name)
        self._table = table
        self._name = name
        self._opening = {op: opening(binding, op) for op in "cud"}
        self._images: dict[tuple[bytes, bool], Image] = {}
        self._known: dict[tuple[str, bytes], tuple[Write, list[Image]]] = {}
        self._gathers: dict[tuple[str, bytes], Gather | None] = {}
        self._bitmap_bytes = (len(table.logged) + 7) // 8
        one = (1 if len(table.logged) < 0xFB else 3) + self._bitmap_bytes
        two = one + self._bitmap_bytes
        self._head_bytes = {INSERT: one, DELETE: one, UPDATE: two, PARTIAL_UPDATE: two}

    def decode(
        self, kind: str, data: bytes, text: ByteText, at: int, end: int, source: tuple[str, str], row: int, sink: Sink
    ) -> int:
        """Decodes the rows of an event.

        Args:
            kind: ``INSERT``, ``UPDATE``, ``DELETE`` or ``PARTIAL_UPDATE``.
            data: Bytes that hold the event; ``text`` the same as Latin-1.
            at: Where its columns' count begins.
            source: The JSON of ``_meta.source`` before and after the number of a row.
            row: The number of its first row.

        Returns:
            The number of the row after its last.

        Raises:
            BadValues: ``TM-CAP-020`` a policy does not accept values that a document cannot represent.
            UnfitValues: ``TM-MY-031`` a column's type or character set is not known.
            UnreadableRows: The rows do not have the table's columns.
            LacksKey: A row lacks its key.
        """
        rows = at + self._head_bytes[kind]
        head = kind, data[at:rows]
        known = self._known.get(head)
        if known is None:
            known = self._known[head] = self._writer(*head)
        write, images = known
        documents: list[str] = []
        place: int | None
        try:
            place, after = write(data, text, rows, end, source, row, documents, sink)
        except MISFITS:
            place = None
        else:
            if place != end:
                raise self._unfitting()
        # Outside of the handler: the error may hold values, and must not become the context of another one.
        if place is None or (end - rows > ROW_LIMIT // _GROWTH and max(map(len, documents)) > ROW_LIMIT):
            documents.clear()
            repaired = self._repaired(kind, images)
            write = one_by_one(self._partial(repaired)[kind])
            try:
                place, after = write(data, text, rows, end, source, row, documents, sink)
                if place != end:
                    raise self._unfitting()
                self.repairs.check(repaired.bad_key)
            except MISFITS:
                raise self._unfitting() from None
            finally:
                self.repairs.forget()
        sink.lines.append("".join(documents).encode("latin-1"))
        return after

    @cached_property
    def cells(self) -> tuple[Cell, ...] | None:
        """What columns of Arrow have that the rows become; None if rows of this table do not."""
        try:
            readers = Image(self._table, range(len(self._table.logged))).readers
        except LookupError:
            return None  # The rows tell, if there are any.
        found = [cell for place in self._table.emitted if (cell := readers[place].of) is not None]
        return tuple(found) if len(found) == len(self._table.emitted) > 0 else None

    def gather(self, kind: str, data: bytes, at: int) -> tuple[Gather | None, int]:
        """What gathers the rows of an event, if they are whole and can be read, and where they begin."""
        rows = at + self._head_bytes[kind]
        head = kind, data[at:rows]
        if head not in self._gathers:
            self._gathers[head] = None
            try:
                _, images = self._writer(*head)
            except (UnfitValues, UnreadableRows):
                return None, rows  # ``decode`` tells why.
            if kind in _OPS and self._is_whole(kind, images):
                self._gathers[head] = rows_cells(images[0])
            elif kind == UPDATE and self._is_whole(kind, images):
                self._gathers[head] = updates_cells(*images)
        return self._gathers[head], rows

    def _repaired(self, kind: str, images: Sequence[Image]) -> RepairedRows:
        """Writes rows with values that a document cannot represent."""
        repaired = [
            RepairedImage(
                self._table,
                image.places,
                self.repairs,
                raw_json=kind == PARTIAL_UPDATE,
                marked=number == len(images) and kind != DELETE,
            )
            for number, image in enumerate(images, 1)
        ]
        return RepairedRows(self._table, self._name, self._opening, repaired, self.repairs)

    @staticmethod
    def _partial(rows: PartialRows) -> dict[str, WriteRow]:
        return {INSERT: rows.insert, DELETE: rows.delete, UPDATE: rows.update, PARTIAL_UPDATE: rows.json_update}

    def _writer(self, kind: str, head: bytes) -> tuple[Write, list[Image]]:
        """The writer of events that begin with ``head``, which has the number of columns and those of each image."""
        try:
            count, at = lenenc(head, 0)
        except MISFITS:
            raise self._unfitting() from None
        if count != len(self._table.logged):
            raise self._unfitting()
        bitmaps = [head[start : start + self._bitmap_bytes] for start in range(at, len(head), self._bitmap_bytes)]
        images = [self._image(bitmap, raw=kind == PARTIAL_UPDATE) for bitmap in bitmaps]
        if self._is_whole(kind, images):
            if kind in _OPS:
                return rows_loop(images[0], self._opening[_OPS[kind]]), images
            if kind == UPDATE:
                update = _whole_update(self._opening, *images)
                same = images[0] is images[1]
                loop = updates_loop(images[0], self._opening["u"], update) if same else None
                return loop or one_by_one(update), images
        return one_by_one(self._partial(PartialRows(self._table, self._name, self._opening, images))[kind]), images

    def _image(self, bitmap: bytes, *, raw: bool) -> Image:
        image = self._images.get((bitmap, raw))
        if image is None:
            places = [p for p in range(len(self._table.logged)) if bitmap[p >> 3] >> (p & 7) & 1]
            try:
                image = self._images[bitmap, raw] = Image(self._table, places, raw_json=raw)
            except LookupError as error:
                raise UnfitValues("TM-MY-031", f"{self._name}: a column's type or character set: {error}") from None
        return image

    def _is_whole(self, kind: str, images: Sequence[Image]) -> bool:
        """Whether rows have all that documents need. A deleted row needs no more than its key."""
        return all(image.has_key and (kind == DELETE or self._complete(image)) for image in images)

    def _complete(self, image: Image) -> bool:
        return len(image.places) == len(self._table.logged) or set(self._table.emitted) <= set(image.places)

    def _unfitting(self) -> UnreadableRows:
        return UnreadableRows("TM-MY-058", f"{self._name}: rows in the log do not have the table's columns")


def _whole_update(opening: dict[str, str], before: Image, after: Image) -> WriteRow:
    """Writes updates of rows with every column, including those that change the key."""
    read_before, read_after = before.read, after.read
    created, updated, deleted = opening["c"], opening["u"], opening["d"]

    def write(data: bytes, text: ByteText, at: int, place: str, documents: list[str], sink: Sink) -> int:
        touched = sink.touched
        old, old_key, at = read_before(data, text, at)
        old = old[1:]  # Now: later the new values, which may be large, would be in memory besides both.
        new, key, at = read_after(data, text, at)
        if key == old_key:
            documents.append(f'{updated}{place},"before":{{{old}}}}}{new}{END}')
        else:
            documents.append(f"{deleted}{place}}},{old}{END}{created}{next_place(place)}}}{new}{END}")
            sink.split = True
            if touched is not None:
                touched.add(old_key.encode("latin-1"), False)
        if touched is not None:
            touched.add(key.encode("latin-1"), False, key != old_key)
        return at

    return write
