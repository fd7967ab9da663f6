"""Where a log can begin from now on."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from datetime import datetime, timedelta

from tidemark.protocol.changelog import ChangeLog, layout
from tidemark.protocol.changelog.log_start import LogStart
from tidemark.runtime.changelog.files.named_segments import listed_commits


@dataclass(frozen=True, slots=True)
class Retain:
    """How much of a log stays beyond what somebody needs: nothing, without age and size.

    Attributes:
        age: Events go when they are older.
        size: The oldest events go while the segments have more bytes.
        recent: So many of the newest commits stay, and at least one.
    """

    age: timedelta | None = None
    size: int | None = None
    recent: int = layout.RECENT


class LogSizes:
    """The bytes of a log's segments by commit. It remembers them: a commit's file never changes."""

    def __init__(self) -> None:
        self._known: dict[int | str, int] = {}

    def after(self, log: ChangeLog) -> dict[int, int]:
        """By each commit, the last one of those that were compacted together, the bytes of all later segments."""
        known: dict[int | str, int] = {}
        found = []
        number, newest = log.log_start.number, log.latest()
        while number <= newest:
            one = log.replacement_of(number)
            key = number if one is None else one.path
            size = self._known.get(key)
            if size is None:
                size = sum(segment.size for segment in log.commit(number).segments)
            known[key] = size
            found.append((number if one is None else one.last, size))
            number = found[-1][0] + 1
        self._known = known
        later, after = 0, {}
        for number, size in reversed(found):
            after[number] = later
            later += size
        after[log.log_start.number - 1] = later
        return after


def next_start(log: ChangeLog, retain: Retain, needed: int, now: datetime, sizes: LogSizes) -> LogStart | None:
    """Where the log can begin; None where it begins already.

    That is after a commit which has a summary, and which is not in the middle of compacted ones.

    Args:
        log: The log, whose newest summary was read.
        retain: What stays.
        needed: The first offset that somebody needs.
        now: The time of day.
        sizes: Of the log's commits, for a limit by size.

    Raises:
        ChangeLogError: As ``ChangeLog``.
    """
    numbers = _last_numbers(log, log.latest() - max(retain.recent, 1))
    unneeded = bisect_right(numbers, needed, key=lambda number: log.summary(number).next_offset)
    due = [] if retain.age is not None or retain.size is not None else [len(numbers)]
    if retain.age is not None:
        due.append(bisect_right(numbers, now - retain.age, key=lambda number: log.summary(number).time))
    if retain.size is not None:
        after, size = sizes.after(log), retain.size
        if after[log.log_start.number - 1] > size:
            due.append(1 + bisect_left(numbers, True, key=lambda number: after[number] <= size))
    end = min(unneeded, max(due, default=0), len(numbers))
    if not end:
        return None
    last = log.summary(numbers[end - 1])
    return LogStart(
        number=last.number + 1,
        offset=last.next_offset,
        time=last.time,
        digest=log.edge_digest(last.next_offset) if last.next_offset else "",
    )


def _last_numbers(log: ChangeLog, newest: int) -> list[int]:
    """The commits up to one after which the log can begin later than it does, in order."""
    found = []
    for path in listed_commits(log.store, after=layout.summary_path(log.log_start.number)):
        number = layout.summary_number(path.rpartition("/")[2])
        if number is None:
            break  # Compacted commits come after summaries.
        compacted = log.replacement_of(number)
        if log.log_start.number <= number <= newest and (compacted is None or compacted.last == number):
            found.append(number)
    return found
