"""A change log that a process reads repeatedly while it grows, and the batches of its events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tidemark.protocol.changelog import ChangeLog, Commit, Summary
from tidemark.protocol.changelog.compacted_commit import CompactedCommit
from tidemark.protocol.changelog.summaries import advance
from tidemark.spark_sink.tables.store_place import StorePlace

_COMMITS_KEPT = 4096

_MARK_DIGITS = 15
"""Hexadecimal digits of a hash that fit a signed number of 64 bits, in which tables can state it."""

QUIET_COMMITS = 1000
"""After this many commits without an event of a table a batch without rows ends, so that a restart skips them."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a batch. A single commit may exceed them, since a batch never splits a commit.

    Attributes:
        events: The most events.
        size: The most bytes of events, uncompressed.
        quiet: After so many commits without an event of the table, a batch without rows ends.
    """

    events: int | None = None
    size: int | None = None
    quiet: int = QUIET_COMMITS

    def exceeded_by(self, events: int, size: int) -> bool:
        """Whether events and bytes exceed the limits."""
        return (self.events is not None and events > self.events) or (self.size is not None and size > self.size)


class FollowedLog(ChangeLog):
    """A change log for a process that lives as long as a query. It keeps the newest commits that it has read.

    Args:
        place: The change log's.
        commits_kept: The most commits in memory.

    Attributes:
        at: Its place, which tasks get.
    """

    def __init__(self, place: StorePlace | Path | str, commits_kept: int = _COMMITS_KEPT) -> None:
        self.at = place if isinstance(place, StorePlace) else StorePlace.of(place)
        super().__init__(self.at.store)
        self._commits_kept = commits_kept
        self._kept: dict[int, Commit] = {}
        self._marks: dict[int, int] = {}
        self._at = Summary(number=-1, epoch=0, time=self.header.created, next_offset=0)

    def commit(self, number: int) -> Commit:
        if self.replacement_of(number) is not None:
            return super().commit(number)  # Segments of its own commits may be gone.
        kept = self._kept.get(number)
        if kept is None:
            kept = super().commit(number)
            if isinstance(kept, CompactedCommit):
                return kept
            if len(self._kept) >= self._commits_kept:
                del self._kept[next(iter(self._kept))]
            self._kept[number] = kept
        return kept

    def summary_at(self, end: int) -> Summary:
        """The log up to the last commit that ends at an offset; up to the first event where that is 0.

        Where no commit ends there, it is the log up to the commit that has the event before. Of its
        generations it has those that had begun by then, and that were whole or had ended by then.
        """
        following = self.commit_with_offset(end)
        inside = following <= self.latest() and (not end or self.commit(following).first_offset < end)
        if inside and end:
            return advance(self._summary_after(following - 1), _cut(self.commit(following), end))
        return self._summary_after(following if inside else following - 1)

    def _summary_after(self, number: int) -> Summary:
        if self._at.number != number:
            self._at = self.summary(number)
        return self._at

    def mark(self, offset: int) -> int:
        """What tells the log up to an offset, the edge of a commit, from another log that has the same offset.

        It is a number made of the hash of the first commit that ends there: a log that was restored from a copy, and
        has grown since, has other commits under the same numbers.

        Returns:
            0 for offset 0, and where the log has no commit that ends there.
        """
        if offset not in self._marks:
            digest = self.edge_digest(offset) if offset else ""
            if not digest:
                return 0
            # Most tables are at one offset, which the next batch moves.
            self._marks = {offset: int(digest[:_MARK_DIGITS], 16)}
        return self._marks[offset]

    def cut(self, start: int, limits: Limits, ceiling: int, collection: str) -> int:
        """The end of the batch that starts at ``start``: a commit boundary within the limits, at most ``ceiling``.

        Args:
            start: The first offset of the batch.
            limits: The limits of the batch, which always has at least one commit.
            ceiling: A commit boundary.
            collection: The collection whose events count.

        Returns:
            ``start`` if there is nothing to read.
        """
        events = size = quiet = 0
        position = start
        commits = self.commits(self.commit_with_offset(start))
        for end, rows, length in (one for commit in commits for one in _ends(commit, collection, start)):
            if end > ceiling or (events and limits.exceeded_by(events + rows, size + length)):
                break
            events, size = events + rows, size + length
            quiet += not rows
            position = max(position, end)
        return position if events or quiet >= limits.quiet else start


def _ends(commit: Commit, collection: str, start: int) -> Iterator[tuple[int, int, int]]:
    """Where a commit ends, or each of those that were compacted, with the events of a collection and their bytes."""
    segments = [s for s in commit.segments if s.collection == collection and s.last_offset >= start]
    rows, size = sum(s.rows for s in segments), sum(s.uncompressed for s in segments)
    if not isinstance(commit, CompactedCommit):
        yield commit.next_offset, rows, size
        return
    place = commit.collections.index(collection) if collection in commit.collections else -1
    for edge in commit.edges:
        if edge.next_offset > start:
            found = edge.rows.get(place, 0)
            yield edge.next_offset, found, size * found // rows if rows else 0


def _cut(commit: Commit, end: int) -> Commit:
    """A commit, with what was known of its generations before the event at an offset."""
    if isinstance(commit, CompactedCommit):
        return commit.up_to(end)
    begun = [one for one in commit.generations if one.begin < end or one.number == 1]
    segments = [one for one in commit.segments if one.generation is not None or one.first_offset < end]
    stated = [one if one.whole is None or one.whole <= end else one.model_copy(update={"whole": None}) for one in begun]
    return commit.model_copy(update={"generations": stated, "segments": segments})
