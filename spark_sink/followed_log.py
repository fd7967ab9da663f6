"""A change log that one process reads again and again while it grows, and how its events are cut into batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from protocol.changelog import ChangeLog, Commit, Segment, TableSchema, layout

_COMMITS_KEPT = 4096

QUIET_COMMITS = 1000
"""So many commits without an event of a table are a batch without rows, so that a restart need not read them again."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a batch may hold. A single commit may be more: a batch never splits one.

    Attributes:
        events: Most events.
        size: Most bytes of segment files.
    """

    events: int | None = None
    size: int | None = None

    def exceeded_by(self, events: int, size: int) -> bool:
        return (self.events is not None and events > self.events) or (self.size is not None and size > self.size)


class FollowedLog(ChangeLog):
    """A change log read by a process that lives as long as a query.

    The directory is listed once; after that the newest commit is found by asking for the next. Commits are kept.
    """

    def __init__(self, root: Path | str) -> None:
        super().__init__(root)
        self._newest: int | None = None
        self._kept: dict[int, Commit] = {}
        self._schemas: dict[str, TableSchema] = {}

    def latest(self) -> int:
        newest = super().latest() if self._newest is None else self._newest
        while (self.root / layout.COMMITS / layout.commit_name(newest + 1)).exists():
            newest += 1
        self._newest = newest
        return newest

    def commit(self, number: int) -> Commit:
        kept = self._kept.get(number)
        if kept is None:
            kept = super().commit(number)
            if len(self._kept) >= _COMMITS_KEPT:
                del self._kept[next(iter(self._kept))]
            self._kept[number] = kept
        return kept

    def schema(self, fingerprint: str) -> TableSchema:
        if fingerprint not in self._schemas:
            self._schemas[fingerprint] = super().schema(fingerprint)
        return self._schemas[fingerprint]

    def end(self) -> int:
        """One past the offset of the newest event."""
        newest = self.latest()
        return self.commit(newest).next_offset if newest >= 0 else 0

    def offset_at(self, instant: datetime) -> int:
        """The offset of the first event that reached the log at ``instant`` or later; the end when there is none."""
        low, high = 0, self.latest() + 1
        while low < high:
            middle = (low + high) // 2
            if self.commit(middle).time >= instant:
                high = middle
            else:
                low = middle + 1
        return self.commit(low).first_offset if low <= self.latest() else self.end()

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
            rows, length = sum(s.rows for s in segments), sum(s.size for s in segments)
            if events and limits.exceeded_by(events + rows, size + length):
                break
            events, size = events + rows, size + length
            quiet += not segments
            position = commit.next_offset
        return max(position, start) if events or quiet >= QUIET_COMMITS else start

    def segments_of_all(self, start: int, end: int) -> Iterator[tuple[int, Segment]]:
        """Segments of every collection with events in ``[start, end)``, with the numbers of their commits."""
        for commit in self.commits(self.commit_with_offset(start)):
            if commit.first_offset >= end:
                return
            for segment in commit.segments:
                if segment.last_offset >= start and segment.first_offset < end:
                    yield commit.number, segment
