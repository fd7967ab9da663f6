"""What the log says of a captured table: one event for each thing that happened to it, in the order of the log.

A table is known by the index of its binding. The engine owns the state of each table, and decides what follows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tidemark.backfill.keys import Key
from tidemark.captures.contract.table_changes import Cause
from tidemark.protocol.errors import SourceError


@dataclass(frozen=True, slots=True)
class ColumnsChanged:
    """The table has other columns: chunks that were read with the old ones are useless."""

    binding: int


@dataclass(frozen=True, slots=True)
class RowsAffected:
    """The log does not describe all rows of the table, or they moved in storage.

    Attributes:
        cause: What happened. Its consequence is carried out after the transaction in which the batch ends. If the table
            is emptied, ``Source.changed_tables`` hands it over as it is now. The source itself logs warnings and
            errors.
    """

    binding: int
    cause: Cause


@dataclass(frozen=True, slots=True)
class BadValuesCounted:
    """Documents have bad values that a policy let through.

    Attributes:
        policy: The policy that was applied.
        count: How many they are.
    """

    binding: int
    policy: str
    count: int


@dataclass(frozen=True, slots=True)
class RowPartlyKnown:
    """A consumer may lack something of a row.

    Attributes:
        kept_apart: The event is kept apart for its bad values. Otherwise it lacks columns, in a table whose events may
            be kept apart.
    """

    binding: int
    key: Key
    kept_apart: bool


@dataclass(frozen=True, slots=True)
class WentAway:
    """The table cannot be captured as it is now. Its changes are still captured."""

    binding: int
    error: SourceError


@dataclass(frozen=True, slots=True)
class SetAside:
    """The log no longer describes changes of the table. The stream already leaves it out."""

    binding: int
    error: SourceError


@dataclass(frozen=True, slots=True)
class ChangesPassed:
    """The table is left out, and had changes."""

    binding: int


CaptureEvent: TypeAlias = WentAway | SetAside | ChangesPassed
"""Whether the table is captured."""

RowEvent: TypeAlias = ColumnsChanged | BadValuesCounted | RowPartlyKnown
"""How its rows come."""

TableEvent: TypeAlias = CaptureEvent | RowEvent | RowsAffected
