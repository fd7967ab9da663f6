"""What a comparison of a table has found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from tidemark.protocol.messages import Json
from tidemark.protocol.verification.digests import texts
from tidemark.runtime.changelog.events import json_value, python_values

MOST_NAMED = 10_000
"""Keys that are named of each table; all are counted."""


class Kind(StrEnum):
    """How a row differs from the source's."""

    MISSING = "missing"
    """The source has it alone."""

    DIFFERENT = "different"
    """It has other values."""

    TOO_MANY = "too many"
    """The source does not have it."""


class Named(NamedTuple):
    """A row that differs.

    Attributes:
        kind: How.
        key: For people.
        values: Of the columns of its key, as documents have them.
    """

    kind: Kind
    key: str
    values: list[Json]


@dataclass(slots=True)
class Comparison:
    """What a comparison has found.

    Attributes:
        rows: Of the source.
        compared: Those of them that could be compared.
        kept_apart: Rows of the source that were not compared: the log keeps an event of theirs apart, or would. In a
            table in Spark also those that changed while the source was read.
        unknown: Those that were not, since the log's events leave out columns that no earlier event has.
        counts: Rows that differ.
        named: The first ``MOST_NAMED`` of them.
        offset: The log was compared up to here.
        why: Why the table was not compared, for people; empty if it was.
        covered: It can be compared at all, at another time if there is a ``why``.
    """

    rows: int = 0
    compared: int = 0
    kept_apart: int = 0
    unknown: int = 0
    counts: Counter[Kind] = field(default_factory=Counter)
    named: list[Named] = field(default_factory=list)
    offset: int = 0
    why: str = ""
    covered: bool = True

    @property
    def different(self) -> int:
        """How many rows differ."""
        return self.counts.total()

    def add(self, kind: Kind, key: Sequence[Any], rows: int) -> None:
        """Rows differ.

        Args:
            key: The columns of their keys.
            rows: How many they are.
        """
        self.counts[kind] += rows
        room = min(rows, max(0, MOST_NAMED - len(self.named)))
        if not room:
            return
        columns = [column.slice(0, room).combine_chunks() for column in key]
        values = zip(*([json_value(each, False) for each in python_values(column)] for column in columns), strict=True)
        for text, row in zip(texts(columns, room).to_pylist(), values, strict=True):
            self.named.append(Named(kind, str(text), list(row)))


@dataclass(frozen=True, slots=True)
class Found:
    """What was found of a table.

    Attributes:
        in_log: In the change log.
        in_spark: In the table that Spark keeps of it; None where none is kept, or the log could not be compared.
    """

    in_log: Comparison
    in_spark: Comparison | None = None

    @property
    def parts(self) -> list[Comparison]:
        """Both, as far as they were made."""
        return [self.in_log] if self.in_spark is None else [self.in_log, self.in_spark]
