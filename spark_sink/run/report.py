"""The report of a run of ``materialize``, and of its parts."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class PlannedPart:
    """The plan of a part: one table's share of a batch.

    Attributes:
        table: ``schema.table`` in the source.
        kind: ``current`` or ``history``.
        way: ``task``, ``rewrite`` or ``sql``.
        start: The log offset at which the part begins.
        end: The log offset at which the part ends, exclusive.
        events: How many events the part has.
        bytes: The size of the events, uncompressed.
        files: How many files of the table may be rewritten.
        reason: The reason for the way, a phrase.
    """

    table: str
    kind: str
    way: str
    start: int
    end: int
    events: int
    bytes: int
    files: int
    reason: str


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of work.

    Attributes:
        seconds: Of wall time.
        cpu_seconds: Of the executors' Python processes and of this one, as far as they can be told.
        bytes_read: From log and tables, in files' bytes.
        bytes_written: To the table.
    """

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    bytes_read: int = 0
    bytes_written: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.seconds + other.seconds,
            self.cpu_seconds + other.cpu_seconds,
            self.bytes_read + other.bytes_read,
            self.bytes_written + other.bytes_written,
        )


@dataclass(frozen=True, slots=True)
class Applied:
    """A part that was applied, and its cost."""

    part: PlannedPart
    cost: Cost


@dataclass(frozen=True, slots=True)
class KeptTable:
    """One kept table after a run.

    Attributes:
        table: ``schema.table`` in the source.
        kind: ``current`` or ``history``.
        path: Of the Delta table; a URL in an object store.
        way: The way of the last part that the run applied; empty if there was none.
        events: How many events this run applied.
        rows: How many rows the table has; None if there is no table.
        position: All events below this offset are applied.
        behind: How many events of the log the table lacks.
        stale_seconds: The age of the first of these events in the log; 0 if there are none.
        error: ``TM-…: …`` if the table is set aside, else None.
        generation: The number of the newest generation that it has rows of; 0 for a history.
        over: The number of the generation over which that is laid until it is whole; 0 for none.
        waits: What its rows wait for while the table is read again, how far that is, and why. Empty where they wait for
            nothing.
        cost: The cost of this run's work on the table.
    """

    table: str
    kind: str
    path: Path | str
    way: str
    events: int
    rows: int | None
    position: int
    behind: int = 0
    stale_seconds: float = 0.0
    error: str | None = None
    generation: int = 0
    over: int = 0
    waits: str = ""
    cost: Cost = field(default_factory=Cost)


@dataclass(frozen=True, slots=True)
class MaterializeReport:
    """The result of a run.

    Attributes:
        tables: All kept tables, also those set aside, in the order of name and kind.
        end_offset: The log's end when the run last read it.
        seconds: Wall time of the call, with the start of the session.
        executors: How many rows of log and tables each executor read.
    """

    tables: tuple[KeptTable, ...]
    end_offset: int
    seconds: float
    executors: dict[str, int] = field(default_factory=dict)

    @property
    def events(self) -> int:
        """How many events the run applied, counted once for each kept table."""
        return sum(table.events for table in self.tables)

    @property
    def cost(self) -> Cost:
        """The cost of all tables."""
        return sum((table.cost for table in self.tables), Cost())

    @property
    def set_aside(self) -> tuple[KeptTable, ...]:
        """The tables that are set aside."""
        return tuple(table for table in self.tables if table.error)
