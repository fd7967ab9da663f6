"""Reads a change log's commits. Knows nothing of Parquet: it says which segments hold which offsets.

A reader never skips: a commit that is missing or damaged is an error that names the file.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from tidemark.protocol.changelog import layout
from tidemark.protocol.changelog.commit_files import CommitFiles
from tidemark.protocol.changelog.compacted_commit import EDGE_DIGITS, CompactedCommit
from tidemark.protocol.changelog.log_start import LogStart
from tidemark.protocol.changelog.models import Commit, Replacement, Segment, Summary, TableSchema
from tidemark.protocol.changelog.summaries import advance
from tidemark.protocol.errors import ChangeLogError
from tidemark.protocol.store import Store
from tidemark.protocol.store.local import DirectoryStore

T = TypeVar("T")

_REQUESTS = 16
"""Commits that are asked of an object store at once: each answer takes its time."""


class ChangeLog:
    """A change log in a directory or an object store.

    It remembers what it has read, and commits never change, so asking again costs only what is new. Keep one object
    where you poll.

    Args:
        place: The store or the directory that holds ``tidemark.json``.

    Attributes:
        store: That holds the log.
        header: What it is.

    Raises:
        ChangeLogError: ``TM-LOG-001`` no log there, ``TM-LOG-002`` a damaged file, ``TM-LOG-003`` a newer format,
            ``TM-LOG-012`` an older one, ``TM-LOG-011`` a file that cannot be read.
    """

    def __init__(self, place: Store | Path | str) -> None:
        self.store = place if isinstance(place, Store) else DirectoryStore(place)
        self._files = CommitFiles(self.store)
        self.header = self._files.header
        self._latest: int | None = None
        self._summary = self._nothing()

    @property
    def root(self) -> Path:
        """The directory of a log that is in one, as those who write it know."""
        directory = self.store.directory
        if directory is None:
            raise ValueError(f"{self.store.place} is in no directory")
        return directory

    def latest(self) -> int:
        """The number of the newest commit; -1 when there is none.

        The first call lists the directory unless ``resume`` was called; later ones look for the next numbers only.

        Raises:
            ChangeLogError: ``TM-LOG-004`` when a number is missing below it.
        """
        known, number = self._latest, self._files.newest(self._latest)
        if number >= 0:
            self._latest = number
        if known is None or number // layout.SUMMARY_EVERY > known // layout.SUMMARY_EVERY:
            # It says which commits were replaced: a process may have read theirs, and not these since.
            self._files.stored_summary(-1, number)
        return number

    @property
    def replacements(self) -> list[Replacement]:
        """The ranges of commits for which one file stands, as far as was seen. It grows with what is read."""
        return self._files.replacements

    @property
    def log_start(self) -> LogStart:
        """Where the log begins, as far as was seen. It moves with what is read."""
        return self._files.log_start

    def resume(self, number: int) -> None:
        """Begins to look for commits behind one up to which an earlier reader found them all, instead of by a listing.

        A listing costs more the longer the log is. Where that commit is not there any more, the directory is listed.
        """
        if self._latest is None and number >= 0 and self._files.exists(number):
            self._latest = number
            self._files.stored_summary(-1, number)  # It says where the log begins.

    def commit(self, number: int) -> Commit:
        """One commit; where it was compacted with others, all of them as one: a ``CompactedCommit``.

        Raises:
            ChangeLogError: ``TM-LOG-002`` when it is damaged, ``TM-LOG-004`` when it is missing, ``TM-LOG-018`` when it
                is not kept any more.
        """
        return self._files.commit(number)

    def find_replacements(self) -> None:
        """Reads which commits were replaced or removed so far. Raises as ``summary``."""
        self._files.learn()

    def replacement_of(self, number: int) -> Replacement | None:
        """What is known to stand for a commit."""
        return self._files.replacement_of(number)

    def digest(self, number: int) -> str:
        """The SHA-256 of a commit's file, in hexadecimal digits; empty where there is no such commit.

        A log that was restored from a copy, and has grown since, has other commits under the same numbers.

        Raises:
            ChangeLogError: ``TM-LOG-011`` when the file cannot be read.
        """
        return self._files.digest(number)

    def edge_digest(self, offset: int) -> str:
        """The hash of the first commit that ends at an offset, its first ``EDGE_DIGITS`` digits.

        It is empty where there is no such commit, and where it is not kept any more.
        """
        number = self._first(lambda known: bisect_left(known, offset, key=self._next_offset))
        if self.log_start.number and offset <= self.log_start.offset:
            return self.log_start.digest if offset == self.log_start.offset else ""
        if number > self.latest():
            return ""
        commit = self.commit(number)
        if isinstance(commit, CompactedCommit):
            place = bisect_left(commit.edges, offset, key=lambda edge: edge.next_offset)
            found = commit.edges[place] if place < len(commit.edges) else None
            return found.digest if found is not None and found.next_offset == offset else ""
        return self.digest(number)[:EDGE_DIGITS] if commit.next_offset == offset else ""

    def commits(self, first: int | None = None, last: int | None = None) -> Iterator[Commit]:
        """Commits ``first`` to ``last`` inclusive; from the first that is kept, to the newest, when they are None.

        Compacted ones come as one, also where only some of them are asked for.
        """
        end = self.latest() if last is None else last
        if first is None:
            first = self.log_start.number
        if self.store.directory is not None or end - first < 1:
            number = first
            while number <= end:
                commit = self.commit(number)
                yield commit
                number = commit.number + 1
            return
        newest = first - 1
        with ThreadPoolExecutor(_REQUESTS, thread_name_prefix="commits") as requests:
            while newest < end:
                for commit in requests.map(self.commit, self._next_numbers(newest + 1, end)):
                    if commit.number > newest:  # Otherwise it was compacted with the one before meanwhile.
                        yield commit
                        newest = commit.number

    def _next_numbers(self, first: int, last: int) -> list[int]:
        """The numbers of the next commits, as many as are asked for at once; of compacted ones the first."""
        found: list[int] = []
        number = first
        while number <= last and len(found) < _REQUESTS:
            found.append(number)
            compacted = self.replacement_of(number)
            number = number + 1 if compacted is None else compacted.last + 1
        return found

    def summary(self, at: int | None = None) -> Summary:
        """Everything up to commit ``at`` (the newest by default): the newest stored summary and the commits after it.

        Of compacted commits it has all or none. Returns a summary of number -1 for a log without commits. Raises as
        ``commit``.
        """
        last = self.latest() if at is None else at
        return self._known(lambda: self._summary_of(last))

    def _summary_of(self, last: int) -> Summary:
        summary = self._summary
        if summary.number > last:
            summary = self._nothing()
        summary = self._files.stored_summary(summary.number, last) or summary
        compacted = self.replacement_of(summary.number)
        if compacted is not None and summary.number < compacted.last:  # Its commits were compacted since.
            summary = self._files.stored_summary(-1, compacted.first - 1) or self._nothing()
        for commit in self.commits(summary.number + 1, last):
            summary = advance(summary, commit)
        if summary.number > self._summary.number:
            self._summary = summary
        return summary

    def _nothing(self) -> Summary:
        return Summary(number=-1, epoch=0, time=self.header.created, next_offset=0)

    def _next_offset(self, number: int) -> int:
        compacted = self.replacement_of(number)
        return self.commit(number).next_offset if compacted is None else compacted.next_offset

    def start(self) -> int:
        """The offset of the first event that is kept, or what it would be."""
        self.latest()
        return self.log_start.offset

    def end(self) -> int:
        """One past the offset of the newest event."""
        newest = self.latest()
        return self.commit(newest).next_offset if newest >= 0 else 0

    def commit_with_offset(self, offset: int) -> int:
        """The first commit whose events are not all below ``offset``; one past the newest when there is none.

        Of compacted commits that have such an event it is the first.

        Raises:
            ChangeLogError: ``TM-LOG-018`` when events from the offset on are not kept any more; others as ``commit``.
        """
        number = self._first(lambda known: bisect_right(known, offset, key=self._next_offset))
        self.log_start.check_offset(offset, self.store.place)
        return number

    def offset_at(self, instant: datetime) -> int:
        """The offset of the first event that reached the log at ``instant`` or later; the end when there is none.

        Of the events that are kept: those before the start of the log do not count.
        """
        number = self._first(lambda known: bisect_left(known, instant, key=lambda number: self.commit(number).time))
        if number > self.latest():
            return self.end()
        commit = self.commit(number)
        if isinstance(commit, CompactedCommit):
            place = bisect_left(commit.edges, instant, key=lambda edge: edge.time)
            return commit.edges[place - 1].next_offset if place else commit.first_offset
        return commit.first_offset

    def _first(self, place_in: Callable[[range], int]) -> int:
        """The commit at the place that is found among those of the log; one past the newest for none."""
        end = self.latest() + 1
        return self._known(lambda: self.log_start.number + place_in(range(self.log_start.number, end)))

    def _known(self, ask: Callable[[], T]) -> T:
        """What is asked of the log. It is asked again where the log turns out to begin later than was known."""
        while True:
            start = self.log_start
            try:
                return ask()
            except ChangeLogError as error:
                if error.code != "TM-LOG-018" or self.log_start == start:
                    raise

    def time_of(self, offset: int) -> datetime:
        """When the event at an offset reached the log. Raises as ``commit_with_offset``."""
        commit = self.commit(self.commit_with_offset(offset))
        if isinstance(commit, CompactedCommit):
            return commit.edges[bisect_right(commit.edges, offset, key=lambda edge: edge.next_offset)].time
        return commit.time

    def segments(self, collection: str, start: int, end: int) -> Iterator[Segment]:
        """Segments of a collection with events in ``[start, end)``, in offset order.

        A segment at an edge may hold events outside: filter rows by ``_offset``. ``file`` gives the path of its file.
        Raises as ``commit_with_offset``.
        """
        return (segment for _, segment in self.segments_of_all(start, end) if segment.collection == collection)

    def segments_of_all(self, start: int, end: int) -> Iterator[tuple[int, Segment]]:
        """Segments of every collection with events in ``[start, end)``, with the numbers of their commits."""
        for commit in self.commits(self.commit_with_offset(start)):
            if commit.first_offset >= end:
                return
            for segment in commit.segments:
                if segment.last_offset >= start and segment.first_offset < end:
                    yield commit.number, segment

    def file(self, segment: Segment) -> Path:
        """The path of a segment's file, which has the size, the rows and the offsets that the log says.

        Raises:
            ChangeLogError: ``TM-LOG-009`` when it is missing, damaged, or the file of another segment, ``TM-LOG-011``
                when it cannot be read.
        """
        from tidemark.protocol.changelog.segment_files import SegmentFile  # Arrow takes long to load.

        SegmentFile.of(segment).check(self.store)
        return self.root / segment.path

    def schema(self, fingerprint: str) -> TableSchema:
        """A schema of this log by fingerprint. Raises ``TM-LOG-002`` when no commit introduced it."""
        known = self._summary.schemas.get(fingerprint) or self.summary().schemas.get(fingerprint)
        if known is None:
            raise ChangeLogError("TM-LOG-002", f"{self.store.place}: no commit introduces the schema {fingerprint}")
        return known
