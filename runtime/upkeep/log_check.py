"""Reads all of a change log, and names each file that is not as it was written, with the events that are lost."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import ValidationError

from tidemark.protocol.changelog import ChangeLog, layout
from tidemark.protocol.changelog.commit_files import digest_of
from tidemark.protocol.changelog.compacted_commit import CompactedCommit
from tidemark.protocol.changelog.models import Commit, Replacement, Segment, Summary, TableSchema
from tidemark.protocol.changelog.summaries import advance, with_generations
from tidemark.protocol.changelog.unreadable import unreadable
from tidemark.protocol.errors import ChangeLogError
from tidemark.runtime.upkeep.segment_check import check_segment

AT_ONCE = 8
"""Commits that are read side by side with their segments: a request to an object store takes its time."""


_AWAY = "TM-LOG-017"

_TOLD_LATER = ("TM-LOG-002", "TM-LOG-004")
"""Damage that is found again where all is read in order."""


@dataclass(frozen=True, slots=True)
class Damage:
    """A file that is damaged or missing.

    Attributes:
        error: What is wrong with it.
        lost: The events in it: the offset of the first, and one past the last. None if none is lost.
        rows: How many events these are, if they are of one table.
        collection: That table's collection; empty for all tables.
    """

    error: ChangeLogError
    lost: tuple[int, int] | None = None
    rows: int = 0
    collection: str = ""


@dataclass(slots=True)
class Checked:
    """What was read.

    Attributes:
        commits: How many there are, the damaged ones and those that others stand for among them.
        summaries: Likewise.
        segments: Likewise, as far as commits name them.
        events: Rows of segments that are whole.
        bytes: Of the files of all segments.
        tables: By name of the collection.
        unnamed: Segments that no commit names. Writers that were killed left them, and the next one removes them; or
            they were replaced or removed, and go after their grace.
    """

    commits: int = 0
    summaries: int = 0
    segments: int = 0
    events: int = 0
    bytes: int = 0
    tables: set[str] = field(default_factory=set)
    unnamed: int = 0


@dataclass(frozen=True, slots=True)
class _Read:
    """A commit's file: its hash and its content, or why it has none. Of compacted ones the last number and hash."""

    number: int
    digest: str = ""
    commit: Commit | None = None
    error: ChangeLogError | None = None


