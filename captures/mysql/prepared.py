"""XA transactions between XA PREPARE, when their rows come in the log, and XA COMMIT, when they count."""

from __future__ import annotations

from dataclasses import dataclass, field

from captures.mysql.logged_tables import LoggedTable
from captures.mysql.position import PreparedPlace

HELD_BYTES = 64 * 1024 * 1024
"""Rows of prepared transactions that are held in memory, over all of them. The log is read again for the others."""

_EVENT_BYTES = 128
"""What an event takes in memory besides its rows."""


@dataclass(frozen=True, slots=True)
class HeldEvent:
    """The rows of one event, from their columns' count on."""

    table: LoggedTable
    what: str
    rows: bytes


@dataclass(slots=True)
class Prepared:
    """A prepared transaction.

    Attributes:
        place: Where it begins in the log.
        events: Its rows; None when they must be read again.
        size: Bytes of memory that ``events`` take.
        bindings: Those that it changed.
    """

    place: PreparedPlace
    events: list[HeldEvent] | None = field(default_factory=list)
    size: int = 0
    bindings: set[int] = field(default_factory=set)

    def add(self, event: HeldEvent, room: int) -> None:
        """Holds an event, or lets go of all of them when there is no room for so many bytes."""
        self.bindings.add(event.table.binding)
        if self.events is None:
            return
        size = len(event.rows) + _EVENT_BYTES
        if size > room:
            self.events, self.size = None, 0
            return
        self.events.append(event)
        self.size += size
