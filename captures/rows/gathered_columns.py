"""Gathers the rows of tables for a batch of columns of the log: see ``tidemark.protocol.batches``."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Generic, Protocol, TypeVar

from tidemark.captures.rows.cells import Cell
from tidemark.captures.rows.log_parts import LogPart
from tidemark.protocol.batches import MOST_BYTES, Meta, Part, batch_line

FEWEST = 32
"""Rows of a table among those that are added, on average: fewer cost less as lines."""

LINES = 8
"""So many times rows of a table are not taken after some that could not be: there may be more such rows."""

MOST_TEXT = MOST_BYTES // 2
"""Bytes of rows and JSON in a batch. The rest is for what Arrow has beside texts."""


class Gathered(Protocol):
    """A table as the log has it now.

    Attributes:
        lines_left: So many times its rows are to be lines.
    """

    @property
    def binding(self) -> int: ...

    lines_left: int


T = TypeVar("T", bound=Gathered)


class GatheredColumns(Generic[T]):
    """The columns of one batch after another.

    Attributes:
        events: How many the batch has.
        size: Bytes of their rows and JSON.
    """

    def __init__(self) -> None:
        self._parts: dict[int, tuple[T, Sequence[int], LogPart]] = {}
        self.events = 0
        self.size = 0

    def takes(self, tables: Collection[T]) -> bool:
        """Whether rows of these tables may be added, if there are enough."""
        for table in tables:
            if table.lines_left:
                table.lines_left -= 1
                return False
        # A binding has one part, whose columns are those of one table.
        bindings = {table.binding: table for table in tables}
        began = all(self._parts[index][0] is one for index, one in bindings.items() if index in self._parts)
        return began and len(bindings) == len(tables)

    def are_enough(self, rows: int, tables: int) -> bool:
        """Whether rows of so many tables are worth it."""
        return rows >= FEWEST * tables

    def refuse(self, table: T) -> None:
        """Does not take the next rows of a table, some of which could not be added."""
        table.lines_left = LINES

    def has_room(self, size: int) -> bool:
        """Whether rows of so many bytes may be added."""
        return self.size + size <= MOST_TEXT

    def part(self, table: T, columns: Sequence[Cell]) -> LogPart:
        """The part of a table, which ``takes`` let in, with these columns."""
        found = self._parts.get(table.binding)
        if found is None:
            json = [place for place, of in enumerate(columns) if of is Cell.JSON]
            found = self._parts[table.binding] = table, json, LogPart(columns)
        return found[2]

    def added(self, size: int) -> None:
        """Rows of so many bytes were added to parts."""
        self.size += size
        self.events = sum(len(part) for _, _, part in self._parts.values())

    def take(self) -> list[bytes]:
        """The line of the batch and its streams; nothing if it has no rows. Another one begins."""
        if not self._parts:
            return []
        parts, streams = [], []
        for binding, (_, json, gathered) in self._parts.items():
            streams.append(gathered.stream())
            parts.append(Part(binding, "log", len(gathered), len(streams[-1]), Meta(json=json)))
        events, self._parts, self.events, self.size = self.events, {}, 0, 0
        return [batch_line(parts, events), *streams]
