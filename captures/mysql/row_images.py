"""Reads the images of rows in row events, by functions that are generated per table version and set of columns.

An image is a bitmap of NULLs, one bit for each column that is present, and their values (MySQL's ``Rows_event``). The
source is built from the columns' types; no name of a user stands in it: texts are constants in the functions' globals.

In a generated function ``v3`` is column 3 as it is read, ``m3`` its JSON as a member of an object, with a comma in
front, and ``k3`` its text in a key. ``data`` holds the bytes, ``text`` the same as Latin-1, so that a text that is
UTF-8 already needs no copy but the last.
"""

from __future__ import annotations

import linecache
import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from captures.mysql.charsets import RecodeOf, built_in
from captures.mysql.columns import Column
from captures.mysql.logged_values import NAMES, ValueReader, value_reader
from captures.mysql.table_map import JSON, LoggedColumn
from captures.mysql.values import string

MISFITS = (ValueError, LookupError, struct.error, OverflowError)
"""What reading raises when bytes are not as they must be. They may hold values: never chain them."""

RAW = "\0"
"""Stands before the bytes of a JSON value that was asked for as it is stored."""

ReadImage = Callable[[bytes, str, int], tuple[str, str, int]]
"""An image at a place: all of its members, the row's key as a byte text, and where the image ends."""

ReadParts = Callable[[bytes, str, int], tuple[list[str | None], list[str | None], int]]
"""An image at a place: each column's member and each key column's text, None where the image lacks it, and its end."""


@dataclass(frozen=True, slots=True)
class DecodedTable:
    """What the images of a table's rows are read by.

    Attributes:
        logged: The columns as the log has them.
        columns: The same as documents have them; None for one that they do not have.
        key: Places of the key columns, in the key's order.
        tinyint1_as_bool: See ``captures.mysql.types.form``.
        recode_of: What recodes texts.
    """

    logged: tuple[LoggedColumn, ...]
    columns: tuple[Column | None, ...]
    key: tuple[int, ...]
    key_columns: tuple[Column, ...]
    tinyint1_as_bool: bool = False
    recode_of: RecodeOf = built_in

    def label(self, place: int) -> str:
        """``,"name":`` as a byte text."""
        column = self.columns[place]
        assert column is not None  # asked for columns of documents only
        return f",{string(column.name.encode().decode('latin-1'))}:"


