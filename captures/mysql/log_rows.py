"""Row events to captured lines: inserts, updates and deletes, with whole rows or with those columns that a session's
``binlog_row_image`` left in them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from backfill.keys import Key, TouchedKeys
from captures.mysql.events import lenenc
from captures.mysql.json_binary import json_text, print_tree, read_tree
from captures.mysql.partial_json import apply_changes
from captures.mysql.row_images import MISFITS, RAW, DecodedTable, Image, compile_image
from captures.mysql.table_map import JSON
from protocol.codec import CAPTURED_SUFFIX, captured_prefix
from protocol.errors import SourceError

INSERT, UPDATE, DELETE, PARTIAL_UPDATE = "insert", "update", "delete", "partial update"

_END = "}" + CAPTURED_SUFFIX.decode()

_PARTIAL_JSON = 1
"""Value option of a partial update's row: some of its JSON columns have changes instead of a value."""


@dataclass(slots=True)
class Sink:
    """Where what an event says goes.

    Attributes:
        lines: Captured lines, those of one event in one piece.
        touched: Keys that the event touched, None where they are not recorded.
        incomplete: Keys that rows came to without all of their columns, where keys are not recorded.
    """

    lines: list[bytes]
    touched: TouchedKeys | None
    incomplete: list[Key]


class RowDecoder:
    """Decodes the row events that follow one TABLE_MAP.

    Args:
        binding: The index that stands in the lines.
        table: The columns.
        name: ``schema.table``, for errors.
    """

    def __init__(self, binding: int, table: DecodedTable, name: str) -> None:
        self._table = table
        self._name = name
        self._opening = {op: f'{captured_prefix(binding).decode()}{{"_meta":{{"op":"{op}","source":' for op in "cud"}
        self._emitted = [place for place, column in enumerate(table.columns) if column is not None]
        self._images: dict[bytes, Image] = {}
        self._raw_images: dict[bytes, Image] = {}
        self._bitmap_bytes = (len(table.logged) + 7) // 8

    def decode(
        self, kind: str, data: bytes, text: str, at: int, end: int, source: tuple[str, str], row: int, sink: Sink
    ) -> int:
        """Decodes the rows of an event.

        Args:
            kind: ``INSERT``, ``UPDATE``, ``DELETE`` or ``PARTIAL_UPDATE``.
            data: Bytes that hold the event; ``text`` the same as Latin-1.
            at: Where its columns' count begins.
            end: Where its rows end.
            source: The JSON of ``_meta.source`` before and after the number of a row.
            row: The number of its first row.

        Returns:
            The number of the row after its last.

        Raises:
            SourceError: ``TM-MY-030`` the rows do not have the table's columns, ``TM-MY-031`` a value is not as it must
                be, ``TM-MY-047`` a row lacks its key.
        """
        count, at = lenenc(data, at)
        if count != len(self._table.logged):
            raise SourceError("TM-MY-030", f"{self._name}: rows with another number of columns than their table")
        images = []
        for _ in range(2 if kind in (UPDATE, PARTIAL_UPDATE) else 1):
            bitmap = data[at : at + self._bitmap_bytes]
            at += self._bitmap_bytes
            images.append(self._image(bitmap, raw=kind == PARTIAL_UPDATE))
        documents: list[str] = []
        write = self._writer(kind, images)
        failure: SourceError | None
        try:
            at, row = write(data, text, at, end, source, row, documents, sink)
        except MISFITS as error:
            failure = self._misfit(error, images)
        else:
            failure = None if at == end else self._unfitting()
        if failure is not None:
            raise failure
        sink.lines.append("".join(documents).encode("latin-1"))
        return row

    def _image(self, bitmap: bytes, *, raw: bool) -> Image:
        images = self._raw_images if raw else self._images
        image = images.get(bitmap)
        if image is None:
            places = [p for p in range(len(self._table.logged)) if bitmap[p >> 3] >> (p & 7) & 1]
            try:
                image = images[bitmap] = compile_image(self._table, places, raw_json=raw)
            except LookupError as error:
                raise SourceError("TM-MY-031", f"{self._name}: a column's type or character set: {error}") from None
        return image

    def _writer(self, kind: str, images: Sequence[Image]) -> Callable[..., tuple[int, int]]:
        if kind == PARTIAL_UPDATE:
            return _Partial(self, images).json_updates
        whole = all(image.read is not None and self._complete(image) for image in images)
        if kind == DELETE and images[0].read is not None:
            # A deleted row needs no more than its key.
            return _Whole(self, images).deletes
        if whole:
            return getattr(_Whole(self, images), f"{kind}s")  # type: ignore[no-any-return]
        return getattr(_Partial(self, images), f"{kind}s")  # type: ignore[no-any-return]

    def _complete(self, image: Image) -> bool:
        return len(image.places) == len(self._table.logged) or set(self._emitted) <= set(image.places)

    def _misfit(self, error: BaseException, images: Sequence[Image]) -> SourceError:
        """The error for a value that could not be read: names the column, never its value."""
        places = [place for image in images if (place := image.column_of(error)) is not None]
        column = self._table.columns[places[0]] if places else None
        if column is None:
            return self._unfitting()
        return SourceError(
            "TM-MY-031",
            f"{self._name}: column {column.name}: a value is not written as type {column.data_type} should be",
        )

    def _unfitting(self) -> SourceError:
        return SourceError("TM-MY-030", f"{self._name}: rows in the log do not have the columns that the table has")

    def lacks_key(self) -> SourceError:
        """The error for a row image without the key."""
        return SourceError("TM-MY-047", f"{self._name}: a row in the log does not have the table's key")

    @property
    def opening(self) -> dict[str, str]:
        """Captured lines up to their ``source``, by ``op``."""
        return self._opening

    @property
    def table(self) -> DecodedTable:
        return self._table

    @property
    def emitted(self) -> list[int]:
        """Places of the columns that documents have."""
        return self._emitted


