"""Rows that lack columns, have changes of JSON columns instead of values, or values that documents cannot represent."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from tidemark.backfill.keys import Key
from tidemark.captures.mysql.rows.row_images import MISFITS, RAW, DecodedTable, Image, ReadParts
from tidemark.captures.mysql.rows.row_loops import Sink, next_place
from tidemark.captures.mysql.rows.table_map import JSON
from tidemark.captures.mysql.terms.event_bytes import ByteText, lenenc
from tidemark.captures.mysql.values.charsets import Recode
from tidemark.captures.mysql.values.json_binary import apply_changes, json_text, print_tree, read_tree
from tidemark.captures.mysql.values.json_values import source_text, string
from tidemark.captures.mysql.values.types import CONVERSIONS, TEMPORAL, Form, form
from tidemark.captures.rows.captured_line import END
from tidemark.captures.tables.bad_values import (
    ROW_LIMIT,
    TOO_LARGE,
    UNDECODABLE,
    BadValue,
    Policy,
    Repairs,
    largest,
    unfit_for,
)
from tidemark.protocol.errors import SourceError

_PARTIAL_JSON = 1
"""The value option of a row whose JSON columns may have changes instead of a value."""

Members = list[str | None]
"""The member of an object for each column, with a comma in front."""

_Read = tuple[Members, Members]
"""Members, and the texts of the key's columns."""


class LacksKey(SourceError):
    """``TM-MY-047``: an event does not identify its row."""


class PartialRows:
    """Writes such rows, each by the method for its event: see ``tidemark.captures.mysql.rows.row_loops.WriteRow``.

    Args:
        opening: Captured lines up to their ``source``, by ``op``.
        images: Of each row, or of before and after.
    """

    def __init__(self, table: DecodedTable, name: str, opening: Mapping[str, str], images: Sequence[Image]) -> None:
        self._table = table
        self._name = name
        self._opening = opening
        self._emitted = table.emitted
        self._before, self._after = images[0], images[-1]
        # Each has a bit, whether or not the image has it.
        self._json = [place for place, column in enumerate(table.logged) if column.type == JSON]

    def insert(self, data: bytes, text: ByteText, at: int, place: str, documents: list[str], sink: Sink) -> int:
        members, parts, at = self._after.parts(data, text, at)
        key = self._key(parts)
        documents.append(self._line("c", place, members, ""))
        self._touch(sink, key, partial=self._missing(members) != "", inserted=True)
        return at

    def delete(self, data: bytes, text: ByteText, at: int, place: str, documents: list[str], sink: Sink) -> int:
        raise self._lacks_key()

    def update(self, data: bytes, text: ByteText, at: int, place: str, documents: list[str], sink: Sink) -> int:
        old, old_parts, at = self._before.parts(data, text, at)
        new, new_parts, at = self._after.parts(data, text, at)
        self._update((old, old_parts), (new, new_parts), place, documents, sink)
        return at

    def json_update(self, data: bytes, text: ByteText, at: int, place: str, documents: list[str], sink: Sink) -> int:
        old, old_parts, at = self._before.parts(data, text, at)
        options, at = lenenc(data, at)
        changed: set[int] = set()
        if options & _PARTIAL_JSON:
            changed = {p for i, p in enumerate(self._json) if data[at + (i >> 3)] >> (i & 7) & 1}
            at += (len(self._json) + 7) // 8
        new, new_parts, at = self._after.parts(data, text, at)
        known = self._print_json(old, new, changed)
        self._update((old, old_parts), (new, new_parts), place, documents, sink, all_known=known)
        return at

    def _print_json(self, old: Members, new: Members, changed: set[int]) -> bool:
        """Turns stored values and changes into members. Returns False if the log lacks a changed value."""
        table = self._table
        known = True
        for place in self._emitted:
            if table.logged[place].type != JSON:
                continue
            was, now = old[place], new[place]
            before = was[len(RAW) :].encode("latin-1") if was is not None and was.startswith(RAW) else None
            if now is not None and now.startswith(RAW):
                stored = now[len(RAW) :].encode("latin-1")
                if place not in changed:
                    new[place] = self._stored(self._after, place, stored)
                else:
                    new[place] = None if before is None else self._changed(place, before, stored)
                    known = known and new[place] is not None  # Otherwise the log lacks the value that changed.
            if before is not None:
                old[place] = self._stored(self._before, place, before)
            if new[place] is None and place in changed:
                old[place] = None  # The row has another value now.
        return known

    def _stored(self, image: Image, place: int, stored: bytes) -> str:
        """The member of a value as it is stored, in one of the images."""
        return self._json_member(place, json_text(stored))

    def _changed(self, place: int, before: bytes, changes: bytes) -> str | None:
        """The member of a value after changes; None if it is not known."""
        return self._json_member(place, print_tree(apply_changes(read_tree(before), changes)))

    def _json_member(self, place: int, text: str) -> str:
        column = self._table.columns[place]
        as_text = column is not None and column.on_bad_value == "text"
        return self._table.label(place) + (string(text) if as_text else text)

    def _update(
        self, before: _Read, after: _Read, place: str, documents: list[str], sink: Sink, *, all_known: bool = True
    ) -> None:
        """Writes an update. Unless ``all_known``, the log lacks changed values, so the row must be read again."""
        (old, old_parts), (new, new_parts) = before, after
        old_key = self._key(old_parts)
        key = self._key([now if now is not None else was for was, now in zip(old_parts, new_parts, strict=True)])
        members = [now if now is not None else was for was, now in zip(old, new, strict=True)]
        partial = self._missing(members) != ""
        known = "".join(member for member in old if member is not None)
        if key == old_key:
            documents.append(self._line("u", place, members, f',"before":{{{known[1:]}}}' if known else ""))
        else:
            documents.append(f"{self._opening['d']}{place}}}{known}{END}")
            documents.append(self._line("c", next_place(place), members, ""))
            sink.split = True
            self._touch(sink, old_key, partial=False, inserted=False)
        self._touch(sink, key, partial=partial, inserted=key != old_key or not all_known)

    def _key(self, parts: Members) -> Key:
        known = [part for part in parts if part is not None]
        if len(known) != len(parts):
            raise self._lacks_key()
        return "\0".join(known).encode("latin-1")

    def _lacks_key(self) -> LacksKey:
        return LacksKey("TM-MY-047", f"{self._name}: a row in the log does not have the table's key")

    def _touch(self, sink: Sink, key: Key, *, partial: bool, inserted: bool) -> None:
        if sink.touched is not None:
            sink.touched.add(key, partial, inserted)
        elif partial and inserted:
            # The row's missing columns are unknown downstream, so it must be read again.
            sink.incomplete.append(key)

    def _missing(self, members: Members) -> str:
        """The member ``unchanged`` of ``_meta``, with a comma in front; empty when nothing is missing."""
        names = ",".join(self._table.label(p)[1:-1] for p in self._emitted if members[p] is None)
        return f',"unchanged":[{names}]' if names else ""

    def _line(self, op: str, place: str, members: Members, before: str) -> str:
        present = "".join(member for member in members if member is not None)
        return f"{self._opening[op]}{place}{before}{self._missing(members)}}}{present}{END}"


