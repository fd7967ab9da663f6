"""What a run of ``materialize`` did, and what it says while it runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class PlannedPart:
    """One table's share of a batch, as planned.

    Attributes:
        table: ``schema.table`` in the source.
        kind: Of table.
        way: ``task``, ``rewrite`` or ``sql``.
        start: Log offset where it begins.
        end: Log offset where it ends, exclusive.
        events: In the part.
        bytes: Of the events, uncompressed.
        files: Of the table's own that may be rewritten.
        reason: Why this way, a phrase.
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
    """What work took.

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
    """One table took its part of a batch."""

    part: PlannedPart
    cost: Cost


@dataclass(frozen=True, slots=True)
class KeptTable:
    """One kept table after a run.

    Attributes:
        table: ``schema.table`` in the source.
        kind: ``current`` or ``history``.
        path: Of the Delta table.
        way: Of the last part that the run applied; empty when there was none.
        events: Applied by this run.
        rows: In the table, None where there is no table.
        position: All events below this offset are applied.
        behind: Events of the log that the table lacks.
        stale_seconds: How long ago the first of these reached the log; 0 when there are none.
        error: ``TM-…: …`` when the table is set aside, else None.
        cost: Of this run's work on it.
    """

    table: str
    kind: str
    path: Path
    way: str
    events: int
    rows: int | None
    position: int
    behind: int = 0
    stale_seconds: float = 0.0
    error: str | None = None
    cost: Cost = field(default_factory=Cost)


@dataclass(frozen=True, slots=True)
class MaterializeReport:
    """What a run did.

    Attributes:
        tables: By name and kind, those that are set aside among them.
        end_offset: The log's end as the run saw it last.
        seconds: From the call to the end, a session's start included.
        executors: Rows of log and tables that each executor process host read, by executor.
    """

    tables: tuple[KeptTable, ...]
    end_offset: int
    seconds: float
    executors: dict[str, int] = field(default_factory=dict)

    @property
    def events(self) -> int:
        """Applied by this run, counted once for each kept table."""
        return sum(table.events for table in self.tables)

    @property
    def cost(self) -> Cost:
        """Of all tables together."""
        return sum((table.cost for table in self.tables), Cost())

    @property
    def set_aside(self) -> tuple[KeptTable, ...]:
        """The tables that a person must look at."""
        return tuple(table for table in self.tables if table.error)
