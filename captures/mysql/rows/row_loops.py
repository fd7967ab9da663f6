"""Loops over the rows of an event, generated like the readers of images of which they are made.

What is usual is written out in them: rows without NULLs, and updates that leave the key as it is. All other rows go to
functions that take any. ``tests/captures/mysql/rows/generated_decoders.txt`` shows them, whole, for a table. The names
of what is read after an update end in ``_new``; a value that is the same is not turned into text again.
"""

from __future__ import annotations

from collections.abc import Callable

from tidemark.captures.mysql.rows.row_images import Generated, Image
from tidemark.captures.mysql.rows.row_sink import Write, WriteRow
from tidemark.captures.mysql.rows.value_reader import ValueReader
from tidemark.captures.rows.captured_line import END
from tidemark.captures.rows.source_literals import literal

WIDEST = 512
"""Columns of a table whose updates are read by a function of its own: twice as many lines are compiled for each."""

FLOATS = frozenset("fd")


def rows_loop(image: Image, opening: str) -> Write:
    """Writes inserts or deletes, whose images have the key.

    Args:
        opening: The captured lines up to their ``source``.
    """
    function = Generated(image.table)
    function.names.update(OPENING=opening, read=image.read)
    function.add("def rows(data, text, at, end, source, row, documents, sink):")
    function.add("    head, tail, touched = OPENING + source[0], source[1] + '}', sink.touched")
    function.add("    while at < end:")
    function.add(f"        if {image.nulls(whole=False)}:")
    function.add("            members, key, at = read(data, text, at)")
    function.add(f'            documents.append(f"{{head}}{{row}}{{tail}}{{members}}{literal(END)}")')
    function.add("            if touched is not None:")
    function.add("                touched.add(key.encode('latin-1'), False)")
    function.add("        else:")
    indent = "            "
    loop = Loop(function, image)
    loop.values(indent, image.readers, lambda place, reader: add_all(function, indent, place, reader.prepare))
    function.add(f'{indent}documents.append(f"{{head}}{{row}}{{tail}}"')
    loop.members(indent, image.readers, "", ",")
    function.add(f'{indent}f"{literal(END)}")')
    function.add(f"{indent}if touched is not None:")
    function.add(f"{indent}    touched.add(f\"{loop.key()}\".encode('latin-1'), False)")
    function.add("        row += 1")
    function.add("    return at, row")
    return function.compile("rows", image.about)


def updates_loop(image: Image, opening: str, other: WriteRow) -> Write | None:
    """Writes updates, whose two images have the same columns, the key among them; None where it is not worth it.

    Args:
        opening: The captured lines up to their ``source``.
        other: Writes those that are not usual.
    """
    if not is_worth_it(image):
        return None
    function = Generated(image.table)
    function.names.update(OPENING=opening, other=other)
    loop = Loop(function, image)
    after = image.readers_of(NEW)
    function.add("def updates(data, text, at, end, source, row, documents, sink):")
    function.add("    head, tail, touched = OPENING + source[0], source[1] + ',\"before\":{', sink.touched")
    function.add("    while at < end:")
    function.add("        start = at")
    function.add(f"        if not ({image.nulls(whole=False)}):")
    loop.values(" " * 12, image.readers, loop.keep)
    function.add(f"            if not ({image.nulls(whole=False)}):")
    indent = " " * 16
    loop.values(indent, after, loop.keep_new)
    function.add(f"{indent}if {loop.same_key()}:")
    function.add(f'{indent}    documents.append(f"{{head}}{{row}}{{tail}}"')
    loop.members(indent + "    ", image.readers, "", "", costly="j")
    loop.members(indent + "    ", after, "}}", ",", costly="j", suffix=NEW)
    function.add(f'{indent}    f"{literal(END)}")')
    function.add(f"{indent}    row += 1")
    function.add(f"{indent}    if touched is not None:")
    function.add(f"{indent}        touched.add(f\"{loop.key()}\".encode('latin-1'), False)")
    function.add(f"{indent}    continue")
    function.add('        at = other(data, text, start, f"{source[0]}{row}{source[1]}", documents, sink)')
    function.add("        row += 2 if sink.split else 1")
    function.add("        sink.split = False")
    function.add("    return at, row")
    return function.compile("updates", image.about)


NEW = "_new"


