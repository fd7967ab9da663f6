"""Loops over the rows of an event, generated like the readers of images of which they are made: to lines, or to values
for columns of Arrow.

What is usual is written out in them: rows without NULLs, and updates that leave the key as it is. All other rows go to
functions that take any. ``tests/captures/mysql/rows/generated_decoders.txt`` shows them, whole, for a table. The names
of what is read after an update end in ``_new``; a value that is the same is not turned into text again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tidemark.backfill.keys import Key, TouchedKeys
from tidemark.captures.mysql.rows.row_images import Cells, Generated, Image
from tidemark.captures.mysql.rows.value_reader import ValueReader
from tidemark.captures.mysql.terms.event_bytes import LARGE_BYTES, ByteText
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
    loop.values(indent, image.readers, lambda _, reader: loop.prepare(indent, reader))
    function.add(f'{indent}documents.append(f"{{head}}{{row}}{{tail}}"')
    loop.members(indent, image.readers, "", ",")
    function.add(f'{indent}f"{literal(END)}")')
    function.add(f"{indent}if touched is not None:")
    function.add(f"{indent}    touched.add(f\"{loop.key()}\".encode('latin-1'), False)")
    function.add("        row += 1")
    function.add("    return at, row")
    return function.compile("rows")


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
    loop.values(indent, image.readers, lambda _, reader: loop.prepare(indent, reader))
    loop.row(indent, image.readers)
    function.add("    return at")
    return function.compile("rows")


def updates_loop(image: Image, opening: str, other: WriteRow) -> Write | None:
    """Writes updates, whose two images have the same columns, the key among them; None where it is not worth it.
    Those that are not usual ``other`` writes.
    """
    if not _is_worth_it(image):
        return None
    function = Generated(image.table)
    function.names.update(OPENING=opening, other=other, others=one_by_one(other))
    loop = _Loop(function, image)
    function.add("def updates(data, text, at, end, source, row, documents, sink):")
    # Kept texts of large values would be in memory besides the values themselves.
    function.add(f"    if end - at >= {LARGE_BYTES}:")
    function.add("        return others(data, text, at, end, source, row, documents, sink)")
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
    return function.compile("updates")


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

    def each(data: bytes, text: ByteText, at: int, end: int, gathered: Gathered) -> int:
        while at < end:
            at = other(data, text, at, gathered)
        return at

    if before is not after or not _is_worth_it(before):
        return each
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
    return function.compile("updates")


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

    def prepare(self, indent: str, reader: ValueReader) -> None:
        if not (self._cells and reader.raw):
            self._all(indent, reader.prepare)

    def _all(self, indent: str, lines: list[str]) -> None:
        self._function.add(*(indent + line for line in lines))

    def values(self, indent: str, readers: dict[int, ValueReader], settle: Callable[[int, ValueReader], None]) -> None:
        """Reads an image without NULLs: columns of fixed size are unpacked together, and settled."""
        function = self._function
        function.add(f"{indent}at += {self._image.bitmap_bytes}")
        run: list[tuple[int, ValueReader]] = []
        for place, reader in readers.items():
            function.names.update(reader.names)
            run.append((place, reader))
            if reader.variable:
                function.unpack(indent, [read for _, read in run])
                function.slice(indent, reader)
                for read in run:
                    settle(*read)
                run = []
        function.unpack(indent, [read for _, read in run])
        for read in run:
            settle(*read)

    def _keep(self, place: int, reader: ValueReader) -> None:
        """Before an update: keeps the text of a value that is likely to come again."""
        indent = " " * 12
        if reader.costly and reader.variable and reader.prepare:
            self._function.add(f"{indent}s{place} = v{place}")
        self._all(indent, reader.prepare)
        if reader.costly and self._image.table.columns[place] is not None:
            self._function.add(f'{indent}j{place} = f"{reader.json}"')

    def _keep_new(self, place: int, reader: ValueReader) -> None:
        """After it: takes that text when the value is the same."""
        indent, function = " " * 16, self._function
        if not reader.costly:
            self.prepare(indent, reader)
            return
        same = self._same(indent, place, reader)
        as_unpacked = self._cells and (reader.raw or (reader.cell and not reader.prepare))
        if self._image.table.columns[place] is None or as_unpacked:
            return
        kept = "v" if self._cells and reader.cell else "j"
        function.add(f"{indent}if {same}:")
        function.add(f"{indent}    {kept}{place}{NEW} = {kept}{place}")
        function.add(f"{indent}else:")
        self._all(indent + "    ", reader.prepare)
        if kept == "j":
            function.add(f'{indent}    j{place}{NEW} = f"{reader.json}"')

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
        self._function.add(f"{indent}same{place} = {same}")
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
            function.add(f'{indent}    f"{literal(before)}{json}"')
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
            self._function.add(f"{indent}    {cell},")
        self._function.add(f"{indent}))")


@dataclass(slots=True)
class Sink:
    """The destination of an event's lines and keys.

    Attributes:
        lines: Captured lines, those of one event in one piece.
        touched: Takes the keys that the event touched; None if they are not recorded.
        incomplete: If keys are not recorded, takes those that rows got without all of their columns.
        split: The latest row became two events, with the numbers of two rows.
    """

    lines: list[bytes]
    touched: TouchedKeys | None
    incomplete: list[Key]
    split: bool = False


Write = Callable[[bytes, ByteText, int, int, tuple[str, str], int, list[str], Sink], tuple[int, int]]
"""Writes the rows between two places of an event.

Takes the event's ``data`` and ``text``, begin and end; the JSON of ``_meta.source`` before and after the number of a
row; the first row's number; where lines go, and the sink for keys. Returns where it ended, and the number of the row
after the last.
"""

WriteRow = Callable[[bytes, ByteText, int, str, list[str], Sink], int]
"""Writes one row, or the two images of one update.

Takes the event's ``data`` and ``text``, where the row begins, the JSON of ``_meta.source``, where lines go, and the
sink for keys. Returns where the row ends.
"""


def next_place(place: str) -> str:
    """``_meta.source`` with the number of the next row, from its beginning to any place behind the cursor."""
    head, mark, rest = place.partition('"cursor":"')
    cursor, quote, tail = rest.partition('"')
    position, colon, row = cursor.rpartition(":")
    return f"{head}{mark}{position}{colon}{int(row) + 1}{quote}{tail}"


def one_by_one(write: WriteRow) -> Write:
    """Writes an event's rows by a function for each."""

    def rows(
        data: bytes,
        text: ByteText,
        at: int,
        end: int,
        source: tuple[str, str],
        row: int,
        documents: list[str],
        sink: Sink,
    ) -> tuple[int, int]:
        before, after = source
        while at < end:
            at = write(data, text, at, f"{before}{row}{after}", documents, sink)
            row += 2 if sink.split else 1
            sink.split = False
        return at, row

    return rows
