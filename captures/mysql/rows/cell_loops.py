"""Loops over the rows of an event that gather their values for columns of Arrow: see ``row_loops``, whose lines they
share. What an update tells of the row before it is JSON, as in documents.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tidemark.captures.mysql.rows.row_images import Cells, Generated, Image
from tidemark.captures.mysql.rows.row_loops import NEW, Loop, add_all, is_worth_it
from tidemark.captures.mysql.rows.value_reader import ValueReader
from tidemark.captures.mysql.terms.event_bytes import ByteText
from tidemark.captures.rows.source_literals import literal


@dataclass(slots=True)
class Gathered:
    """The events of a table.

    Attributes:
        rows: One for each event.
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

GatherRow = Callable[[bytes, ByteText, int, Gathered], int]
"""Gathers the two images of one update. Returns where they end."""


def rows_cells(image: Image) -> Gather:
    """Gathers inserts or deletes, whose images have the key."""
    function = Generated(image.table)
    function.names.update(cells=image.cells)
    loop = Loop(function, image)
    function.add("def rows(data, text, at, end, gathered):")
    function.add("    add = gathered.rows.append")
    function.add("    while at < end:")
    function.add(f"        if {image.nulls(whole=False)}:")
    function.add("            row, at = cells(data, text, at)")
    function.add("            add(row)")
    function.add("        else:")
    indent = " " * 12
    loop.values(indent, image.readers, lambda place, reader: _prepare(function, indent, place, reader))
    _add(function, indent, image, image.readers)
    function.add("    return at")
    return function.compile("rows", image.about)


def updates_cells(before: Image, after: Image) -> Gather:
    """Gathers updates, whose images have the key."""
    other = _Updates(before, after).gather
    return (_loop(before, other) if before is after and is_worth_it(before) else None) or _one_by_one(other)


def _loop(image: Image, other: GatherRow) -> Gather:
    """Gathers those whose two images have the same columns; ``other`` those that are not usual."""
    function = Generated(image.table)
    function.names.update(other=other)
    loop = Loop(function, image)
    after = image.readers_of(NEW)
    function.add("def updates(data, text, at, end, gathered):")
    function.add("    add, tell = gathered.rows.append, gathered.before.append")
    function.add("    while at < end:")
    function.add("        start = at")
    function.add(f"        if not ({image.nulls(whole=False)}):")
    loop.values(" " * 12, image.readers, loop.keep)
    function.add(f"            if not ({image.nulls(whole=False)}):")
    indent = " " * 16
    loop.values(indent, after, lambda place, reader: _keep_new(function, loop, indent, place, reader))
    function.add(f"{indent}if {loop.same_key()}:")
    function.add(f"{indent}    tell(")
    loop.members(indent + "    ", image.readers, "{", "", costly="j")
    function.add(f'{indent}        f"{literal("}")}")')
    _add(function, indent + "    ", image, after, costly=True)
    function.add(f"{indent}    continue")
    function.add("        at = other(data, text, start, gathered)")
    function.add("    return at")
    return function.compile("updates", image.about)


def _prepare(function: Generated, indent: str, place: int, reader: ValueReader) -> None:
    if not reader.raw:
        add_all(function, indent, place, reader.prepare)


def _keep_new(function: Generated, loop: Loop, indent: str, place: int, reader: ValueReader) -> None:
    """As ``Loop.keep_new``, for cells."""
    in_document = function.table.columns[place] is not None
    if not reader.costly:
        _prepare(function, indent, place, reader)
        return
    if not in_document or reader.raw or (reader.cell and not reader.prepare):
        if place in function.table.key:
            loop.same(indent, place, reader)
        return
    kept = (f"v{place}{NEW}", f"v{place}") if reader.cell else (f"j{place}{NEW}", f"j{place}")
    function.add(f"{indent}if {loop.same(indent, place, reader)}:", place)
    function.add(f"{indent}    {kept[0]} = {kept[1]}", place)
    function.add(f"{indent}else:", place)
    add_all(function, indent + "    ", place, reader.prepare)
    if not reader.cell:
        function.add(f'{indent}    {kept[0]} = f"{reader.json}"', place)


def _add(
    function: Generated, indent: str, image: Image, readers: dict[int, ValueReader], *, costly: bool = False
) -> None:
    """Adds a row; ``costly``: variables hold the texts of costly columns after an update."""
    function.add(f"{indent}add((")
    for place in image.table.emitted:
        reader = readers.get(place)
        if reader is None:
            cell = "None"
        elif costly and reader.costly and not reader.cell:
            cell = f"j{place}{NEW}"
        else:
            cell = reader.expression
        function.add(f"{indent}    {cell},", place)
    function.add(f"{indent}))")


def _one_by_one(gather: GatherRow) -> Gather:
    def updates(data: bytes, text: ByteText, at: int, end: int, gathered: Gathered) -> int:
        while at < end:
            at = gather(data, text, at, gathered)
        return at

    return updates


class _Updates:
    """Gathers any updates, also those that change the key."""

    def __init__(self, before: Image, after: Image) -> None:
        self._before, self._after = before.whole, after.whole

    def gather(self, data: bytes, text: ByteText, at: int, gathered: Gathered) -> int:
        old, members, old_key, at = self._before(data, text, at)
        new, _, key, at = self._after(data, text, at)
        if key == old_key:
            gathered.before.append(f"{{{members[1:]}}}")
        else:
            gathered.moves.append(len(gathered.rows))
            gathered.rows.append(old)
            gathered.before += (None, None)
        gathered.rows.append(new)
        return at
