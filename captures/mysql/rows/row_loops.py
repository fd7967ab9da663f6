"""Loops over the rows of an event, generated like the readers of images of which they are made: to lines, or to values
for columns of Arrow.

What is usual is written out in them: rows without NULLs, and updates that leave the key as it is. All other rows go to
functions that take any. ``tests/captures/mysql/rows/generated_decoders.txt`` shows them, whole, for a table. The names
of what is read after an update end in ``_new``; a value that is the same is not turned into text again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tidemark.captures.mysql.rows.row_images import Cells, Generated, Image
from tidemark.captures.mysql.rows.row_sink import Write, WriteRow
from tidemark.captures.mysql.rows.value_reader import ValueReader
from tidemark.captures.mysql.terms.event_bytes import ByteText
from tidemark.captures.rows.captured_line import END
from tidemark.captures.rows.source_literals import literal

WIDEST = 512
"""Columns of a table whose updates are read by a function of its own: twice as many lines are compiled for each."""

FLOATS = frozenset("fd")


@dataclass(slots=True)
class Gathered:
    """The events of a table.

    Attributes:
        before: JSON of the rows before updates; None for other events. A loop of updates appends to it, and no other.
        moves: Where in ``rows`` the first of two events stands that an update with another key became.
    """

    rows: list[Cells] = field(default_factory=list)
    before: list[str | None] = field(default_factory=list)
    moves: list[int] = field(default_factory=list)


Gather = Callable[[bytes, ByteText, int, int, Gathered], int]
"""Gathers the rows between two places of an event: its ``data`` and ``text``, begin, end. Returns where it ended.

