"""Reads the images of rows in row events, by functions that are generated per table version and set of columns.

An image is a bitmap of NULLs, one bit for each column that is present, and their values (MySQL's ``Rows_event``). The
source is built from the columns' types and the texts that documents need, each character of which is escaped that could
mean anything (see ``tidemark.captures.rows.source_literals``).

In a generated function ``v3`` is column 3 as it is read, ``m3`` its JSON as a member of an object, with a comma in
front, and ``k3`` its text in a key. ``data`` holds the bytes, ``text`` the same as Latin-1, so that a text that is
UTF-8 already needs no copy but the last. ``tests/captures/mysql/rows/generated_decoders.txt`` shows those of a table.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec

from tidemark.captures.mysql.rows.logged_values import NAMES, value_reader
from tidemark.captures.mysql.rows.table_map import JSON, LoggedColumn
from tidemark.captures.mysql.rows.value_reader import ValueReader
from tidemark.captures.mysql.terms.columns import Column
from tidemark.captures.mysql.terms.event_bytes import ByteText
from tidemark.captures.mysql.values.charsets import RecodeOf, built_in
from tidemark.captures.mysql.values.json_values import string
from tidemark.captures.rows.source_literals import generated, literal

MISFITS = (ValueError, LookupError, struct.error, OverflowError, RecursionError, msgspec.DecodeError)
"""What reading raises when bytes are not as they must be. They may hold values: never chain them."""

RAW = "\0"
"""Stands before the bytes of a JSON value that was asked for as it is stored."""

ReadImage = Callable[[bytes, ByteText, int], tuple[str, str, int]]
"""An image at a place: all of its members, the row's key as a byte text, and where the image ends."""

ReadParts = Callable[[bytes, ByteText, int], tuple[list[str | None], list[str | None], int]]
"""An image at a place: each column's member and each key column's text, None where the image lacks it, and its end."""


Cells = tuple[Any, ...]
"""A row's values for columns of Arrow, those that documents have: byte texts or numbers, None for NULL."""

ReadCells = Callable[[bytes, ByteText, int], tuple[Cells, int]]
"""An image at a place: its cells, and where it ends."""

ReadWhole = Callable[[bytes, ByteText, int], tuple[Cells, str, str, int]]
"""An image at a place: its cells, what ``ReadImage`` returns of it, and where it ends."""


Unread = Callable[[int, bytes], str]
"""Takes the place and the bytes of a value that cannot be read. Returns the byte text that stands for it."""


@dataclass(frozen=True, slots=True)
class DecodedTable:
    """What the images of a table's rows are read by.

    Attributes:
        logged: The columns as the log has them.
        columns: The same as documents have them; None for one that they do not have.
        key: Places of the key columns, in the key's order.
    """

    logged: tuple[LoggedColumn, ...]
    columns: tuple[Column | None, ...]
    key: tuple[int, ...]
    key_columns: tuple[Column, ...]
    tinyint1_as_bool: bool = False
    recode_of: RecodeOf = built_in

    @property
    def emitted(self) -> list[int]:
        """Places of the columns that documents have."""
        return [place for place, column in enumerate(self.columns) if column is not None]

    def label(self, place: int) -> str:
        """``,"name":`` as a byte text."""
        column = self.columns[place]
        assert column is not None  # asked for columns of documents only
        return f",{string(column.name_text)}:"


class Generated:
    """A function that is being generated."""

    def __init__(self, table: DecodedTable) -> None:
        self.table = table
        self.names: dict[str, object] = {}
        self._lines: list[str] = []

    def add(self, *lines: str) -> None:
        self._lines += lines

    def unpack(self, indent: str, readers: Sequence[ValueReader]) -> None:
        """Unpacks columns that stand one after the other: the little-endian ones together, then the big-endian."""
        for big, order in ((False, "<"), (True, ">")):
            codes, variables = "", []
            for reader in readers:
                if reader.variables and reader.big == big:
                    codes += reader.codes
                    variables += reader.variables
                else:
                    codes += f"{reader.size}x"
            if variables:
                codes = re.sub(r"(?:\d+x)+", lambda pads: f"{sum(map(int, pads[0].split('x')[:-1]))}x", codes)
                name = f"{'BIG' if big else 'LITTLE'}_{codes}"
                self.names[name] = struct.Struct(order + codes).unpack_from
                self.add(f"{indent}{', '.join(variables)}, = {name}(data, at)")
        size = sum(reader.size for reader in readers)
        if size:
            self.add(f"{indent}at += {size}")

    def slice(self, indent: str, reader: ValueReader) -> None:
        """Takes the bytes of a column of any length, after their number."""
        n = reader.variables[0]
        if len(reader.variables) > 1:  # a length of three bytes
            self.add(f"{indent}{n} += {n}_high << 16")
        if reader.used:
            self.add(f"{indent}v{n[1:]} = {reader.variable}[at:at + {n}]")
        self.add(f"{indent}at += {n}")

    def compile(self, name: str) -> Callable[..., Any]:
        """The function."""
        function: Callable[..., Any] = generated(name, self._lines, {**NAMES, **self.names})[name]
        return function


