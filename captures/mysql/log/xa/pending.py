"""XA transactions between XA PREPARE, when their rows come in the log, and XA COMMIT, when they count."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container
from dataclasses import dataclass, field

from captures.mysql.log.position import PreparedPlace
from captures.mysql.tables.logged_table import LoggedTable

HELD_BYTES = 64 * 1024 * 1024
"""Rows of prepared transactions that are held in memory, over all of them. The log is read again for the others."""

REMEMBERED = 1_000
"""Commits of prepared transactions after which it is asked which of them are not over."""

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


class Committing:
    """Xids whose XA COMMIT was read from the log, and that snapshots may not show yet.

    Args:
        prepared: Those that were prepared before the place where the log is begun, and did not end before it.
        still_prepared: Asks which xids are prepared, or not over: what is not among them is visible. Those that are,
            and that ``prepared`` does not have, may have been committed before that place.

    Attributes:
        xids: All of them, and others that are over.
    """

    def __init__(self, prepared: Container[str], still_prepared: Callable[[], Collection[str]]) -> None:
        self._still_prepared = still_prepared
        self._limit = REMEMBERED
        self.xids = {xid for xid in still_prepared() if xid not in prepared}

    def add(self, xid: str) -> None:
        """The log has the XA COMMIT."""
        self.xids.add(xid)

    def prepared(self, xid: str) -> None:
        """The log has the XA PREPARE of another transaction, so the one that had this xid is over."""
        self.xids.discard(xid)

    def forget(self) -> None:
        """Forgets those that are over, once there are many. Raises what ``still_prepared`` does."""
        if len(self.xids) > self._limit:
            self.xids.intersection_update(self._still_prepared())
            self._limit = REMEMBERED + 2 * len(self.xids)
