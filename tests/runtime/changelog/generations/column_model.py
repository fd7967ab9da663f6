"""What a table's rows are, told by what its connector says: a model that knows no names, schemas or files.

A row has values of columns, which are told apart by a number that no other column ever gets. Where a column is added,
all rows get its constant at once; where its type changes, all values do.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

KEY = 0
"""The number of the first column that is the key."""

Values = dict[int, Any]
"""By the columns' numbers, as documents have them."""


@dataclass(frozen=True)
class ToldColumn:
    """A column as a connector tells it.

    Attributes:
        number: Its own.
        name: What it is called.
        type: bigint, string or date.
        constant: In all rows from before it; None for null.
        wrong: The connector tells a constant that the column cannot hold.
        known: The connector tells which column it is.
    """

    number: int
    name: str
    type: str
    constant: Any = None
    wrong: bool = False
    known: bool = True


@dataclass(frozen=True)
class Happening:
    """What a connector says.

    Attributes:
        kind: ``tell`` is a schema alone; ``put`` and ``delete`` are of a row.
        columns: That the table has then; the key is called ``id``.
        key: Of the row.
        values: That an event carries; of other columns the row keeps its own.
    """

    kind: Literal["tell", "put", "delete", "truncate", "begin", "complete"]
    columns: tuple[ToldColumn, ...]
    key: int = 0
    values: Values = field(default_factory=dict)


@dataclass
class ShownGeneration:
    """What events of one generation come to.

    Attributes:
        first: The offset of its first event.
        columns: Of the table, as they were told last.
        seen: As they were after the newest commit with an event.
        types: All types that each column was told with.
        rows: By key.
        events: What each event carried, by offset; None for one without a row.
        said: What was said of it.
        whole: Whether all rows have come.
        ended: Whether a later event is of another generation, or of none.
    """

    first: int
    columns: tuple[ToldColumn, ...] = ()
    seen: tuple[ToldColumn, ...] = ()
    types: dict[int, list[str]] = field(default_factory=dict)
    rows: dict[int, Values] = field(default_factory=dict)
    events: dict[int, Values | None] = field(default_factory=dict)
    said: list[Happening] = field(default_factory=list)
    whole: bool = False
    ended: bool = False

    @property
    def has_been_wrong(self) -> bool:
        """Whether a constant was told that its column cannot hold."""
        return any(column.wrong for said in self.said for column in said.columns)

    def fits(self, columns: tuple[ToldColumn, ...]) -> bool:
        """Whether all values so far can be read in a table that has these columns."""
        new = [column for column in columns if column.number not in self.types]
        if self.columns and new and any(column.wrong for column in columns):
            return False
        if self.columns and _key(columns) != _key(self.columns):
            return False
        return all(_holds(column.type, old) for column in columns for old in self.types.get(column.number, ()))

    def tell(self, columns: tuple[ToldColumn, ...]) -> None:
        """The table has these columns from now on."""
        stored = [*self.rows.values(), *filter(None, self.events.values())]
        for column in columns:
            is_new = column.number not in self.types
            self.types.setdefault(column.number, []).append(column.type)
            for values in stored:
                if is_new:
                    values[column.number] = column.constant
                if column.type == "string" and isinstance(values[column.number], int):
                    values[column.number] = str(values[column.number])
        self.columns = columns

    def apply(self, said: Happening) -> None:
        """What is said changes columns and rows."""
        self.tell(said.columns)
        if said.kind == "put":
            before = self.rows.get(said.key, {})
            row = {number: said.values.get(number, before.get(number)) for number in {*self.types, *said.values}}
            gone = self.types.keys() - {column.number for column in said.columns}
            self.rows[said.key] = {**row, **dict.fromkeys(gone)}
        elif said.kind == "delete":
            self.rows.pop(said.key, None)
        elif said.kind == "truncate":
            self.rows.clear()
        self.said.append(said)


class ColumnModel:
    """One table as of its log's newest commit.

    Attributes:
        next_offset: One past its newest event.
        generations: From number 1 on.
    """

    def __init__(self) -> None:
        self.next_offset = 0
        self.generations: list[ShownGeneration] = []

    @property
    def shown(self) -> ShownGeneration | None:
        """The last generation that is whole, or the newest while none is."""
        newest = self.generations[-1] if self.generations else None
        return next((one for one in reversed(self.generations) if one.whole), newest)

    def laid_over(self, numbers: Iterable[int]) -> ShownGeneration:
        """What the events of some generations come to, each laid over those before: their begins empty nothing."""
        found = ShownGeneration(0)
        under: list[Happening] = []
        for generation in (self.generations[number - 1] for number in sorted(numbers)):
            begin = next((one for one in generation.said if one.kind != "tell"), None) if under else None
            under = [replace(said, kind="tell") if said is begin else said for said in generation.said]
            for said in under:
                found.apply(said)
        return found

    def commit(self, happenings: Iterable[Happening]) -> None:
        before = self.next_offset
        for happening in happenings:
            getattr(self, f"_{happening.kind}")(happening)
        if self.next_offset > before:
            self.generations[-1].seen = self.generations[-1].columns

    def _tell(self, said: Happening) -> None:
        if self.generations and not self.generations[-1].ended and self.generations[-1].fits(said.columns):
            self.generations[-1].apply(said)

    def _begin(self, _: Happening) -> None:
        if self.generations:
            self.generations[-1].ended = True
        self.generations.append(ShownGeneration(self.next_offset))

    def _complete(self, _: Happening) -> None:
        if self.generations and not self.generations[-1].ended:
            self.generations[-1].whole = True

    def _put(self, said: Happening) -> None:
        if (newest := self._event(said)) is not None:
            newest.events[self.next_offset - 1] = {**dict.fromkeys(newest.types), **said.values}

    def _delete(self, said: Happening) -> None:
        self._event(said)

    def _truncate(self, said: Happening) -> None:
        if (newest := self._event(said)) is not None:
            # The first event of a generation after another says only that it begins.
            newest.whole |= newest is self.generations[0] or self.next_offset - 1 > newest.first

    def _event(self, said: Happening) -> ShownGeneration | None:
        """The generation of an event; None for none."""
        self.next_offset += 1
        if not self.generations:
            self.generations.append(ShownGeneration(self.next_offset - 1, whole=True))
        newest = self.generations[-1]
        if newest.ended or not newest.fits(said.columns):
            newest.ended = True
            return None
        newest.apply(said)
        newest.events[self.next_offset - 1] = None
        return newest


def _key(columns: tuple[ToldColumn, ...]) -> int:
    return next(column.number for column in columns if column.name == "id")


def _holds(type_: str, old: str) -> bool:
    """Whether values of a type can be read as another one."""
    return type_ in (old, "string")