class LogCheck:
    """One check of one log, which may be written meanwhile: later commits are not looked at.

    Memory does not grow with the log, but for its schemas.

    Args:
        log: The log.

    Attributes:
        checked: What was read so far.
    """

    def __init__(self, log: ChangeLog) -> None:
        self.checked = Checked()
        self._log = log
        self._store = log.store
        self._summary = Summary(number=-1, epoch=0, time=log.header.created, next_offset=0)
        self._follows = True  # The summary is that of all commits so far.
        self._digest = ""
        self._schemas: dict[str, TableSchema] = {}
        self._missing = 0

    def damages(self) -> Iterator[Damage]:
        """Reads everything, and yields what is wrong in the order of the log.

        Raises:
            ChangeLogError: ``TM-LOG-017`` the store does not answer, ``TM-LOG-011`` a folder cannot be read.
        """
        try:
            self._log.find_replacements()
        except ChangeLogError as error:
            if error.code not in _TOLD_LATER:
                raise
        newest, summaries = self._listed()
        yield from self._before_start()
        # Of a commit that is lost, later summaries have the schemas.
        for number in sorted(summaries)[-1:]:
            stored = self._stored(number)
            self._schemas |= stored.schemas if isinstance(stored, Summary) else {}
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="check") as readers:
            files = self._files(newest)
            for first in range(0, len(files), AT_ONCE):
                reads = list(readers.map(self._read, files[first : first + AT_ONCE]))
                looks: list[list[Future[pa.Array[Any]]]] = []
                for read in reads:
                    self._schemas |= read.commit.schemas if read.commit is not None else {}
                    segments = read.commit.segments if read.commit is not None else []
                    looks.append(
                        [
                            readers.submit(check_segment, self._store, one, self._schemas.get(one.fingerprint))
                            for one in segments
                        ]
                    )
                for place, read in enumerate(reads):
                    yield from self._chain(read, newest)
                    if read.commit is not None:
                        yield from self._segments(read.commit, looks[place])
                    if read.number in summaries:
                        yield from self._stored_summary(read.number)
        self.checked.unnamed = self._data_files(newest) - self.checked.segments + self._missing

    def _before_start(self) -> Iterator[Damage]:
        """Whether it is known what the commits came to that are not kept any more."""
        start = self._log.log_start
        if not start.number:
            return
        stored = self._stored(start.number - 1)
        if isinstance(stored, Summary):
            self._summary = with_generations(stored)
            self._schemas |= stored.schemas
            return
        self._follows = False
        self._summary = self._summary.model_copy(update={"number": start.number - 1, "next_offset": start.offset})
        yield Damage(stored)

    def _listed(self) -> tuple[int, set[int]]:
        """The number of the newest commit, and those of the commits that have a summary."""
        commits, summaries = -1, set()
        for name in self._names(layout.COMMITS):
            if (number := layout.commit_number(name)) is not None:
                commits = max(commits, number)
            elif (number := layout.summary_number(name)) is not None:
                summaries.add(number)
        # A writer may have come further while it was listed. What was replaced or removed is deleted sooner or later.
        first = self._log.log_start.number
        summaries = {n for n in summaries if first - 1 <= n <= commits and self._is_kept(n)}
        self.checked.commits, self.checked.summaries = commits + 1 - first, len(summaries)
        return commits, summaries

    def _is_kept(self, summary: int) -> bool:
        one = self._replacement(summary)
        return one is None or summary == one.last

    def _replacement(self, number: int) -> Replacement | None:
        return self._log.replacement_of(number)

    def _files(self, newest: int) -> list[int | Replacement]:
        """What has the commits: their own files by number, or what stands for them."""
        found: list[int | Replacement] = []
        number = self._log.log_start.number
        while number <= newest:
            one = self._replacement(number)
            found.append(number if one is None else one)
            number = number + 1 if one is None else one.last + 1
        return found

    def _data_files(self, newest: int) -> int:
        names = list(self._names(layout.DATA))
        origins = (layout.segment_origin(name) or layout.joined_segment_origin(name) for name in names)
        return sum(origin is not None and origin[0] <= newest for origin in origins)

    def _names(self, folder: str) -> Iterator[str]:
        try:
            for entry in self._store.list(folder):
                yield entry.path.rpartition("/")[2]
        except OSError as error:
            raise unreadable(self._store.where(folder), error) from None

    def _read(self, file: int | Replacement) -> _Read:
        number, path = (file, layout.commit_path(file)) if isinstance(file, int) else (file.last, file.path)
        where = self._store.where(path)
        try:
            data = self._store.read(path)
            if isinstance(file, Replacement) and digest_of(data) != file.digest:
                what = f"{where} is damaged: it is not the file that the log names"
                return _Read(number, error=ChangeLogError("TM-LOG-002", what))
            commit = (Commit if isinstance(file, int) else CompactedCommit).model_validate_json(data)
        except FileNotFoundError:
            return _Read(number, error=ChangeLogError("TM-LOG-004", f"{where} is missing"))
        except OSError as error:
            return _Read(number, error=_told(where, error))
        except ValidationError as error:
            return _Read(number, error=ChangeLogError("TM-LOG-002", f"{where} is damaged: {_first(error)}"))
        if commit.number != number:
            return _Read(number, error=ChangeLogError("TM-LOG-002", f"{where} claims to be commit {commit.number}"))
        return _Read(number, commit.last_digest if isinstance(commit, CompactedCommit) else digest_of(data), commit)

    def _chain(self, read: _Read, newest: int) -> Iterator[Damage]:
        """Whether a commit is whole, and follows the one before."""
        before, self._digest = self._digest, read.digest
        commit = read.commit
        if commit is None:
            assert read.error is not None, "one of both"
            later = (self._read(file).commit for file in self._files(newest) if _last(file) > read.number)
            end = next((commit.first_offset for commit in later if commit is not None), None)
            start = self._summary.next_offset
            self._follows = False
            self._summary = self._summary.model_copy(update={"number": read.number, "next_offset": end or start})
            yield Damage(read.error, lost=(start, end) if end is not None and end > start else None)
            return
        if commit.previous and before and commit.previous != before:
            yield self._wrong(commit, f"it follows another commit {commit.number - 1} than the one that is there")
        try:
            self._summary = advance(self._summary, commit)
        except ChangeLogError as error:
            if self._follows:
                yield Damage(error)
            self._follows = False
            state = {"number": commit.number, "epoch": commit.epoch, "next_offset": commit.next_offset}
            self._summary = self._summary.model_copy(update=state)

    def _segments(self, commit: Commit, looks: list[Future[pa.Array[Any]]]) -> Iterator[Damage]:
        """Whether the segments of a commit hold its events, each once."""
        whole, parts = True, []
        for segment, look in zip(commit.segments, looks, strict=True):
            self.checked.segments += 1
            self.checked.bytes += segment.size
            self.checked.tables.add(segment.collection)
            try:
                parts.append(look.result())
                self.checked.events += segment.rows
            except ChangeLogError as error:
                if error.code == _AWAY:
                    raise
                whole = False
                self._missing += not self._exists(segment)
                lost = segment.first_offset, segment.last_offset + 1
                yield Damage(error, lost, segment.rows, segment.collection)
        count = commit.next_offset - commit.first_offset
        offsets = pa.chunked_array(parts, pa.int64())
        if not whole or (not count and not len(offsets)):
            return
        bounds: Any = pc.min_max(offsets)
        inside = len(offsets) and bounds["min"].as_py() >= commit.first_offset
        inside = inside and bounds["max"].as_py() < commit.next_offset
        if not inside or len(offsets) != count or pc.count_distinct(offsets).as_py() != count:
            yield self._wrong(commit, f"its segments do not hold each of its {count} events once")
        if isinstance(commit, CompactedCommit):
            rows: dict[str, int] = {}
            for segment in commit.segments:
                rows[segment.collection] = rows.get(segment.collection, 0) + segment.rows
            if rows != {one.collection: one.rows for one in commit.as_written()}:
                yield self._wrong(commit, "its commits have other events than its segments")

    def _exists(self, segment: Segment) -> bool:
        try:
            return self._store.exists(segment.path)
        except OSError:
            return True  # What is wrong with it was told.

    def _stored_summary(self, number: int) -> Iterator[Damage]:
        """Whether a stored summary is what the commits come to. Where one was lost, it goes on from the summary."""
        stored = self._stored(number)
        if isinstance(stored, ChangeLogError):
            yield Damage(stored)
            return
        if not self._follows:
            self._summary, self._follows = with_generations(stored), True
            return
        expected = self._summary
        if not stored.generations:  # Version 2 says nothing of them.
            expected = expected.model_copy(update={"generations": {}})
        if stored != expected:
            where = self._store.where(layout.summary_path(number))
            yield Damage(ChangeLogError("TM-LOG-002", f"{where} is damaged: the commits come to another summary"))

    def _stored(self, number: int) -> Summary | ChangeLogError:
        """A stored summary, or why it cannot be read."""
        where = self._store.where(layout.summary_path(number))
        try:
            return Summary.model_validate_json(self._store.read(layout.summary_path(number)))
        except OSError as error:
            return _told(where, error)
        except ValidationError as error:
            return ChangeLogError("TM-LOG-002", f"{where} is damaged: {_first(error)}")

    def _wrong(self, commit: Commit, what: str) -> Damage:
        one = self._replacement(commit.number)
        where = self._store.where(layout.commit_path(commit.number) if one is None else one.path)
        return Damage(ChangeLogError("TM-LOG-002", f"{where} is damaged: {what}"))


def _told(where: str, error: OSError) -> ChangeLogError:
    """Why a file cannot be read. Raises it where the store is away: that says nothing of the file."""
    found = unreadable(where, error)
    if found.code == _AWAY:
        raise found from None
    return found


def _last(file: int | Replacement) -> int:
    return file if isinstance(file, int) else file.last


def _first(error: ValidationError) -> str:
    """The first mistake in a file."""
    first = error.errors(include_input=False)[0]
    return f"{'.'.join(map(str, first['loc'])) or 'the file'}: {first['msg']}"
