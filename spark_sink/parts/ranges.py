"""Divides keys: the groups of sources that a part may touch, and the ranges of keys for tasks.

The decisions are pure. They use metadata only: the bounds of the table's files, and the runs of backfilled rows that
the log's segments state. If a run overlaps another source, its rows are taken as events, which is always right.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tidemark.protocol.changelog import Segment
from tidemark.protocol.changelog.segment_files import SegmentFile
from tidemark.spark_sink.changes.key_order import Place, place, reaches
from tidemark.spark_sink.changes.sources import BackfilledRun, BaseFile, Source, SourceGroup
from tidemark.spark_sink.changes.stated_keys import native, stated_place
from tidemark.spark_sink.formats.data_files import DataFile, KeyBounds


def box(low: Sequence[Any] | None, high: Sequence[Any] | None) -> tuple[Place, Place]:
    """The first and the last place of keys within bounds, which are given column by column.

    Columns behind the first one that has more than one value say nothing about the order.
    """
    if low is None or high is None:
        return place(low[:1] if low else ()), place(high[:1] if high else ())
    first: list[Any] = []
    last: list[Any] = []
    for smallest, largest in zip(low, high, strict=True):
        first.append(smallest)
        last.append(largest)
        if smallest != largest:
            break
    return place(first), place(last)


def farther(one: Place, other: Place) -> Place:
    """The last place of two groups together."""
    common = min(len(one), len(other))
    if one[:common] == other[:common]:
        return one[:common]
    return max(one, other)


_JOINED_ROWS = 131_072
"""The most rows of runs that are read as one. They are in memory together if events change them."""


@dataclass(frozen=True, slots=True)
class Sources:
    """The sources that a part is merged with.

    Attributes:
        groups: The groups of sources, in key order.
        copied: For each segment the runs that are sources: first offset, last offset and number of rows. Backfilled
            rows of other runs are events.
    """

    groups: tuple[SourceGroup, ...]
    copied: Mapping[str, tuple[tuple[int, int, int], ...]]


def sources(
    files: Iterable[tuple[DataFile, KeyBounds]],
    segments: Sequence[Segment],
    types: Sequence[str],
    start: int,
    end: int,
    file_of: Callable[[Segment], SegmentFile] = SegmentFile.of,
) -> Sources:
    """Groups the table's files and the backfilled runs of a part.

    Args:
        files: The table's files; none after a TRUNCATE.
        segments: The part's segments.
        types: Spark types of the key's columns.
        start: The smallest offset that counts.
        end: One past the largest.
        file_of: Gives the file of a segment, from which rows are read.
    """
    groups = file_groups(files)
    runs = [
        SourceGroup(
            stated_place(types, run.first),
            stated_place(types, run.last),
            (
                BackfilledRun(
                    file_of(segment),
                    run.first_offset,
                    run.last_offset,
                    run.rows,
                    segment.size * run.rows // segment.rows,
                    index,
                ),
            ),
        )
        for segment in segments
        if segment.first_offset >= start and segment.last_offset < end
        for index, run in enumerate(segment.runs or ())
    ]
    apart = _apart(runs, groups)
    copied: dict[str, tuple[tuple[int, int, int], ...]] = {}
    for group in apart:
        for run in group.sources:
            assert isinstance(run, BackfilledRun)
            taken = copied.get(run.segment.path, ())
            copied[run.segment.path] = (*taken, (run.first_offset, run.last_offset, run.rows))
    return Sources(tuple(sorted([*groups, *apart], key=lambda group: group.low)), copied)


def file_groups(files: Iterable[tuple[DataFile, KeyBounds]]) -> list[SourceGroup]:
    """The table's files in key order. Files whose bounds overlap are in one group."""
    placed = sorted(
        (
            (*box(bounds.low, bounds.high), BaseFile(file.path, file.size, file.rows, file.oldest))
            for file, bounds in files
        ),
        key=lambda found: found[0],
    )
    groups: list[tuple[Place, Place, list[Source]]] = []
    for first, last, file in placed:
        if groups and reaches(groups[-1][1], first):
            low, high, members = groups[-1]
            members.append(file)
            groups[-1] = (low, farther(high, last), members)
        else:
            groups.append((first, last, [file]))
    return [SourceGroup(low, high, tuple(members)) for low, high, members in groups]


