"""The files of a change log's commits: which there are, what is in them, and which stand for others.

A commit that is missing or damaged is an error that names its file, unless compacted commits have its events.
"""

from __future__ import annotations

import hashlib
import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from threading import RLock
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from tidemark.protocol.changelog import layout
from tidemark.protocol.changelog.compacted_commit import CompactedCommit
from tidemark.protocol.changelog.log_start import LogStart, later_start
from tidemark.protocol.changelog.models import FORMAT_VERSION, READ_VERSIONS, Commit, LogHeader, Replacement, Summary
from tidemark.protocol.changelog.summaries import with_generations, with_replacements
from tidemark.protocol.changelog.unreadable import unreadable
from tidemark.protocol.errors import ChangeLogError
from tidemark.protocol.store import Store

M = TypeVar("M", bound=BaseModel)

_AHEAD = (*range(2, 17), *(1 << step for step in range(5, 17)))
"""A gap is looked for so many commits ahead, and as many summaries: questions after the file system, about a hundred
microseconds together. A listing costs more the longer the log is."""

_COMPACTED_KEPT = 8
"""Compacted commits in memory. One has some megabytes."""


class _Version(BaseModel):
    """What the header of every version has."""

    format_version: int


class CommitFiles:
    """The files of commits in a store. They never change, and are read by any thread.

    Attributes:
        header: Of the log.
        replacements: The ranges of commits for which one file stands, as far as was seen, in order.
        log_start: Where the log begins, as far as was seen.

    Raises:
        ChangeLogError: As ``ChangeLog``.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.header = self._header()
        self.replacements: list[Replacement] = []
        self.log_start = LogStart()
        self._compacted: dict[str, CompactedCommit] = {}
        self._newest_summary: Summary | None = None
        self._lock = RLock()

    # Which there are.

    def newest(self, known: int | None) -> int:
        """The number of the newest commit; -1 if there is none.

        Args:
            known: A commit up to which all were found before; None to list them all.

        Raises:
            ChangeLogError: ``TM-LOG-004`` if one is missing below it.
        """
        if self.store.directory is None:
            return self._listed_after(-1 if known is None else known)
        number = self._listed() if known is None else known
        while self.exists(number + 1):
            number += 1
        if not self._has_gap(number):
            return number
        listed = self._listed()
        if listed <= number:  # The newest commits are never replaced.
            raise self._missing(number + 1)
        return listed

    def exists(self, number: int) -> bool:
        """Whether a commit has a file of its own."""
        return self._exists(layout.commit_path(number))

    def _has_gap(self, number: int) -> bool:
        """Whether there are commits or summaries behind one that seems to be the newest.

        It looks a few numbers ahead, and then ever further. So it finds any gap of up to 15 commits, any that as many
        commits follow as are in it, and nearly any behind which a summary is left.
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
        return any(os.path.exists(folder + name) for name in names)  # noqa: PTH110

    def _listed(self) -> int:
        """The newest commit by a listing of the directory; -1 when there is none."""
        folder = self.store.where(layout.COMMITS)
        try:
            # As text alone: a log may have a commit for every second that it has lived.
            with os.scandir(folder) as entries:
                found = [entry.name for entry in entries]
        except FileNotFoundError:
            return -1
        except OSError as error:
            raise self._unreadable(layout.COMMITS, error) from None
        names = layout.commit_names(found)
        newest = layout.commit_number(max(names, default=""))
        if newest is None:
            return -1
        if len(names) != newest + 1 or any(map(layout.compacted_range, found)):
            self.learn(found)
        if len(names) != newest + 1:
            numbers = sorted(number for name in names if (number := layout.commit_number(name)) is not None)
            self._check_replaced(_gaps(-1, numbers))
        return newest

    def _listed_after(self, number: int) -> int:
        """The newest commit of an object store, where one request shows all that come after one that is known."""
        numbers = []
        try:
            after = layout.commit_path(number) if number >= 0 else layout.COMMITS
            for entry in self.store.list(layout.COMMITS, after=after):
                found = layout.commit_number(_name(entry.path))
                if found is None:
                    break  # Summaries and compacted commits come after all commits.
                numbers.append(found)
        except OSError as error:
            raise self._unreadable(layout.COMMITS, error) from None
        self._check_replaced(_gaps(number, numbers))
        return numbers[-1] if numbers else number

    def _check_replaced(self, gaps: Iterable[tuple[int, int]]) -> None:
        """Makes sure that commits without a file of their own were replaced, or removed. Raises ``TM-LOG-004``."""
        looked = False
        for first, last in gaps:
            number = first
            while number <= last:
                # A listing is no snapshot: it may show a new file and not the one made just before it. So look again.
                if number < self.log_start.number:
                    number = self.log_start.number - 1
                elif (one := self.replacement_of(number)) is not None:
                    number = one.last
                elif not self.exists(number):
                    if looked:
                        raise self._missing(number)
                    looked = True
                    self.learn()
                    continue
                number += 1

    # Which stand for others.

    def replacement_of(self, number: int) -> Replacement | None:
        """What is known to stand for a commit."""
        known = self.replacements
        place = bisect_right(known, number, key=lambda one: one.first) - 1
        return known[place] if place >= 0 and number <= known[place].last else None

    def learn(self, names: Iterable[str] | None = None) -> None:
        """Reads which commits were replaced or removed: the newest summary tells, and the commits after it.

        Args:
            names: Of the files of commits; by default they are listed.
        """
        with self._lock:
            try:
                found = names or [_name(entry.path) for entry in self.store.list(layout.COMMITS)]
            except OSError as error:
                raise self._unreadable(layout.COMMITS, error) from None
            newest = max((number for name in found if (number := layout.summary_number(name)) is not None), default=-1)
            if newest >= 0:
                self._note(self._summary(newest))
            for number in sorted(n for name in found if (n := layout.commit_number(name)) is not None and n > newest):
                self._note(self._own(number))

    def _note(self, found: Commit | Summary) -> None:
        if found.replacements or found.log_start is not None:
            with self._lock:
                self.log_start = later_start(self.log_start, found.log_start)
                known = with_replacements(self.replacements, found.replacements)
                self.replacements = [one for one in known if one.last >= self.log_start.number]

    # What is in them.

    def commit(self, number: int) -> Commit:
        """One commit, or the compacted ones that stand for it.

        Raises:
            ChangeLogError: ``TM-LOG-002`` when it is damaged, ``TM-LOG-004`` when it is missing, ``TM-LOG-018`` when it
                is before the start of the log.
        """
        try:
            return self._found(number)
        except ChangeLogError as error:
            if error.code != "TM-LOG-004":
                raise
            self.learn()  # It may have been replaced or removed since the last look.
            return self._found(number)

    def _found(self, number: int) -> Commit:
        self.log_start.check_commit(number, self.store.place)
        replacement = self.replacement_of(number)
        return self._own(number) if replacement is None else self._compacted_commit(replacement)

    def _own(self, number: int) -> Commit:
        path = layout.commit_path(number)
        commit = self._load(path, Commit)
        if commit.number != number:
            raise ChangeLogError("TM-LOG-002", f"{self.store.where(path)} claims to be commit {commit.number}")
        self._note(commit)
        return commit

    def _compacted_commit(self, one: Replacement) -> CompactedCommit:
        found = self._compacted.get(one.path)
        if found is None:
            found = self._load(one.path, CompactedCommit, one.digest)
            with self._lock:
                while len(self._compacted) >= _COMPACTED_KEPT:
                    del self._compacted[next(iter(self._compacted))]
                self._compacted[one.path] = found
        return found

    def digest(self, number: int) -> str:
        """The SHA-256 of a commit's file, in hexadecimal digits; empty where there is no such commit.

        Raises:
            ChangeLogError: ``TM-LOG-011`` when the file cannot be read.
        """
        if 0 <= number == self.log_start.number - 1:
            return self.commit(number + 1).previous
        if (one := self.replacement_of(number)) is not None and one.last == number:
            return self._compacted_commit(one).last_digest
        path = layout.commit_path(number)
        try:
            return digest_of(self.store.read(path))
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise self._unreadable(path, error) from None

    def stored_summary(self, above: int, last: int) -> Summary | None:
        """The newest stored summary of a commit in ``(above, last]``.

        Usually the newest due one is there; it is missing when its writer died between the commit and the summary.

        Raises:
            ChangeLogError: As ``commit``; ``TM-LOG-004`` also where the summary is missing with which the log begins.
        """
        before = self.log_start.number - 1
        for number in self._summaries(max(above, before - 1), last):
            if number == before or self._exists(layout.summary_path(number)):
                return self._summary(number)
        return None

    def _summaries(self, above: int, last: int) -> Iterator[int]:
        """The commits of which there should be a summary, the newest first.

        They are each hundredth, the last of a range, and the last before the start of the log.
        """
        before = self.log_start.number - 1
        number = last
        while number > above:
            one = self.replacement_of(number)
            if one is not None and number < one.last:
                number = one.first - 1  # Those in between went with the commits.
                continue
            if one is not None or number % layout.SUMMARY_EVERY == 0 or number == before:
                yield number
            if number == before:
                return
            place = bisect_left(self.replacements, number, key=lambda known: known.last) - 1
            end = self.replacements[place].last if place >= 0 else before
            number = max(number - 1 - (number - 1) % layout.SUMMARY_EVERY, end)

    def _summary(self, number: int) -> Summary:
        kept = self._newest_summary
        if kept is not None and kept.number == number:
            return kept
        path = layout.summary_path(number)
        summary = self._load(path, Summary)
        if summary.number != number:
            raise ChangeLogError(
                "TM-LOG-002", f"{self.store.where(path)} claims to be the summary of commit {summary.number}"
            )
        self._note(summary)
        summary = with_generations(summary)
        if kept is None or kept.number < number:
            self._newest_summary = summary
        return summary

    def _header(self) -> LogHeader:
        path = layout.HEADER
        try:
            # First the version alone: another version's header may have fields that this one does not know.
            version = self._load(path, _Version).format_version
            if version not in READ_VERSIONS:
                known = ", ".join(map(str, READ_VERSIONS))
                raise ChangeLogError(
                    "TM-LOG-003" if version > FORMAT_VERSION else "TM-LOG-012",
                    f"{self.store.place} has format version {version}; this version reads {known}",
                )
            return self._load(path, LogHeader)
        except ChangeLogError as error:
            if error.code != "TM-LOG-004":
                raise
            raise ChangeLogError("TM-LOG-001", f"{self.store.place} holds no change log (no {layout.HEADER})") from None

    def _load(self, path: str, model: type[M], digest: str = "") -> M:
        where = self.store.where(path)
        try:
            data = self.store.read(path)
            if digest and digest_of(data) != digest:
                raise ChangeLogError("TM-LOG-002", f"{where} is damaged: it is not the file that the log names")
            return model.model_validate_json(data)
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
        return ChangeLogError("TM-LOG-004", f"{self.store.where(layout.commit_path(number))} is missing")

    def _unreadable(self, path: str, error: OSError) -> ChangeLogError:
        return unreadable(self.store.where(path), error)


def digest_of(commit: bytes) -> str:
    """The SHA-256 of a commit's file, as ``Commit.previous`` has it."""
    return hashlib.sha256(commit).hexdigest()


def _gaps(number: int, numbers: Iterable[int]) -> list[tuple[int, int]]:
    """The ranges that are missing between a number and others that ascend, both ends inclusive."""
    gaps = []
    for found in numbers:
        if found != number + 1:
            gaps.append((number + 1, found - 1))
        number = found
    return gaps


def _name(path: str) -> str:
    return path.rpartition("/")[2]