def is_worth_it(image: Image) -> bool:
    """Whether updates are read by a function of their own."""
    # Two zeros are equal and have two texts.
    floats = any(image.readers[place].codes in FLOATS for place in image.table.key)
    return len(image.places) <= WIDEST and not floats


def add_all(function: Generated, indent: str, place: int, lines: list[str]) -> None:
    for line in lines:
        function.add(indent + line, place)


class Loop:
    """What the loops over the images of a table have in common."""

    def __init__(self, function: Generated, image: Image) -> None:
        self._function = function
        self._image = image

    def values(self, indent: str, readers: dict[int, ValueReader], settle: Callable[[int, ValueReader], None]) -> None:
        """Reads an image without NULLs: columns of fixed size are unpacked together.

        Args:
            settle: Adds what is done to a column's variables.
        """
        function = self._function
        function.add(f"{indent}at += {self._image.bitmap_bytes}")
        run: list[tuple[int, ValueReader]] = []
        for place, reader in readers.items():
            function.names.update(reader.names)
            run.append((place, reader))
            if reader.variable:
                function.unpack(indent, run)
                function.slice(indent, place, reader)
                for read in run:
                    settle(*read)
                run = []
        function.unpack(indent, run)
        for read in run:
            settle(*read)

    def keep(self, place: int, reader: ValueReader) -> None:
        """Before an update: keeps the text of a value that is likely to come again."""
        indent = " " * 12
        if reader.costly and reader.variable and reader.prepare:
            self._function.add(f"{indent}s{place} = v{place}", place)
        add_all(self._function, indent, place, reader.prepare)
        if reader.costly and self._image.table.columns[place] is not None:
            self._function.add(f'{indent}j{place} = f"{reader.json}"', place)

    def keep_new(self, place: int, reader: ValueReader) -> None:
        """After it: takes that text when the value is the same."""
        indent, function = " " * 16, self._function
        if not reader.costly:
            add_all(function, indent, place, reader.prepare)
            return
        same = self.same(indent, place, reader)
        if self._image.table.columns[place] is not None:
            function.add(f"{indent}if {same}:", place)
            function.add(f"{indent}    j{place}{NEW} = j{place}", place)
            function.add(f"{indent}else:", place)
            add_all(function, indent + "    ", place, reader.prepare)
            function.add(f'{indent}    j{place}{NEW} = f"{reader.json}"', place)

    def same(self, indent: str, place: int, reader: ValueReader) -> str:
        """Source of whether a costly value is the same after an update."""
        if reader.variable:
            same = f"v{place}{NEW} == {'s' if reader.prepare else 'v'}{place}"
        else:
            pairs = zip(reader.variables, self._image.readers[place].variables, strict=True)
            same = " and ".join(f"{now} == {was}" for now, was in pairs)
            if reader.codes in FLOATS:
                same += f" and v{place}{NEW}"  # two zeros are equal and have two texts
        if place not in self._image.table.key:
            return same
        self._function.add(f"{indent}same{place} = {same}", place)
        return f"same{place}"

    def same_key(self) -> str:
        """Source of whether the key is the same after an update."""
        readers = self._image.readers
        parts = [f"same{p}" if readers[p].costly else f"v{p}{NEW} == v{p}" for p in self._image.table.key]
        return " and ".join(parts) or "True"

    def members(
        self,
        indent: str,
        readers: dict[int, ValueReader],
        before: str,
        comma: str,
        *,
        costly: str = "",
        suffix: str = "",
    ) -> None:
        """Adds f-strings of the members of an object.

        Args:
            before: Text in front of them.
            comma: In front of the first one.
            costly: The first letter of the variables that hold the texts of costly columns, if any do.
            suffix: The end of their names.
        """
        function, table = self._function, self._image.table
        for place, reader in readers.items():
            if table.columns[place] is None:
                continue
            before += comma + table.label(place)[1:] + reader.mark
            json = f"{{{costly}{place}{suffix}}}" if costly and reader.costly else reader.json
            function.add(f'{indent}    f"{literal(before)}{json}"', place)
            before, comma = reader.mark, ","
        if before:
            function.add(f'{indent}    f"{literal(before)}"')

    def key(self) -> str:
        """The inside of an f-string that makes the row's key."""
        joint = literal("\0")
        return joint.join(self._image.readers[place].key for place in self._image.table.key)