def _apart(runs: Sequence[SourceGroup], groups: Sequence[SourceGroup]) -> list[SourceGroup]:
    """The largest number of runs that overlap neither a group nor each other.

    The run that ends first leaves most room, so it is taken first. A run that spans the gap between two ranges of a
    backfill is left out, instead of all the runs between its ends.
    """
    found: list[SourceGroup] = []
    for run in sorted(runs, key=lambda run: run.high):
        low = run.low
        # Groups are disjoint and in order, so only the first one that reaches the run can overlap it.
        index = bisect_left(groups, True, key=lambda group: reaches(group.high, low))
        is_free = index == len(groups) or groups[index].low > run.high
        if is_free and (not found or low > found[-1].high):
            found.append(run)
    return found


def joined_runs(groups: Iterable[SourceGroup]) -> tuple[SourceGroup, ...]:
    """The same groups, with runs joined that follow one another both in key order and in their segment.

    A segment is read by row groups, which are longer than runs. Run by run, each row group would be read several times.
    """
    joined: list[SourceGroup] = []
    for group in groups:
        run = group.sources[0]
        before = joined[-1].sources[0] if joined else None
        if (
            isinstance(run, BackfilledRun)
            and isinstance(before, BackfilledRun)
            and (run.segment.path, run.index) == (before.segment.path, before.index + 1)
            and before.rows + run.rows <= _JOINED_ROWS
        ):
            rows, size = before.rows + run.rows, before.size + run.size
            both = replace(run, first_offset=before.first_offset, rows=rows, size=size)
            joined[-1] = SourceGroup(joined[-1].low, group.high, (both,))
        else:
            joined.append(group)
    return tuple(joined)


@dataclass(frozen=True, slots=True)
class KeyRange:
    """A range of keys: the work of one task.

    Attributes:
        low: The begin of the range; () for the first range.
        high: The end of the range, exclusive; None for the last range.
        groups: The groups of sources in the range. A group that goes beyond the range is in the next range, too.
    """

    low: Place
    high: Place | None
    groups: tuple[SourceGroup, ...]


def key_ranges(
    groups: Sequence[SourceGroup], sampled: Sequence[Place], sample_bytes: int, target: int
) -> list[KeyRange]:
    """Divides all keys into ranges with about the same work.

    Args:
        groups: The groups of sources, in key order.
        sampled: A random sample of the events' keys, in order.
        sample_bytes: The bytes of events that one sampled key stands for.
        target: The bytes of a range.
    """
    points: list[tuple[Place, SourceGroup | None]] = [(group.low, group) for group in groups]
    points += [(key, None) for key in sampled]
    # A cut at the begin of a group must come before the group.
    points.sort(key=lambda point: (point[0], point[1] is not None))
    ranges: list[KeyRange] = []
    low: Place = ()
    members: list[SourceGroup] = []
    size = 0
    for at, group in points:
        if size >= target and at > low:
            ranges.append(KeyRange(low, at, tuple(members)))
            low, size = at, 0
            members = [one for one in members[-1:] if reaches(one.high, at)]
        if group is None:
            size += sample_bytes
        else:
            members.append(group)
            size += group.size
    ranges.append(KeyRange(low, None, tuple(members)))
    return ranges


def possibly_hit(
    groups: Sequence[SourceGroup], segments: Sequence[Segment], types: Sequence[str], floor: int = 0
) -> list[SourceGroup]:
    """The groups that may hold keys of the segments' events, by the bounds that the segments state.

    And those that may hold rows with an ``_offset`` below a floor.
    """
    boxes = []
    for segment in segments:
        if segment.key_min is None or segment.key_max is None:
            return list(groups)
        low = [native(type_, value) for type_, value in zip(types, segment.key_min, strict=True)]
        high = [native(type_, value) for type_, value in zip(types, segment.key_max, strict=True)]
        boxes.append(box(low, high))
    return [
        group
        for group in groups
        if any(reaches(high, group.low) and reaches(group.high, low) for low, high in boxes)
        or any(isinstance(file, BaseFile) and (file.oldest or 0) < floor for file in group.sources)
    ]
