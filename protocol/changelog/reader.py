"""Reads a change log's commits. Knows nothing of Parquet: it says which segments hold which offsets.

A reader never skips: a commit that is missing or damaged is an error that names the file.
"""

from __future__ import annotations

import hashlib
import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from tidemark.protocol.changelog import layout
from tidemark.protocol.changelog.models import (
    FORMAT_VERSION,
    READ_VERSIONS,
    Commit,
    LogHeader,
    Segment,
    Summary,
    TableSchema,
)
from tidemark.protocol.changelog.summaries import advance, with_generations
from tidemark.protocol.changelog.unreadable import unreadable
from tidemark.protocol.errors import ChangeLogError
from tidemark.protocol.store import Store
from tidemark.protocol.store.local import DirectoryStore

M = TypeVar("M", bound=BaseModel)

_AHEAD = (*range(2, 17), *(1 << step for step in range(5, 17)))
"""A gap is looked for so many commits ahead, and as many summaries: questions after the file system, about a hundred
microseconds together. A listing costs more the longer the log is."""

_REQUESTS = 16
"""Commits that are asked of an object store at once: each answer takes its time."""


class _Version(BaseModel):
    """What the header of every version has."""

    format_version: int


class ChangeLog:
    """A change log in a directory or an object store.

    It remembers what it has read, and commits never change, so asking again costs only what is new. Keep one object
    where you poll.

    Args:
        place: The store or the directory that holds ``tidemark.json``.

    Attributes:
        store: That holds the log.

    Raises:
        ChangeLogError: ``TM-LOG-001`` no log there, ``TM-LOG-002`` a damaged file, ``TM-LOG-003`` a newer format,
            ``TM-LOG-012`` an older one, ``TM-LOG-011`` a file that cannot be read.
    """

    def __init__(self, place: Store | Path | str) -> None:
        self.store = place if isinstance(place, Store) else DirectoryStore(place)
        self.header = self._header()
        self._latest: int | None = None
        self._summary = Summary(number=-1, epoch=0, time=self.header.created, next_offset=0)

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
        number = self._listed() if self._latest is None else self._latest
        if self.store.directory is None:
            number = self._listed_after(number)
        else:
            while self._exists(self._path(number + 1)) or self._has_gap(number):
                number += 1
        if number >= 0:
            self._latest = number
        return number

    def _has_gap(self, number: int) -> bool:
        """Makes sure that the newest commit is not one behind which others are missing.

        It looks a few numbers ahead, and then ever further. So it finds any gap of up to 15 commits, any that as many
        commits follow as are in it, and nearly any behind which a summary is left.

        Returns:
            False; True if the commit after this one has come meanwhile.

        Raises:
            ChangeLogError: ``TM-LOG-004``, which names the first commit that is missing.
        """
        folder = f"{self.store.where(layout.COMMITS)}{os.sep}"
        summary = number - number % layout.SUMMARY_EVERY
        names = (
            name
            for step in _AHEAD
            for name in (
                layout.commit_name(number + step),
                layout.summary_name(summary + (step - 1) * layout.SUMMARY_EVERY),
            )
        )
        # As text: these questions are asked at each look, and a Path costs several times as much.
        if not any(os.path.exists(folder + name) for name in names):  # noqa: PTH110
            return False
        if not self._exists(self._path(number + 1)):
            raise self._missing(number + 1)
        return True

    def _listed_after(self, number: int) -> int:
        """The newest commit of an object store, where one request shows all that come after one that is known."""
        try:
            after = self._path(number) if number >= 0 else layout.COMMITS
            for entry in self.store.list(layout.COMMITS, after=after):
                found = layout.commit_number(entry.path.rpartition("/")[2])
                if found is None:
                    break  # Summaries come after all commits.
                if found != number + 1:
                    raise self._missing(number + 1)
                number = found
        except OSError as error:
            raise self._unreadable(layout.COMMITS, error) from None
        return number

    def resume(self, number: int) -> None:
        """Begins to look for commits behind one up to which an earlier reader found them all, instead of by a listing.

        A listing costs more the longer the log is. Where that commit is not there any more, the directory is listed.
        """
        if self._latest is None and number >= 0 and self._exists(self._path(number)):
            self._latest = number

    def commit(self, number: int) -> Commit:
        """One commit.

        Raises:
            ChangeLogError: ``TM-LOG-002`` when it is damaged, ``TM-LOG-004`` when it is missing, ``TM-LOG-003`` when it
                replaces segments.
        """
        path = self._path(number)
        commit = self._load(path, Commit)
        if commit.number != number:
            raise ChangeLogError("TM-LOG-002", f"{self.store.where(path)} claims to be commit {commit.number}")
        if commit.replacements:
            raise self._replaced(path)
        return commit

    def digest(self, number: int) -> str:
        """The SHA-256 of a commit's file, in hexadecimal digits; empty where there is no such commit.

        A log that was restored from a copy, and has grown since, has other commits under the same numbers.

        Raises:
            ChangeLogError: ``TM-LOG-011`` when the file cannot be read.
        """
        path = self._path(number)
        try:
            return digest_of(self.store.read(path))
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise self._unreadable(path, error) from None

    def commits(self, first: int = 0, last: int | None = None) -> Iterator[Commit]:
        """Commits ``first`` to ``last`` inclusive, to the newest when ``last`` is None."""
        numbers = range(first, (self.latest() if last is None else last) + 1)
        if self.store.directory is not None or len(numbers) < 2:
            yield from map(self.commit, numbers)
            return
        with ThreadPoolExecutor(_REQUESTS, thread_name_prefix="commits") as requests:
            for start in range(0, len(numbers), _REQUESTS):
                yield from requests.map(self.commit, numbers[start : start + _REQUESTS])

    def summary(self, at: int | None = None) -> Summary:
        """Everything up to commit ``at`` (the newest by default): the newest stored summary and the commits after it.

        Returns a summary of number -1 for a log without commits. Raises as ``commit``.
        """
        last = self.latest() if at is None else at
        summary = self._summary
        if summary.number > last:
            summary = Summary(number=-1, epoch=0, time=self.header.created, next_offset=0)
        summary = self._stored_summary(summary.number, last) or summary
        for commit in self.commits(summary.number + 1, last):
            summary = advance(summary, commit)
        if summary.number > self._summary.number:
            self._summary = summary
        return summary

    def end(self) -> int:
        """One past the offset of the newest event."""
        newest = self.latest()
        return self.commit(newest).next_offset if newest >= 0 else 0

    def commit_with_offset(self, offset: int) -> int:
        """The first commit whose events are not all below ``offset``; one past the newest when there is none."""
        return bisect_right(range(self.latest() + 1), offset, key=lambda number: self.commit(number).next_offset)

    def offset_at(self, instant: datetime) -> int:
        """The offset of the first event that reached the log at ``instant`` or later; the end when there is none."""
        number = bisect_left(range(self.latest() + 1), instant, key=lambda number: self.commit(number).time)
        return self.commit(number).first_offset if number <= self.latest() else self.end()

    def segments(self, collection: str, start: int, end: int) -> Iterator[Segment]:
        """Segments of a collection with events in ``[start, end)``, in offset order.

        A segment at an edge may hold events outside: filter rows by ``_offset``. ``file`` gives the path of its file.
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

    def _header(self) -> LogHeader:
        path = layout.HEADER
        try:
            # First the version alone: another version's header may have fields that this one does not know.
            version = self._load(path, _Version).format_version
            if version not in READ_VERSIONS:
                known = " and ".join(map(str, READ_VERSIONS))
                raise ChangeLogError(
                    "TM-LOG-003" if version > FORMAT_VERSION else "TM-LOG-012",
                    f"{self.store.place} has format version {version}; this version reads {known}",
                )
            return self._load(path, LogHeader)
        except ChangeLogError as error:
            if error.code != "TM-LOG-004":
                raise
            raise ChangeLogError("TM-LOG-001", f"{self.store.place} holds no change log (no {layout.HEADER})") from None

    def _path(self, number: int) -> str:
        return f"{layout.COMMITS}/{layout.commit_name(number)}"

    def _listed(self) -> int:
        """The newest commit by a listing of the directory; -1 when there is none, or for an object store."""
        if self.store.directory is None:
            return -1
        folder = self.store.where(layout.COMMITS)
        try:
            # As text alone: a log may have a commit for every second that it has lived.
            with os.scandir(folder) as entries:
                names = layout.commit_names(entry.name for entry in entries)
        except FileNotFoundError:
            return -1
        except OSError as error:
            raise self._unreadable(layout.COMMITS, error) from None
        newest = layout.commit_number(max(names, default=""))
        if newest is None:
            return -1
        if len(names) != newest + 1:
            listed = set(names)
            for number in range(newest):
                # A listing is no snapshot: it may show a new file and not the one made just before it. So look again.
                if layout.commit_name(number) not in listed and not self._exists(self._path(number)):
                    raise self._missing(number)
        return newest

    def _stored_summary(self, above: int, last: int) -> Summary | None:
        """The newest stored summary of a commit in ``(above, last]``.

        Usually the newest due one is there; it is missing when its writer died between the commit and the summary.
        """
        for number in range(last - last % layout.SUMMARY_EVERY, above, -layout.SUMMARY_EVERY):
            path = f"{layout.COMMITS}/{layout.summary_name(number)}"
            if self._exists(path):
                summary = self._load(path, Summary)
                if summary.number != number:
                    raise ChangeLogError(
                        "TM-LOG-002", f"{self.store.where(path)} claims to be the summary of commit {summary.number}"
                    )
                if summary.replaced:
                    raise self._replaced(path)
                return with_generations(summary)
        return None

    def _load(self, path: str, model: type[M]) -> M:
        where = self.store.where(path)
        try:
            return model.model_validate_json(self.store.read(path))
        except (FileNotFoundError, NotADirectoryError):
            raise ChangeLogError("TM-LOG-004", f"{where} is missing") from None
        except OSError as error:
            raise self._unreadable(path, error) from None
        except ValidationError as error:
            first = error.errors(include_input=False)[0]
            place = ".".join(map(str, first["loc"])) or "the file"
            raise ChangeLogError("TM-LOG-002", f"{where} is damaged: {place}: {first['msg']}") from None

    def _exists(self, path: str) -> bool:
        try:
            return self.store.exists(path)
        except OSError as error:
            raise self._unreadable(path, error) from None

    def _missing(self, number: int) -> ChangeLogError:
        return ChangeLogError("TM-LOG-004", f"{self.store.where(self._path(number))} is missing")

    def _replaced(self, path: str) -> ChangeLogError:
        """Files of earlier commits may be gone, and what stands for them is not looked for here."""
        where = self.store.where(path)
        return ChangeLogError("TM-LOG-003", f"{where} has replacements of segments, which this version cannot read")

    def _unreadable(self, path: str, error: OSError) -> ChangeLogError:
        return unreadable(self.store.where(path), error)


def digest_of(commit: bytes) -> str:
    """The SHA-256 of a commit's file, as ``Commit.previous`` has it."""
    return hashlib.sha256(commit).hexdigest()
