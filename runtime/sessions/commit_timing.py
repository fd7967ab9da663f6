"""When the events since the last commit are committed."""

from __future__ import annotations

import time
from collections.abc import Iterable

from tidemark.protocol.capture_file import CommitEntry
from tidemark.runtime.sessions.bound_table import BoundTable

QUIET_SECONDS = 0.05
"""A capture that ends once it is caught up commits when nothing has come for so long: its connector may wait for that.

Not while a table is read: between two chunks nothing comes either."""


class CommitTiming:
    """The time since the first message that is not committed, and since the last that came.

    Args:
        due: When a commit is due.
        until_caught_up: The connector ends once it is caught up.
    """

    def __init__(self, due: CommitEntry, *, until_caught_up: bool) -> None:
        self._due = due
        self._until_caught_up = until_caught_up
        self._begun_at: float | None = None
        self._heard_at = 0.0

    @property
    def begun(self) -> bool:
        """Whether there is something to commit."""
        return self._begun_at is not None

    def heard(self) -> None:
        """The connector has said something."""
        self._heard_at = time.monotonic()

    def begin(self) -> None:
        """There is something to commit."""
        if self._begun_at is None:
            self._begun_at = time.monotonic()

    def end(self) -> None:
        """All is committed."""
        self._begun_at = None

    def full(self, size: int) -> bool:
        """Whether so many bytes are committed without waiting."""
        return size >= self._due.bytes

    def remaining(self, tables: Iterable[BoundTable]) -> float:
        """Seconds until a commit is due if nothing more comes; 0 if it is."""
        assert self._begun_at is not None
        due_at = self._begun_at + self._due.interval
        if self._until_caught_up and not any(table.being_read for table in tables):
            due_at = min(due_at, self._heard_at + QUIET_SECONDS)
        return max(0.0, due_at - time.monotonic())