class Generated:
    """A generated function, and which column each line of it is about."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.about: list[int | None] = []
        self.names: dict[str, object] = {}
        self._constants: dict[str, str] = {}

    def constant(self, text: str) -> str:
        if text not in self._constants:
            self._constants[text] = f"K{len(self._constants)}"
            self.names[self._constants[text]] = text
        return self._constants[text]

    def struct(self, codes: str) -> str:
        name = f"S_{codes}"
        self.names[name] = struct.Struct(f"<{codes}").unpack_from
        return name

    def add(self, line: str, place: int | None = None) -> None:
        self.lines.append(line)
        self.about.append(place)

    def compile(self, name: str) -> Callable[..., object]:
        """The function; tracebacks show its source."""
        source = "\n".join(self.lines) + "\n"
        filename = f"<{name} {zlib.crc32(source.encode()):08x}>"
        linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
        functions: dict[str, object] = {**NAMES, **self.names}
        exec(compile(source, filename, "exec"), functions)  # noqa: S102 - built from types and places, see above
        function = functions[name]
        assert callable(function)
        return function


@dataclass(frozen=True, slots=True)
class Image:
    """The reader of images with certain columns.

    Attributes:
        read: For images with every key column.
        parts: For any.
        places: The columns that are present.
    """

    read: ReadImage | None
    parts: ReadParts
    places: tuple[int, ...]
    _read_about: tuple[int | None, ...]
    _parts_about: tuple[int | None, ...]

    def column_of(self, error: BaseException) -> int | None:
        """The place of the column that a generated function was at when it raised."""
        traceback = error.__traceback__
        while traceback is not None:
            name = traceback.tb_frame.f_code.co_name
            about = {"read": self._read_about, "parts": self._parts_about}.get(name)
            if about is not None and traceback.tb_frame.f_code.co_filename.startswith("<"):
                return about[traceback.tb_lineno - 1]
            traceback = traceback.tb_next
        return None


def compile_image(table: DecodedTable, places: Sequence[int], *, raw_json: bool = False) -> Image:
    """Generates the reader of images in which the columns at ``places`` are present.

    Args:
        raw_json: ``parts`` gives values of MySQL's JSON columns as ``RAW`` and their bytes, not as members.

    Raises:
        LookupError: A column's type or character set is not known.
    """
    readers = {
        place: value_reader(
            table.logged[place],
            table.columns[place],
            table.key_columns[table.key.index(place)] if place in table.key else None,
            f"{place}",
            recode_of=table.recode_of,
            tinyint1_as_bool=table.tinyint1_as_bool,
        )
        for place in places
    }
    parts = _Writer(table, places, readers, raw_json=raw_json)
    parts.head("parts")
    parts.general("    ")
    parts.list_result("    ")
    read = None
    if all(place in readers for place in table.key):
        read = _Writer(table, places, readers)
        read.head("read")
        read.out.add("    if nulls:")
        read.general("        ")
        read.joined_result("        ")
        read.usual("    ")
    return Image(
        read.out.compile("read") if read is not None else None,  # type: ignore[arg-type]
        parts.out.compile("parts"),  # type: ignore[arg-type]
        tuple(places),
        tuple(read.out.about) if read is not None else (),
        tuple(parts.out.about),
    )


class _Writer:
    def __init__(
        self, table: DecodedTable, places: Sequence[int], readers: dict[int, ValueReader], *, raw_json: bool = False
    ) -> None:
        self.out = Generated()
        self._raw_json = raw_json
        self._table = table
        self._places = places
        self._readers = readers
        for reader in readers.values():
            self.out.names.update(reader.names)

    def head(self, name: str) -> None:
        count = len(self._places)
        size = (count + 7) // 8
        self.out.add(f"def {name}(data, text, at):")
        # Bits beyond the last column are set, or not: they say nothing.
        mask = (1 << count) - 1
        if size == 1:
            self.out.add(f"    nulls = data[at] & {mask}")
        elif size == 2:
            self.out.add(f"    nulls = {self.out.struct('H')}(data, at)[0] & {mask}")
        else:
            self.out.add(f"    nulls = int.from_bytes(data[at:at + {size}], 'little') & {mask}")
        self.out.add(f"    at += {size}")

    def general(self, indent: str) -> None:
        """Reads any image, column by column."""
        for bit, place in enumerate(self._places):
            reader = self._readers[place]
            column = self._table.columns[place]
            in_key = place in self._table.key
            self.out.add(f"{indent}if nulls & {1 << bit}:", place)
            absent = []
            if column is not None:
                absent.append(f"m{place} = {self.out.constant(self._table.label(place) + 'null')}")
            if in_key:
                absent.append(f"k{place} = None")
            self.out.add(f"{indent}    {'; '.join(absent) or 'pass'}", place)
            self.out.add(f"{indent}else:", place)
            inner = indent + "    "
            if reader.variables:
                self.out.add(
                    f"{inner}{', '.join(reader.variables)}, = {self.out.struct(reader.codes)}(data, at)", place
                )
            if reader.size:
                self.out.add(f"{inner}at += {reader.size}", place)
            self._slice(inner, place, reader)
            for line in reader.prepare:
                self.out.add(inner + line, place)
            if column is not None and self._raw_json and self._table.logged[place].type == JSON:
                self.out.add(f"{inner}m{place} = {self.out.constant(RAW)} + v{place}.decode('latin-1')", place)
            elif column is not None:
                label = self.out.constant(self._table.label(place) + reader.mark)
                closing = f"{{{self.out.constant(reader.mark)}}}" if reader.mark else ""
                self.out.add(f'{inner}m{place} = f"{{{label}}}{reader.json}{closing}"', place)
            if in_key:
                self.out.add(f'{inner}k{place} = f"{reader.key}"', place)

    def _slice(self, indent: str, place: int, reader: ValueReader) -> None:
        if not reader.variable:
            return
        if len(reader.variables) > 1:  # a length of three bytes
            self.out.add(f"{indent}n{place} += n{place}_high << 16", place)
        if reader.used:
            self.out.add(f"{indent}v{place} = {reader.variable}[at:at + n{place}]", place)
        self.out.add(f"{indent}at += n{place}", place)

    def list_result(self, indent: str) -> None:
        count = len(self._table.columns)
        members = ", ".join(
            f"m{place}" if place in self._readers and self._table.columns[place] is not None else "None"
            for place in range(count)
        )
        keys = ", ".join(f"k{place}" if place in self._readers else "None" for place in self._table.key)
        self.out.add(f"{indent}return [{members}], [{keys}], at")

    def joined_result(self, indent: str) -> None:
        members = "".join(f"{{m{place}}}" for place in self._places if self._table.columns[place] is not None)
        joint = f"{{{self.out.constant(chr(0))}}}"
        key = joint.join(f"{{k{place}}}" for place in self._table.key)
        if self._table.key:
            missing = " or ".join(f"k{place} is None" for place in self._table.key)
            self.out.add(f"{indent}if {missing}:")
            self.out.add(f"{indent}    raise ValueError('a key column without a value')")
        self.out.add(f'{indent}return f"{members}", f"{key}", at')

    def usual(self, indent: str) -> None:
        """Reads an image without NULLs: columns of fixed size are unpacked together."""
        codes, size = "", 0
        variables: list[str] = []
        prepared: list[tuple[int, str]] = []
        first: int | None = None

        def flush() -> None:
            nonlocal codes, variables, size
            if codes:
                target = f"{', '.join(variables)}, = " if variables else ""
                self.out.add(f"{indent}{target}{self.out.struct(codes)}(data, at)", first)
            if size:
                self.out.add(f"{indent}at += {size}")
            for place, line in prepared:
                self.out.add(indent + line, place)
            prepared.clear()
            codes, variables, size = "", [], 0

        for place in self._places:
            reader = self._readers[place]
            if not codes:
                first = place
            codes += reader.codes
            variables += reader.variables
            size += reader.size
            if reader.variable:
                flush()
                self._slice(indent, place, reader)
            prepared += [(place, line) for line in reader.prepare]
        flush()
        self.out.add(f"{indent}return (")
        between = ""
        for place in self._places:
            if self._table.columns[place] is None:
                continue
            reader = self._readers[place]
            between += self._table.label(place) + reader.mark
            self.out.add(f'{indent}    f"{{{self.out.constant(between)}}}{reader.json}"', place)
            between = reader.mark
        self.out.add(f'{indent}    f"{{{self.out.constant(between)}}}"' if between else f'{indent}    ""')
        joint = f"{{{self.out.constant(chr(0))}}}"
        key = joint.join(self._readers[place].key for place in self._table.key)
        self.out.add(f'{indent}), f"{key}", at')
