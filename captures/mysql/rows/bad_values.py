"""Rows of the log with values that a document cannot represent: applies the policies of columns to them.

An event that cannot be decoded as usual is decoded again here, as if all of its columns were text. Each value is then
checked by itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from tidemark.backfill.keys import Key
from tidemark.captures.mysql.rows.partial_rows import Members, PartialRows
from tidemark.captures.mysql.rows.row_images import RAW, DecodedTable, Image, ReadParts
from tidemark.captures.mysql.rows.row_sink import Sink
from tidemark.captures.mysql.terms.event_bytes import ByteText
from tidemark.captures.mysql.values.charsets import Recode
from tidemark.captures.mysql.values.json_values import source_text, string
from tidemark.captures.mysql.values.types import CONVERSIONS, TEMPORAL, Form, form
from tidemark.captures.rows.captured_line import END
from tidemark.captures.tables.bad_values import ROW_LIMIT, TOO_LARGE, UNDECODABLE, BadValue, Policy, Repairs, largest


class RepairedImage(Image):
    """Images whose ``parts`` have only values that a document can represent.

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
        recode_of = table.recode_of

        def recode(charset: str) -> Recode | None:
            found = recode_of(charset)
            return found if found is None else self._noting(found)

        as_text = tuple(column and replace(column, on_bad_value="text") for column in table.columns)
        super().__init__(replace(table, columns=as_text, recode_of=recode), places, raw_json=raw_json)
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
            members, key, at = read(data, text, at)
            for place, member in enumerate(members):
                if member is not None:
                    members[place] = self._repaired(place, member)
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

    def _settle(self, place: int, policy: Policy, error: BadValue, raw: str) -> str | None:
        column = self._given[place]
        assert column is not None
        name = column.name.encode().decode("latin-1")
        marked = self.marked or place in self.table.key
        return self._repairs.settle(name, policy, error, raw, marked=marked)

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
    """Writes such rows, each by the method for its event: see ``tidemark.captures.mysql.rows.row_sink.WriteRow``.

    Attributes:
        bad_key: The key of the first row that the policies do not accept.
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

    def _line(self, op: str, place: str, members: Members, before: str) -> str:
        return super()._line(op, place, members, before + self._repairs.mark())

    def _touch(self, sink: Sink, key: Key, *, partial: bool, inserted: bool) -> None:
        super()._touch(sink, key, partial=partial, inserted=inserted)
        if self.bad_key is None and self._repairs.stopped:
            self.bad_key = key
