"""Reads a change log's commits. Knows nothing of Parquet: it says which segments hold which offsets.

A reader never skips: a commit that is missing or damaged is an error that names the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from protocol.changelog import layout
from protocol.changelog.models import (
    FORMAT_VERSION,
    CollectionTotals,
    Commit,
    LogHeader,
    Segment,
    Summary,
    TableSchema,
)
from protocol.errors import ChangeLogError
from protocol.state import merge_patch

M = TypeVar("M", bound=BaseModel)


class ChangeLog:
    """A change log in a directory.

    Args:
        root: The directory that holds ``tidemark.json``.

    Raises:
        ChangeLogError: ``TM-LOG-001`` no log there, ``TM-LOG-002`` a damaged file, ``TM-LOG-003`` a newer format.
    """

    def __init__(self, root: Path | str) -> None:
        self.root = Path(root)
        header = self.root / layout.HEADER
        if not header.is_file():
            raise ChangeLogError("TM-LOG-001", f"{self.root} holds no change log (no {layout.HEADER})")
        self.header = self._load(header, LogHeader)
        if self.header.format_version > FORMAT_VERSION:
            raise ChangeLogError(
                "TM-LOG-003", f"{self.root} has format version {self.header.format_version}, known is {FORMAT_VERSION}"
            )

    def latest(self) -> int:
        """The number of the newest commit; -1 when there is none."""
        numbers = [n for name in self._names() if (n := layout.commit_number(name)) is not None]
        return max(numbers, default=-1)

    def commit(self, number: int) -> Commit:
        """One commit.

        Raises:
            ChangeLogError: ``TM-LOG-002`` when it is damaged, ``TM-LOG-004`` when it is missing.
        """
        path = self.root / layout.COMMITS / layout.commit_name(number)
        commit = self._load(path, Commit)
        if commit.number != number:
            raise ChangeLogError("TM-LOG-002", f"{path} says it is commit {commit.number}")
        return commit

    def commits(self, first: int = 0, last: int | None = None) -> Iterator[Commit]:
        """Commits ``first`` to ``last`` inclusive, to the newest when ``last`` is None."""
        for number in range(first, (self.latest() if last is None else last) + 1):
            yield self.commit(number)

    def summary(self, at: int | None = None) -> Summary:
        """Everything up to commit ``at`` (the newest by default): the newest stored summary and the commits after it.

        Returns a summary of number -1 for a log without commits.
        """
        last = self.latest() if at is None else at
        stored = [n for name in self._names() if (n := layout.summary_number(name)) is not None and n <= last]
        if stored:
            summary = self._load(self.root / layout.COMMITS / layout.summary_name(max(stored)), Summary)
        else:
            summary = Summary(number=-1, epoch=0, time=self.header.created, next_offset=0)
        for commit in self.commits(summary.number + 1, last):
            summary = advance(summary, commit)
        return summary

    def commit_with_offset(self, offset: int) -> int:
        """The first commit whose events are not all below ``offset``; one past the newest when there is none."""
        low, high = 0, self.latest() + 1
        while low < high:
            middle = (low + high) // 2
            if self.commit(middle).next_offset > offset:
                high = middle
            else:
                low = middle + 1
        return low

    def segments(self, collection: str, start: int, end: int) -> Iterator[Segment]:
        """Segments of a collection with events in ``[start, end)``, in offset order.

        A segment at an edge may hold events outside: filter rows by ``_offset``.
        """
        newest = self.latest()
        number = self.commit_with_offset(start)
        while number <= newest:
            commit = self.commit(number)
            if commit.first_offset >= end:
                return
            for segment in commit.segments:
                if segment.collection == collection and segment.last_offset >= start and segment.first_offset < end:
                    yield segment
            number += 1

    def schema(self, fingerprint: str) -> TableSchema:
        """A schema of this log by fingerprint. Raises ``TM-LOG-002`` when no commit introduced it."""
        known = self.summary().schemas.get(fingerprint)
        if known is None:
            raise ChangeLogError("TM-LOG-002", f"{self.root}: no commit introduces the schema {fingerprint}")
        return known

    def _names(self) -> list[str]:
        folder = self.root / layout.COMMITS
        return [entry.name for entry in folder.iterdir()] if folder.is_dir() else []

    def _load(self, path: Path, model: type[M]) -> M:
        try:
            return model.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            raise ChangeLogError("TM-LOG-004", f"{path} is missing") from None
        except ValidationError as error:
            first = error.errors(include_input=False)[0]
            place = ".".join(map(str, first["loc"])) or "the file"
            raise ChangeLogError("TM-LOG-002", f"{path} is damaged: {place}: {first['msg']}") from None


def advance(summary: Summary, commit: Commit) -> Summary:
    """The summary after one more commit.

    Raises:
        ChangeLogError: ``TM-LOG-002`` when the commit does not follow on.
    """
    if commit.number != summary.number + 1 or commit.first_offset != summary.next_offset:
        raise ChangeLogError("TM-LOG-002", f"commit {commit.number} does not follow commit {summary.number}")
    totals = dict(summary.totals)
    for segment in commit.segments:
        before = totals.get(segment.collection, CollectionTotals())
        totals[segment.collection] = CollectionTotals(
            events=before.events + segment.rows,
            bytes=before.bytes + segment.size,
            fingerprint=segment.fingerprint,
        )
    change = commit.state
    return Summary(
        number=commit.number,
        epoch=commit.epoch,
        time=commit.time,
        next_offset=commit.next_offset,
        state=merge_patch(summary.state, change.updated) if change.merge_patch else change.updated,
        schemas={**summary.schemas, **commit.schemas},
        totals=totals,
    )
