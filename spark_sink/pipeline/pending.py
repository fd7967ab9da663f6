"""The segments that tables lack, by collection. Each commit of the log is read once."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from tidemark.protocol.changelog import Segment
from tidemark.spark_sink.source.followed_log import FollowedLog


@dataclass(frozen=True, slots=True)
class Committed:
    """A segment, and the time of its commit."""

    segment: Segment
    time: datetime


class Pending:
    """The segments from an offset on, a commit's edge, by collection. It follows the log as the log grows."""

    def __init__(self, log: FollowedLog, start: int) -> None:
        self.start = self.end = max(start, log.start())
        self._log = log
        self._replacements = {one.path for one in log.replacements}
        self._segments: dict[str, list[Committed]] = {}
        self._dropped: dict[str, int] = {}

    @property
    def is_outdated(self) -> bool:
        """Whether other files stand for commits that it has read: the segments that it knows may be gone."""
        return any(
            one.path not in self._replacements and self.start < one.next_offset and one.first_offset < self.end
            for one in self._log.replacements
        )

    def follow(self) -> None:
        """Reads the commits that are new.

        Raises:
            ChangeLogError: A commit is missing or damaged.
        """
        self.end = max(self.end, self._log.start())
        for commit in self._log.commits(self._log.commit_with_offset(self.end)):
            for segment in commit.segments:
                self._segments.setdefault(segment.collection, []).append(Committed(segment, commit.time))
            self.end = max(self.end, commit.next_offset)

    def reaches_back(self, collection: str, offset: int) -> bool:
        """Whether all segments of a collection from an offset on are known, as far as the log has them."""
        return max(self.start, self._dropped.get(collection, 0)) <= max(offset, self._log.log_start.offset)

    def between(self, collection: str, start: int, end: int) -> Sequence[Committed]:
        """A collection's segments with events in ``[start, end)``, in offset order."""
        if start >= end:
            return ()  # A segment that was compacted may have it inside.
        listed = self._segments.get(collection, [])
        first = bisect_left(listed, start, key=lambda found: found.segment.last_offset)
        last = bisect_right(listed, end - 1, key=lambda found: found.segment.first_offset)
        return listed[first:last]

    def drop(self, collection: str, below: int) -> None:
        """Forgets the segments of a collection that end below an offset."""
        listed = self._segments.get(collection)
        if listed:
            del listed[: bisect_left(listed, below, key=lambda found: found.segment.last_offset)]
            self._dropped[collection] = max(below, self._dropped.get(collection, 0))