class _Whole:
    """Rows with every column."""

    def __init__(self, decoder: RowDecoder, images: Sequence[Image]) -> None:
        self._opening = decoder.opening
        readers = [image.read for image in images if image.read is not None]
        self._first, self._last = readers[0], readers[-1]

    def inserts(
        self,
        data: bytes,
        text: str,
        at: int,
        end: int,
        source: tuple[str, str],
        row: int,
        documents: list[str],
        sink: Sink,
    ) -> tuple[int, int]:
        return self._rows("c", data, text, at, end, source, row, documents, sink)

    def deletes(
        self,
        data: bytes,
        text: str,
        at: int,
        end: int,
        source: tuple[str, str],
        row: int,
        documents: list[str],
        sink: Sink,
    ) -> tuple[int, int]:
        return self._rows("d", data, text, at, end, source, row, documents, sink)

    def _rows(
        self,
        op: str,
        data: bytes,
        text: str,
        at: int,
        end: int,
        source: tuple[str, str],
        row: int,
        documents: list[str],
        sink: Sink,
    ) -> tuple[int, int]:
        head, tail = f"{self._opening[op]}{source[0]}", f"{source[1]}}}"
        read, touched = self._first, sink.touched
        while at < end:
            members, key, at = read(data, text, at)
            documents.append(f"{head}{row}{tail}{members}{_END}")
            row += 1
            if touched is not None:
                touched.add(key.encode("latin-1"), False)
        return at, row

    def updates(
        self,
        data: bytes,
        text: str,
        at: int,
        end: int,
        source: tuple[str, str],
        row: int,
        documents: list[str],
        sink: Sink,
    ) -> tuple[int, int]:
        head, tail = f"{self._opening['u']}{source[0]}", source[1]
        before, after, touched = self._first, self._last, sink.touched
        while at < end:
            old, old_key, at = before(data, text, at)
            new, key, at = after(data, text, at)
            if key == old_key:
                documents.append(f'{head}{row}{tail},"before":{{{old[1:]}}}}}{new}{_END}')
            else:
                place = f"{source[0]}{row}{tail}}}"
                documents.append(f"{self._opening['d']}{place}{old}{_END}{self._opening['c']}{place}{new}{_END}")
                if touched is not None:
                    touched.add(old_key.encode("latin-1"), False)
            row += 1
            if touched is not None:
                touched.add(key.encode("latin-1"), False, key != old_key)
        return at, row


_Members = list[str | None]