class RepairedImage(Image):
    """Images whose ``parts`` have only values that a document can represent. They are read as if all columns were text,
    and each value is then checked by itself, by the policies of columns. Values that cannot be read are bad as well.

    Args:
        table: As the images of it are read otherwise.

    Attributes:
        marked: The event is kept apart for any bad value; otherwise only for one in the key.
        limit: Bytes that the values may have together.
    """

    def __init__(
        self, table: DecodedTable, places: Sequence[int], repairs: Repairs, *, raw_json: bool, marked: bool
    ) -> None:
        self._undecodable: set[str] = set()
        self._unreadable: dict[int, str] = {}
        recode_of = table.recode_of

        def recode(charset: str) -> Recode | None:
            found = recode_of(charset)
            return found if found is None else self._noting(found)

        as_text = tuple(column and replace(column, on_bad_value="text") for column in table.columns)
        as_text_table = replace(table, columns=as_text, recode_of=recode)
        super().__init__(as_text_table, places, raw_json=raw_json, unread=self._noted)
        self._given = table.columns
        self._repairs = repairs
        self.marked = marked
        self.limit = ROW_LIMIT

    @cached_property
    def parts(self) -> ReadParts:
        """See ``Image.parts``."""
        read = super().parts

        def repaired(data: bytes, text: ByteText, at: int) -> tuple[Members, Members, int]:
            self._undecodable.clear()
            self._unreadable.clear()
            members, key, at = read(data, text, at)
            for place, member in enumerate(members):
                if member is not None and place not in self._unreadable:
                    members[place] = self._repaired(place, member)
            for place, raw in self._unreadable.items():
                members[place] = self.bad(place, raw)
            self._shrink(members)
            return members, key, at

        return repaired

    def _repaired(self, place: int, member: str) -> str:
        column = self._given[place]
        assert column is not None  # it has a member
        label = self.table.label(place)
        value = member[len(label) :]
        if column.salt or value == "null" or member.startswith(RAW):
            return member
        of = form(column, tinyint1_as_bool=self.table.tinyint1_as_bool)
        try:
            if of is Form.STRING and value in self._undecodable:
                raise BadValue(UNDECODABLE)
            if column.on_bad_value == "text" or (of not in TEMPORAL and of is not Form.JSON):
                return member
            return label + CONVERSIONS[of](_text(value, of))
        except BadValue as error:
            settled = self._settle(place, column.on_bad_value, error, _text(value, of))
        if settled is None or of is None:
            return f"{label}null"
        return label + CONVERSIONS[of](settled)

    def bad(self, place: int, raw: str) -> str | None:
        """The member for a value that cannot be read; None for a column of the key that documents do not have."""
        column = self._given[place]
        if column is None:
            hidden = self.table.key_columns[self.table.key.index(place)]
            self._repairs.settle(hidden.name_text, "stop", BadValue(unfit_for(hidden.data_type)), "")
            return None
        shown = f"{len(raw)} characters" if column.salt else raw
        self._settle(place, column.on_bad_value, BadValue(unfit_for(column.data_type)), shown)
        return f"{self.table.label(place)}null"

    def _noted(self, place: int, value: bytes) -> str:
        found = self._unreadable[place] = f"\\x{value.hex()}"
        return found

    def _settle(self, place: int, policy: Policy, error: BadValue, raw: str) -> str | None:
        column = self._given[place]
        assert column is not None
        marked = self.marked or place in self.table.key
        return self._repairs.settle(column.name_text, policy, error, raw, marked=marked)

    def _shrink(self, members: Members) -> None:
        """Leaves out the largest values, by their policies, until at most ``limit`` bytes are left."""
        labels = ["" if member is None else self.table.label(place) for place, member in enumerate(members)]
        sizes = [len(member or "") - len(label) for member, label in zip(members, labels, strict=True)]
        for place in largest(sizes, self.limit - sum(map(len, labels))):
            column, member = self._given[place], members[place]
            assert column is not None and member is not None
            policy = "stop" if place in self.table.key else column.on_bad_value
            self._settle(place, policy, BadValue(TOO_LARGE), source_text(member[len(labels[place]) :]))
            members[place] = f"{labels[place]}null"

    def _noting(self, recode: Recode) -> Recode:
        """The same for any bytes: invalid texts become hexadecimal digits, and are remembered."""

        def convert(text: str) -> str:
            try:
                return recode(text)
            except (ValueError, LookupError):
                digits = f"\\x{text.encode('latin-1').hex()}"
                self._undecodable.add(string(digits))
                return digits

        return convert


