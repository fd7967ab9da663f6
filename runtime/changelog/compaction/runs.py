"""Which commits are compacted: runs of neighbours between which nothing of a table changes but its rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from tidemark.protocol.changelog import ChangeLog, Commit, Summary, layout
from tidemark.protocol.changelog.compacted_commit import CompactedCommit
from tidemark.protocol.changelog.models import Replacement, Segment
from tidemark.protocol.changelog.summaries import advance

TIER = 10
"""So many compacted ranges that are neighbours are compacted again: each event is written a few times in all,
however long the log becomes."""


@dataclass(frozen=True, slots=True)
class RunLimits:
    """How many commits are compacted.

    Attributes:
        due: The commits that must have come since the last compaction.
        least: The fewest commits of a run: what lies between two commits that stay may be shorter.
        new: The most commits of a run of which none was compacted before. They are in memory.
        segments: The most segments of such a run, but for a single commit.
        most: The most commits of any run. What readers read of each at once is some fifty bytes.
        events: The most events of any run, but for a single commit.
        recent: The newest commits, which stay.
        tier: How many neighbours are compacted again.
    """

    due: int = 1000
    least: int = 10
    new: int = 2000
    segments: int = 50_000
    most: int = 10_000
    events: int = 4_000_000
    recent: int = layout.RECENT
    tier: int = TIER


EVERYTHING = RunLimits(due=2, least=2)
"""All that can be compacted."""


@dataclass(frozen=True, slots=True)
class Run:
    """Commits to compact, some of which may have been compacted before, and the log before and after them."""

    before: Summary
    commits: tuple[Commit, ...]
    after: Summary

    @property
    def first(self) -> int:
        """The number of the first commit."""
        first = self.commits[0]
        return first.first if isinstance(first, CompactedCommit) else first.number


def new_runs(log: ChangeLog, limits: RunLimits) -> Iterator[Run]:
    """Runs of the commits that came since those that were compacted last.

    The last run, which later commits would continue, has at least as many commits as are due. Raises as ``ChangeLog``.
    """
    end = log.latest() - limits.recent
    before = log.summary(log.replacements[-1].last if log.replacements else log.log_start.number - 1)
    if end - before.number < limits.due:
        return
    run = _Growing(before)
    for commit in log.commits(before.number + 1, end):
        if not is_plain(commit, run.after):
            yield from run.ended(limits.least)
            run = _Growing(advance(run.after, commit))
            continue
        if run.is_full_with(commit, limits):
            yield from run.ended(limits.least)
            run = _Growing(run.after)
        run.add(commit)
    yield from run.ended(max(limits.due, limits.least))


def compacted_runs(log: ChangeLog, limits: RunLimits) -> Iterator[Run]:
    """The first run of ranges that were compacted before, small ones, if there are enough of them."""
    found: list[Replacement] = []
    for before, one in pairwise([None, *log.replacements]):
        if one is None:
            continue
        if before is not None and before.last + 1 != one.first:
            found = []
        found.append(one)
        commits = one.last - found[0].first + 1
        if commits > limits.most or one.next_offset - found[0].first_offset > limits.events:
            found = [one]
        if len(found) == limits.tier:
            commits_of = tuple(log.commit(each.first) for each in found)
            yield Run(log.summary(found[0].first - 1), commits_of, log.summary(one.last))
            return


def is_plain(commit: Commit, before: Summary) -> bool:
    """Whether a commit has nothing but events, of tables that are as they were before it, and the connector's state."""
    if commit.schemas or commit.announced or commit.generations:
        return False
    return all(_continues(segment, before) for segment in commit.segments)


def _continues(segment: Segment, before: Summary) -> bool:
    totals, newest = before.totals.get(segment.collection), before.newest(segment.collection)
    return (
        totals is not None
        and newest is not None
        and segment.generation == newest.number
        and totals.fingerprint == segment.fingerprint
        and newest.fingerprints[-1:] == [segment.fingerprint]
    )


class _Growing:
    """A run to which commits are added."""

    def __init__(self, before: Summary) -> None:
        self.before = self.after = before
        self.commits: list[Commit] = []
        self._segments = 0

    def add(self, commit: Commit) -> None:
        self.commits.append(commit)
        self._segments += len(commit.segments)
        self.after = advance(self.after, commit)

    def is_full_with(self, commit: Commit, limits: RunLimits) -> bool:
        """Whether it has too much with one more."""
        return bool(self.commits) and (
            len(self.commits) >= limits.new
            or self._segments + len(commit.segments) > limits.segments
            or commit.next_offset - self.before.next_offset > limits.events
        )

    def ended(self, least: int) -> Iterator[Run]:
        """The run, if it is worth it."""
        if len(self.commits) >= least:
            yield Run(self.before, tuple(self.commits), self.after)