class _Partial:
    """Rows that lack columns, or whose JSON columns have changes instead of values."""

    def __init__(self, decoder: RowDecoder, images: Sequence[Image]) -> None:
        self._decoder = decoder
        self._images = images

    def inserts(
        self,
        data: bytes,
        text: str,
        at: int,
        end: int,
        source: tuple[str, str],
        row: int,
        documents: list[str],
        sink: Sink,
    ) -> tuple[int, int]:
        while at < end:
            members, parts, at = self._images[0].parts(data, text, at)
            key = self._key(parts)
            place = f"{source[0]}{row}{source[1]}"
            documents.append(self._line("c", place, members, ""))
            self._touch(sink, key, partial=self._missing(members) != "", inserted=True)
            row += 1
        return at, row

    def deletes(
        self,
        data: bytes,
        text: str,
        at: int,
        end: int,
        source: tuple[str, str],
        row: int,
        documents: list[str],
        sink: Sink,
    ) -> tuple[int, int]:
        raise self._decoder.lacks_key()

    def updates(
        self,
        data: bytes,
        text: str,
        at: int,
        end: int,
        source: tuple[str, str],
        row: int,
        documents: list[str],
        sink: Sink,
    ) -> tuple[int, int]:
        before, after = self._images
        while at < end:
            old, old_parts, at = before.parts(data, text, at)
            new, new_parts, at = after.parts(data, text, at)
            self._update(old, old_parts, new, new_parts, f"{source[0]}{row}{source[1]}", documents, sink)
            row += 1
        return at, row

    def json_updates(
        self,
        data: bytes,
        text: str,
        at: int,
        end: int,
        source: tuple[str, str],
        row: int,
        documents: list[str],
        sink: Sink,
    ) -> tuple[int, int]:
        before, after = self._images
        logged = self._decoder.table.logged
        columns = [place for place in after.places if logged[place].type == JSON]
        while at < end:
            old, old_parts, at = before.parts(data, text, at)
            options, at = lenenc(data, at)
            changed: set[int] = set()
            if options & _PARTIAL_JSON:
                size = (len(columns) + 7) // 8
                changed = {p for i, p in enumerate(columns) if data[at + (i >> 3)] >> (i & 7) & 1}
                at += size
            new, new_parts, at = after.parts(data, text, at)
            self._print_json(old, new, changed)
            self._update(old, old_parts, new, new_parts, f"{source[0]}{row}{source[1]}", documents, sink)
            row += 1
        return at, row

    def _print_json(self, old: _Members, new: _Members, changed: set[int]) -> None:
        """Turns stored values and changes into members."""
        table = self._decoder.table
        for place in self._decoder.emitted:
            if table.logged[place].type != JSON:
                continue
            was, now = old[place], new[place]
            label = table.label(place)
            if now is not None and now.startswith(RAW):
                stored = now[len(RAW) :].encode("latin-1")
                if place not in changed:
                    new[place] = label + json_text(stored)
                elif was is not None and was.startswith(RAW):
                    tree = apply_changes(read_tree(was[len(RAW) :].encode("latin-1")), stored)
                    new[place] = label + print_tree(tree)
                else:
                    new[place] = None  # changes to a value that the log does not have
            if was is not None and was.startswith(RAW):
                old[place] = label + json_text(was[len(RAW) :].encode("latin-1"))
            if new[place] is None and place in changed:
                old[place] = None  # not what the row has now

    def _update(
        self,
        old: _Members,
        old_parts: _Members,
        new: _Members,
        new_parts: _Members,
        place: str,
        documents: list[str],
        sink: Sink,
    ) -> None:
        old_key = self._key(old_parts)
        key = self._key([now if now is not None else was for was, now in zip(old_parts, new_parts, strict=True)])
        members = [now if now is not None else was for was, now in zip(old, new, strict=True)]
        partial = self._missing(members) != ""
        known = "".join(member for member in old if member is not None)
        if key == old_key:
            documents.append(self._line("u", place, members, f',"before":{{{known[1:]}}}' if known else ""))
        else:
            documents.append(f"{self._decoder.opening['d']}{place}}}{known}{_END}")
            documents.append(self._line("c", place, members, ""))
            self._touch(sink, old_key, partial=False, inserted=False)
        self._touch(sink, key, partial=partial, inserted=key != old_key)

    def _key(self, parts: _Members) -> Key:
        known = [part for part in parts if part is not None]
        if len(known) != len(parts):
            raise self._decoder.lacks_key()
        return "\0".join(known).encode("latin-1")

    def _touch(self, sink: Sink, key: Key, *, partial: bool, inserted: bool) -> None:
        if sink.touched is not None:
            sink.touched.add(key, partial, inserted)
        elif partial and inserted:
            # Nobody downstream has the missing columns under this key: the row must be read again.
            sink.incomplete.append(key)

    def _missing(self, members: _Members) -> str:
        """The member ``unchanged`` of ``_meta``, with a comma in front; empty when nothing is missing."""
        names = ",".join(self._decoder.table.label(p)[1:-1] for p in self._decoder.emitted if members[p] is None)
        return f',"unchanged":[{names}]' if names else ""

    def _line(self, op: str, place: str, members: _Members, before: str) -> str:
        present = "".join(member for member in members if member is not None)
        return f"{self._decoder.opening[op]}{place}{before}{self._missing(members)}}}{present}{_END}"
