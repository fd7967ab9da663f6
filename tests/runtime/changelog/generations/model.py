"""What the log's generations are, told by the events alone: a model that knows no files, sessions or summaries."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from tidemark.protocol.messages import COMPLETE, KEY_COLUMNS

_IN_JSON: dict[str, dict[str, str]] = {
    "bigint": {"type": "integer"},
    "string": {"type": "string"},
    "date": {"type": "string", "format": "date"},
}
_VALUES: dict[str, Any] = {"bigint": 7, "string": "seven", "date": "2026-07-07"}
_EXACT = {("bigint", "string"), ("date", "string")}
"""Types whose values can be read as another type."""


@dataclass(frozen=True)
class Shape:
    """A table's columns with their types, and its key."""

    columns: tuple[tuple[str, str], ...]
    key: tuple[str, ...] = ("id",)

    @property
    def announced(self) -> dict[str, Any]:
        """As a connector announces it."""
        properties: dict[str, Any] = {name: _IN_JSON[type_] for name, type_ in self.columns}
        return {
            "type": "object",
            "additionalProperties": False,
            "properties": {"_meta": {}, **properties},
            COMPLETE: True,
            KEY_COLUMNS: list(self.key),
        }

    @property
    def row(self) -> dict[str, Any]:
        """Values of all columns."""
        return {name: _VALUES[type_] for name, type_ in self.columns}

    def fits(self, before: Shape) -> bool:
        """Whether events of this shape can be read together with earlier ones of another."""
        old = dict(before.columns)
        return self.key == before.key and all(
            old.get(name, type_) == type_ or (name not in self.key and (old[name], type_) in _EXACT)
            for name, type_ in self.columns
        )


def _shape(key: str = "id", **columns: str) -> Shape:
    return Shape(tuple({"id": "bigint", **columns}.items()), (key,))


PLAIN = _shape(c="bigint")
SHAPES = (
    PLAIN,
    _shape(c="bigint", added="bigint"),
    _shape(c="bigint", added="date"),
    _shape(c="string"),
    _shape(c="date"),
    _shape(key="c", c="bigint"),
    _shape(id="string", c="bigint"),
)


@dataclass(frozen=True)
class Happening:
    """What a connector says of a table, in the shape that it has then. A begin empties a table that had events."""

    kind: Literal["row", "truncate", "begin", "complete"]
    table: str
    shape: Shape


@dataclass
class ModelGeneration:
    """A generation.

    Attributes:
        begin: The offset where it begins.
        must: Whether it began because events could not be read together with those before.
        shapes: Of its events, by the offset of the newest of each.
        events: How many it has.
        ended: The offset of the first later event of its table.
        whole: Offsets from which on its events give all rows of the table. The commit that has the first of them
            states one, and later ones do not count.
    """

    begin: int
    must: bool = False
    shapes: dict[Shape, int] = field(default_factory=dict)
    events: int = 0
    ended: int | None = None
    whole: set[int] = field(default_factory=set)

    def fits(self, shape: Shape) -> bool:
        return all(shape.fits(before) for before in self.shapes)


class Model:
    """A log as of its newest commit.

    Attributes:
        next_offset: One past its newest event.
        generations: Of each table, from number 1 on.
        belongs: The table of each event, and the number of its generation, by the event's offset.
        departed: Tables whose next events belong to no generation.
    """

    def __init__(self) -> None:
        self.next_offset = 0
        self.generations: dict[str, list[ModelGeneration]] = {}
        self.belongs: list[tuple[str, int | None]] = []
        self.departed: set[str] = set()

    def commit(self, happenings: Iterable[Happening]) -> tuple[set[tuple[str, int]], set[tuple[str, int]]]:
        """Takes one more commit. Returns the generations that begin with it, and those that are whole after it."""
        before = {(table, number): one for table, number, one in self._all()}
        were_whole = {name for name, one in before.items() if one.whole}
        whole = {name: set(before[name].whole) for name in were_whole}
        for happening in happenings:
            getattr(self, f"_{happening.kind}")(happening.table, happening.shape)
        for name, offsets in whole.items():
            before[name].whole = offsets
        after = {(table, number): one for table, number, one in self._all()}
        return after.keys() - before.keys(), {name for name, one in after.items() if one.whole} - were_whole

    def known(self, table: str) -> list[tuple[int, ModelGeneration]]:
        """The last generation of a table that is whole, and all later ones, with their numbers."""
        numbered = list(enumerate(self.generations.get(table, []), 1))
        return numbered[max((place for place, (_, one) in enumerate(numbered) if one.whole), default=0) :]

    def shown(self, table: str) -> list[int]:
        """The number of the last one that is whole, and of those that are laid over it, as their rows fit.

        While none ever was whole, it is the newest, with those below whose rows it fits. None without an event.
        """
        if not any(of == table for of, _ in self.belongs):
            return []
        numbered = list(enumerate(self.generations.get(table, []), 1))
        whole = [number for number, one in numbered if one.whole]
        found: list[tuple[int, ModelGeneration]] = []
        for number, one in numbered[max(whole, default=1) - 1 :]:
            if all(below.fits(shape) for _, below in found for shape in one.shapes):
                found.append((number, one))
            elif not whole:
                found = [(number, one)]
        return [number for number, _ in found]

    def _all(self) -> Iterable[tuple[str, int, ModelGeneration]]:
        return [(table, place + 1, one) for table, known in self.generations.items() for place, one in enumerate(known)]

    def _begin(self, table: str, shape: Shape) -> None:
        known = self.generations.setdefault(table, [])
        must = bool(known) and (table in self.departed or not known[-1].fits(shape))
        self.departed.discard(table)
        known.append(ModelGeneration(self.next_offset, must))
        if len(known) > 1:
            if known[-2].ended is None:
                known[-2].ended = self.next_offset
            self._row(table, shape)

    def _complete(self, table: str, _: Shape) -> None:
        if table in self.generations and table not in self.departed:
            self.generations[table][-1].whole.add(self.next_offset)

    def _truncate(self, table: str, shape: Shape) -> None:
        self._row(table, shape)
        self._complete(table, shape)

    def _row(self, table: str, shape: Shape) -> None:
        known = self.generations.setdefault(table, [])
        if not known:
            known.append(ModelGeneration(self.next_offset, whole={self.next_offset}))
        if not known[-1].fits(shape):
            self.departed.add(table)
        if table in self.departed:
            if known[-1].ended is None:
                known[-1].ended = self.next_offset
            self.belongs.append((table, None))
        else:
            known[-1].shapes[shape] = self.next_offset
            known[-1].events += 1
            self.belongs.append((table, len(known)))
        self.next_offset += 1