class Image:
    """Images with certain columns. Raises LookupError for an unknown type or character set.

    Args:
        raw_json: ``parts`` gives values of MySQL's JSON columns as ``RAW`` and their bytes, not as members.
        unread: Is told of values that cannot be read, while it is known where they end. Without it they are errors.
    """

    def __init__(
        self, table: DecodedTable, places: Sequence[int], *, raw_json: bool = False, unread: Unread | None = None
    ) -> None:
        self.table = table
        self.places = tuple(places)
        self.has_key = set(table.key) <= set(places)
        self.readers = self.readers_of("")
        self._raw_json = raw_json
        self._unread = unread

    def readers_of(self, suffix: str) -> dict[int, ValueReader]:
        """The columns' readers by their places; ``suffix`` follows the places in the names of variables."""
        table = self.table
        return {
            place: value_reader(
                table.logged[place],
                table.columns[place],
                table.key_columns[table.key.index(place)] if place in table.key else None,
                f"{place}{suffix}",
                recode_of=table.recode_of,
                tinyint1_as_bool=table.tinyint1_as_bool,
            )
            for place in self.places
        }

    @cached_property
    def read(self) -> ReadImage:
        """Reads images that have the key."""
        function = self._general("read", raw_json=False)
        function.add(f"    return {self._members_and_key(function)}, at")
        return function.compile("read")

    @cached_property
    def parts(self) -> ReadParts:
        """Reads any."""
        function = self._general("parts", raw_json=self._raw_json)
        members = ", ".join(
            f"m{place}" if place in self.readers and column is not None else "None"
            for place, column in enumerate(self.table.columns)
        )
        keys = ", ".join(f"k{place}" if place in self.readers else "None" for place in self.table.key)
        function.add(f"    return [{members}], [{keys}], at")
        return function.compile("parts")

    @cached_property
    def cells(self) -> ReadCells:
        """Reads images that have the key, for columns."""
        function = self._general("cells", raw_json=False, members=False, cells=True)
        key = sum(1 << self.places.index(place) for place in self.table.key)
        if key:
            function.add(f"    if nulls & {key}:")
            function.add("        raise ValueError('a key column without a value')")
        function.add(f"    return ({self._all_cells()}), at")
        return function.compile("cells")

    @cached_property
    def whole(self) -> ReadWhole:
        """The same, and their members and keys."""
        function = self._general("whole", raw_json=False, cells=True)
        function.add(f"    return ({self._all_cells()}), {self._members_and_key(function)}, at")
        return function.compile("whole")

    def _all_cells(self) -> str:
        """Source of the cells."""
        return "".join(f"a{place}, " if place in self.readers else "None, " for place in self.table.emitted)

    def _members_and_key(self, function: Generated) -> str:
        """Source of all members, and of the key, which are put together."""
        table = self.table
        members = "".join(f"{{m{place}}}" for place in self.places if table.columns[place] is not None)
        key = literal("\0").join(f"{{k{place}}}" for place in table.key)
        if table.key:
            missing = " or ".join(f"k{place} is None" for place in table.key)
            function.add(f"    if {missing}:")
            function.add("        raise ValueError('a key column without a value')")
        return f'f"{members}", f"{key}"'

    def nulls(self, *, whole: bool) -> str:
        """Source of the bits of the columns that are NULL; not all of them when only asked whether there are any.

        Bits beyond the last column are set, or not: they say nothing.
        """
        size, last = (len(self.places) + 7) // 8, (1 << (len(self.places) - 1) % 8 + 1) - 1
        if size == 1:
            return f"data[at] & {last}"
        if size == 2 and not whole:
            return f"data[at] or data[at + 1] & {last}"
        return f"int.from_bytes(data[at:at + {size}], 'little') & {(1 << len(self.places)) - 1}"

    @property
    def bitmap_bytes(self) -> int:
        """Bytes of the bitmap of NULLs."""
        return (len(self.places) + 7) // 8

    def _general(self, name: str, *, raw_json: bool, members: bool = True, cells: bool = False) -> Generated:
        """A function that reads any image, column by column, without its end. ``a3`` is the cell of column 3."""
        function, table = Generated(self.table), self.table
        function.add(f"def {name}(data, text, at):")
        function.add(f"    nulls = {self.nulls(whole=True)}")
        function.add(f"    at += {self.bitmap_bytes}")
        careful = []
        if self._unread is not None:
            function.names.update(MISFITS=MISFITS, unread=self._unread)
            careful = ["        begin = at"]
        for bit, (place, reader) in enumerate(self.readers.items()):
            function.names.update(reader.names)
            in_document, in_key = table.columns[place] is not None, place in table.key
            absent = []
            if in_document and members:
                absent.append(f'm{place} = f"{literal(table.label(place) + "null")}"')
            if in_document and cells:
                absent.append(f"a{place} = None")
            if in_key and members:
                absent.append(f"k{place} = None")
            function.add(f"    if nulls & {1 << bit}:")
            function.add(f"        {'; '.join(absent) or 'pass'}")
            function.add("    else:")
            indent = "        "
            if not reader.variable:
                function.add(*careful)
            function.unpack(indent, [reader])
            if reader.variable:
                function.add(*careful)
                function.slice(indent, reader)
            if careful:
                function.add(f"{indent}try:", f"{indent}    pass")
                indent += "    "
            for line in reader.prepare if members or not reader.raw else ():
                function.add(indent + line)
            if in_document and cells:
                function.add(f"{indent}a{place} = {reader.expression}")
            if not members:
                continue
            if in_document and raw_json and table.logged[place].type == JSON:
                function.add(f"{indent}m{place} = f\"{literal(RAW)}{{v{place}.decode('latin-1')}}\"")
            elif in_document:
                label = literal(table.label(place) + reader.mark)
                closing = literal(reader.mark)
                function.add(f'{indent}m{place} = f"{label}{reader.json}{closing}"')
            if in_key:
                function.add(f'{indent}k{place} = f"{reader.key}"')
            if careful:
                function.add("        except MISFITS:")
                function.add(f"            found = unread({place}, data[begin:at])")
                if in_document:
                    function.add(f'            m{place} = f"{literal(table.label(place))}{{string(found)}}"')
                if in_key:
                    function.add(f"            k{place} = found")
        return function
