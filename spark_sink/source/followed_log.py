"""A change log that one process reads again and again while it grows, and how its events are cut into batches."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from protocol.changelog import ChangeLog, Commit

_COMMITS_KEPT = 4096

QUIET_COMMITS = 1000
"""So many commits without an event of a table are a batch without rows, so that a restart need not read them again."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a batch may hold. A single commit may be more: a batch never splits one.

    Attributes:
        events: Most events.
        size: Most bytes of events, uncompressed.
    """

    events: int | None = None
    size: int | None = None

    def exceeded_by(self, events: int, size: int) -> bool:
        """Whether this much is more than a batch may hold."""
        return (self.events is not None and events > self.events) or (self.size is not None and size > self.size)


class FollowedLog(ChangeLog):
    """A change log read by a process that lives as long as a query: it keeps the newest commits that it has read."""

    def __init__(self, root: Path | str) -> None:
        super().__init__(root)
        self._kept: dict[int, Commit] = {}

    def commit(self, number: int) -> Commit:
        kept = self._kept.get(number)
        if kept is None:
            kept = super().commit(number)
            if len(self._kept) >= _COMMITS_KEPT:
                del self._kept[next(iter(self._kept))]
            self._kept[number] = kept
        return kept

    def cut(self, start: int, limits: Limits, ceiling: int, collection: str | None = None) -> int:
        """Where the batch that starts at ``start`` ends: a commit boundary within the limits, at most ``ceiling``.

        Args:
            start: Of the batch.
            limits: Of the batch; one commit is always let in.
            ceiling: A commit boundary.
            collection: Whose events count; of all collections when None.

        Returns:
            ``start`` itself when there is nothing to read for now.
        """
        events = size = quiet = 0
        position = start
        for commit in self.commits(self.commit_with_offset(start)):
            if commit.first_offset >= ceiling:
                break
            segments = [s for s in commit.segments if collection in (None, s.collection) and s.last_offset >= start]
            rows, length = sum(s.rows for s in segments), sum(s.uncompressed for s in segments)
            if events and limits.exceeded_by(events + rows, size + length):
                break
            events, size = events + rows, size + length
            quiet += not segments
            position = commit.next_offset
        return max(position, start) if events or quiet >= QUIET_COMMITS else start