def _text(value: str, of: Form | None) -> str:
    """What ``CONVERSIONS`` takes, of the JSON string of a value."""
    text: str = json.loads(value)
    if of in (Form.DATETIME, Form.TIMESTAMP):
        return f"{text[:10]} {text[11:].removesuffix('Z')}"
    return text


class RepairedRows(PartialRows):
    """Writes such rows as ``PartialRows`` does. ``bad_key`` is the key of the first row that the policies do not
    accept.
    """

    def __init__(
        self,
        table: DecodedTable,
        name: str,
        opening: Mapping[str, str],
        images: Sequence[RepairedImage],
        repairs: Repairs,
    ) -> None:
        super().__init__(table, name, opening, images)
        self._repairs = repairs
        self.bad_key: Key | None = None
        limit = ROW_LIMIT // len(images)
        for image in images:
            image.limit = limit

    def delete(self, data: bytes, text: ByteText, at: int, place: str, documents: list[str], sink: Sink) -> int:
        """A deletion needs only the key."""
        members, parts, at = self._after.parts(data, text, at)
        key = self._key(parts)
        present = "".join(member for member in members if member is not None)
        documents.append(f"{self._opening['d']}{place}{self._repairs.mark()}}}{present}{END}")
        self._touch(sink, key, partial=False, inserted=False)
        return at

    def _stored(self, image: Image, place: int, stored: bytes) -> str:
        try:
            return super()._stored(image, place, stored)
        except MISFITS:
            assert isinstance(image, RepairedImage)
        member = image.bad(place, f"\\x{stored.hex()}")
        assert member is not None  # Documents have the column.
        return member

    def _changed(self, place: int, before: bytes, changes: bytes) -> str | None:
        try:
            return super()._changed(place, before, changes)
        except MISFITS:
            return None

    def _line(self, op: str, place: str, members: Members, before: str) -> str:
        return super()._line(op, place, members, before + self._repairs.mark())

    def _touch(self, sink: Sink, key: Key, *, partial: bool, inserted: bool) -> None:
        super()._touch(sink, key, partial=partial, inserted=inserted)
        if self.bad_key is None and self._repairs.stopped:
            self.bad_key = key
