"""XA transactions between XA PREPARE, which puts their rows into the log, and XA COMMIT, which makes them count."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container
from dataclasses import dataclass, field

from tidemark.captures.mysql.tables.logged_table import LoggedTable
from tidemark.captures.mysql.terms.position import PreparedPlace

REMEMBERED = 1_000
"""After this many commits of prepared transactions the server is asked which are not complete."""

_EVENT_BYTES = 128
"""Memory that an event takes besides its rows."""


@dataclass(frozen=True, slots=True)
class HeldEvent:
    """The rows of one event, from the count of their columns on."""

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

    def let_go(self) -> None:
        """Holds no rows: they are read again when the transaction commits."""
        self.events, self.size = None, 0

    def add(self, event: HeldEvent, room: int) -> None:
        """Holds an event, or drops all of them if it takes more than ``room`` bytes."""
        self.bindings.add(event.table.binding)
        if self.events is None:
            return
        size = len(event.rows) + _EVENT_BYTES
        if size > room:
            self.let_go()
            return
        self.events.append(event)
        self.size += size


class Committing:
    """Xids whose XA COMMIT was read from the log, and which snapshots may not show yet.

    Args:
        prepared: Those that were prepared, and did not end, before the position where reading begins.
        still_prepared: Asks which xids are prepared, or whose commit is not complete: all others are visible. Those
            that ``prepared`` lacks may have been committed before that position.

    Attributes:
        xids: All of them, and some that are complete.
    """

    def __init__(self, prepared: Container[str], still_prepared: Callable[[], Collection[str]]) -> None:
        self._still_prepared = still_prepared
        self._limit = REMEMBERED
        self.xids = {xid for xid in still_prepared() if xid not in prepared}

    def add(self, xid: str) -> None:
        """The log has the XA COMMIT."""
        self.xids.add(xid)

    def prepared(self, xid: str) -> None:
        """The log has the XA PREPARE of another transaction with this xid, so the earlier one is complete."""
        self.xids.discard(xid)

    def forget(self) -> None:
        """Forgets those that are complete, once there are many. Raises as ``still_prepared``."""
        if len(self.xids) > self._limit:
            self.xids.intersection_update(self._still_prepared())
            self._limit = REMEMBERED + 2 * len(self.xids)