Raises one of ``MISFITS`` for values that documents cannot have, after some of the rows.
"""


def rows_loop(image: Image, opening: str) -> Write:
    """Writes inserts or deletes, whose images have the key; ``opening`` is their lines up to their ``source``."""
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
    indent = " " * 12
    loop = _Loop(function, image)
    loop.values(indent, image.readers, lambda place, reader: loop.prepare(indent, place, reader))
    function.add(f'{indent}documents.append(f"{{head}}{{row}}{{tail}}"')
    loop.members(indent, image.readers, "", ",")
    function.add(f'{indent}f"{literal(END)}")')
    function.add(f"{indent}if touched is not None:")
    function.add(f"{indent}    touched.add(f\"{loop.key()}\".encode('latin-1'), False)")
    function.add("        row += 1")
    function.add("    return at, row")
    return function.compile("rows", image.about)


def rows_cells(image: Image) -> Gather:
    """Gathers inserts or deletes, whose images have the key."""
    function = Generated(image.table)
    function.names.update(cells=image.cells)
    loop = _Loop(function, image, cells=True)
    function.add("def rows(data, text, at, end, gathered):")
    function.add("    add = gathered.rows.append")
    function.add("    while at < end:")
    function.add(f"        if {image.nulls(whole=False)}:")
    function.add("            row, at = cells(data, text, at)")
    function.add("            add(row)")
    function.add("        else:")
    indent = " " * 12
    loop.values(indent, image.readers, lambda place, reader: loop.prepare(indent, place, reader))
    loop.row(indent, image.readers)
    function.add("    return at")
    return function.compile("rows", image.about)


def updates_loop(image: Image, opening: str, other: WriteRow) -> Write | None:
    """Writes updates, whose two images have the same columns, the key among them; None where it is not worth it.
    Those that are not usual ``other`` writes.
    """
    if not _is_worth_it(image):
        return None
    function = Generated(image.table)
    function.names.update(OPENING=opening, other=other)
    loop = _Loop(function, image)
    function.add("def updates(data, text, at, end, source, row, documents, sink):")
    function.add("    head, tail, touched = OPENING + source[0], source[1] + ',\"before\":{', sink.touched")
    indent, after = loop.updates()
    function.add(f'{indent}documents.append(f"{{head}}{{row}}{{tail}}"')
    loop.members(indent, image.readers, "", "", "")
    loop.members(indent, after, "}}", ",", NEW)
    function.add(f'{indent}f"{literal(END)}")')
    function.add(f"{indent}row += 1")
    function.add(f"{indent}if touched is not None:")
    function.add(f"{indent}    touched.add(f\"{loop.key()}\".encode('latin-1'), False)")
    function.add(f"{indent}continue")
    function.add('        at = other(data, text, start, f"{source[0]}{row}{source[1]}", documents, sink)')
    function.add("        row += 2 if sink.split else 1")
    function.add("        sink.split = False")
    function.add("    return at, row")
    return function.compile("updates", image.about)


def updates_cells(before: Image, after: Image) -> Gather:
    """Gathers updates, whose images have the key."""
    read_before, read_after = before.whole, after.whole

    def other(data: bytes, text: ByteText, at: int, gathered: Gathered) -> int:
        """Any update, also one that changes the key."""
        old, members, old_key, at = read_before(data, text, at)
        new, _, key, at = read_after(data, text, at)
        if key == old_key:
            gathered.before.append(f"{{{members[1:]}}}")
        else:
            gathered.moves.append(len(gathered.rows))
            gathered.rows.append(old)
            gathered.before += (None, None)
        gathered.rows.append(new)
        return at

    def one_by_one(data: bytes, text: ByteText, at: int, end: int, gathered: Gathered) -> int:
        while at < end:
            at = other(data, text, at, gathered)
        return at

    if before is not after or not _is_worth_it(before):
        return one_by_one
    image, function = before, Generated(before.table)
    function.names.update(other=other)
    loop = _Loop(function, image, cells=True)
    function.add("def updates(data, text, at, end, gathered):")
    function.add("    add, tell = gathered.rows.append, gathered.before.append")
    indent, new_readers = loop.updates()
    function.add(f"{indent}tell(")
    loop.members(indent, image.readers, "{", "", "")
    function.add(f'{indent}    f"{literal("}")}")')
    loop.row(indent, new_readers, costly=True)
    function.add(f"{indent}continue")
    function.add("        at = other(data, text, start, gathered)")
    function.add("    return at")
    return function.compile("updates", image.about)


NEW = "_new"


def _is_worth_it(image: Image) -> bool:
    """Whether updates are read by a function of their own."""
    # Two zeros are equal and have two texts.
    floats = any(image.readers[place].codes in FLOATS for place in image.table.key)
    return len(image.places) <= WIDEST and not floats


class _Loop:
    """What the loops over the images of a table have in common; ``cells``: they gather values for columns of Arrow."""

    def __init__(self, function: Generated, image: Image, *, cells: bool = False) -> None:
        self._function = function
        self._image = image
        self._cells = cells

    def updates(self) -> tuple[str, dict[int, ValueReader]]:
        """Reads two images, without NULLs: the indent of what follows if the keys are equal, and the second readers."""
        function, after = self._function, self._image.readers_of(NEW)
        usual = f"if not ({self._image.nulls(whole=False)}):"
        function.add("    while at < end:")
        function.add("        start = at")
        function.add(f"        {usual}")
        self.values(" " * 12, self._image.readers, self._keep)
        function.add(f"            {usual}")
        self.values(" " * 16, after, self._keep_new)
        function.add(f"                if {self._same_key()}:")
        return " " * 20, after

    def prepare(self, indent: str, place: int, reader: ValueReader) -> None:
        if not (self._cells and reader.raw):
            self._all(indent, place, reader.prepare)

    def _all(self, indent: str, place: int, lines: list[str]) -> None:
        for line in lines:
            self._function.add(indent + line, place)

    def values(self, indent: str, readers: dict[int, ValueReader], settle: Callable[[int, ValueReader], None]) -> None:
        """Reads an image without NULLs: columns of fixed size are unpacked together, and settled."""
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

    def _keep(self, place: int, reader: ValueReader) -> None:
        """Before an update: keeps the text of a value that is likely to come again."""
        indent = " " * 12
        if reader.costly and reader.variable and reader.prepare:
            self._function.add(f"{indent}s{place} = v{place}", place)
        self._all(indent, place, reader.prepare)
        if reader.costly and self._image.table.columns[place] is not None:
            self._function.add(f'{indent}j{place} = f"{reader.json}"', place)

    def _keep_new(self, place: int, reader: ValueReader) -> None:
        """After it: takes that text when the value is the same."""
        indent, function = " " * 16, self._function
        if not reader.costly:
            self.prepare(indent, place, reader)
            return
        same = self._same(indent, place, reader)
        as_unpacked = self._cells and (reader.raw or (reader.cell and not reader.prepare))
        if self._image.table.columns[place] is None or as_unpacked:
            return
        kept = "v" if self._cells and reader.cell else "j"
        function.add(f"{indent}if {same}:", place)
        function.add(f"{indent}    {kept}{place}{NEW} = {kept}{place}", place)
        function.add(f"{indent}else:", place)
        self._all(indent + "    ", place, reader.prepare)
        if kept == "j":
            function.add(f'{indent}    j{place}{NEW} = f"{reader.json}"', place)

    def _same(self, indent: str, place: int, reader: ValueReader) -> str:
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

    def _same_key(self) -> str:
        """Source of whether the key is the same after an update."""
        readers = self._image.readers
        parts = [f"same{p}" if readers[p].costly else f"v{p}{NEW} == v{p}" for p in self._image.table.key]
        return " and ".join(parts) or "True"

    def members(
        self, indent: str, readers: dict[int, ValueReader], before: str, comma: str, kept: str | None = None
    ) -> None:
        """Adds f-strings of the members of an object.

        Args:
            before: Text in front of them.
            comma: In front of the first one.
            kept: The end of the names of variables that hold the texts of costly columns, if any do.
        """
        function, table = self._function, self._image.table
        for place, reader in readers.items():
            if table.columns[place] is None:
                continue
            before += comma + table.label(place)[1:] + reader.mark
            json = f"{{j{place}{kept}}}" if kept is not None and reader.costly else reader.json
            function.add(f'{indent}    f"{literal(before)}{json}"', place)
            before, comma = reader.mark, ","
        if before:
            function.add(f'{indent}    f"{literal(before)}"')

    def key(self) -> str:
        """The inside of an f-string that makes the row's key."""
        joint = literal("\0")
        return joint.join(self._image.readers[place].key for place in self._image.table.key)

    def row(self, indent: str, readers: dict[int, ValueReader], *, costly: bool = False) -> None:
        """Adds a row of values; ``costly``: variables hold the texts of costly columns after an update."""
        self._function.add(f"{indent}add((")
        for place in self._image.table.emitted:
            reader = readers.get(place)
            if reader is None:
                cell = "None"
            elif costly and reader.costly and not reader.cell:
                cell = f"j{place}{NEW}"
            else:
                cell = reader.expression
            self._function.add(f"{indent}    {cell},", place)
        self._function.add(f"{indent}))")
