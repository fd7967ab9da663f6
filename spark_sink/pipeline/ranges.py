"""Where keys are: the groups of sources that a part may touch, and the ranges of keys that tasks take.

Pure decisions from metadata: the bounds of the table's files, and the runs of backfilled rows that the log's segments
state. A segment whose runs overlap anything else gives its rows as events instead, which is always right.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from protocol.changelog import Segment
from spark_sink.changes.key_order import Place, place, reaches
from spark_sink.changes.sources import BackfilledRun, BaseFile, Source, SourceGroup
from spark_sink.changes.stated_keys import native, stated_place
from spark_sink.formats.data_files import DataFile, KeyBounds
from spark_sink.source.segment_reader import SegmentFile


def box(low: Sequence[Any] | None, high: Sequence[Any] | None) -> tuple[Place, Place]:
    """The first and the last place that keys within bounds column by column can have.

    Only the first column that has more than one value says anything about the order, and none after it.
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
    """Of the last places of two groups, the one that reaches farther."""
    common = min(len(one), len(other))
    if one[:common] == other[:common]:
        return one[:common]
    return max(one, other)


@dataclass(frozen=True, slots=True)
class Sources:
    """What a part is merged with.

    Attributes:
        groups: In key order.
        in_runs: Paths of the segments whose backfilled rows are all in runs of the groups; the backfilled rows of
            every other segment are events.
    """

    groups: tuple[SourceGroup, ...]
    in_runs: frozenset[str]


def sources(
    files: Iterable[tuple[DataFile, KeyBounds]], segments: Sequence[Segment], types: Sequence[str], start: int
) -> Sources:
    """Groups the table's files and the backfilled runs of a part.

    Args:
        files: Of the table, none of them after a TRUNCATE.
        segments: Of the part.
        types: Spark types of the key's columns.
        start: The smallest offset that counts.
    """
    groups = file_groups(files)
    listed: list[tuple[Place, Place, str, BackfilledRun]] = []
    refused: set[str] = set()
    for segment in segments:
        runs = [] if segment.first_offset < start else segment.runs
        if segment.snapshot_rows and not runs:
            refused.add(segment.path)
        for run in runs or ():
            source = BackfilledRun(
                SegmentFile.of(segment),
                run.first_offset,
                run.last_offset,
                run.rows,
                segment.size * run.rows // segment.rows,
            )
            listed.append((stated_place(types, run.first), stated_place(types, run.last), segment.path, source))
    listed.sort(key=lambda found: found[0])
    refused |= _overlapping(listed, groups)
    new = [SourceGroup(first, last, (source,)) for first, last, path, source in listed if path not in refused]
    return Sources(
        tuple(sorted([*groups, *new], key=lambda group: group.low)),
        frozenset(segment.path for segment in segments if segment.path not in refused),
    )


def file_groups(files: Iterable[tuple[DataFile, KeyBounds]]) -> list[SourceGroup]:
    """The table's files in key order; those whose bounds overlap, together."""
    placed = sorted(
        ((*box(bounds.low, bounds.high), BaseFile(file.path, file.size, file.rows)) for file, bounds in files),
        key=lambda found: found[0],
    )
    groups: list[SourceGroup] = []
    members: list[Source] = []
    low: Place = ()
    high: Place = ()
    for first, last, file in placed:
        if members and reaches(high, first):
            members.append(file)
            high = farther(high, last)
            continue
        if members:
            groups.append(SourceGroup(low, high, tuple(members)))
        members, low, high = [file], first, last
    if members:
        groups.append(SourceGroup(low, high, tuple(members)))
    return groups


def _overlapping(runs: Sequence[tuple[Place, Place, str, BackfilledRun]], groups: Sequence[SourceGroup]) -> set[str]:
    """The segments, of runs in order, that hold one that overlaps a group, or a run of a segment that does not."""
    refused: set[str] = set()
    last_of_runs: Place | None = None
    index = 0
    for first, last, path, _ in runs:
        while index < len(groups) and not reaches(groups[index].high, first):
            index += 1
        if (index < len(groups) and groups[index].low <= last) or (last_of_runs is not None and first <= last_of_runs):
            refused.add(path)
        if path not in refused:
            last_of_runs = last if last_of_runs is None else max(last_of_runs, last)
    return refused


@dataclass(frozen=True, slots=True)
class KeyRange:
    """What one task takes.

    Attributes:
        low: Where it begins; () for the first range, which begins before everything.
        high: Where it ends, exclusive; None for the last one.
        groups: Of sources. A group whose keys go beyond the range is in the next one, too.
    """

    low: Place
    high: Place | None
    groups: tuple[SourceGroup, ...]


def key_ranges(
    groups: Sequence[SourceGroup], sampled: Sequence[Place], sample_bytes: int, target: int
) -> list[KeyRange]:
    """Cuts all keys into ranges of about the same work.

    Args:
        groups: In key order.
        sampled: Keys of events, drawn at random, in order.
        sample_bytes: Of events that a sampled key stands for.
        target: Bytes of a range.
    """
    points: list[tuple[Place, SourceGroup | None]] = [(group.low, group) for group in groups]
    points += [(key, None) for key in sampled]
    # A cut at the place where a group begins has to come before it.
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


def possibly_hit(groups: Sequence[SourceGroup], segments: Sequence[Segment], types: Sequence[str]) -> list[SourceGroup]:
    """The groups that events of the segments may fall into, by the bounds that the segments state."""
    boxes = []
    for segment in segments:
        if segment.key_min is None or segment.key_max is None:
            return list(groups)
        low = [native(type_, value) for type_, value in zip(types, segment.key_min, strict=True)]
        high = [native(type_, value) for type_, value in zip(types, segment.key_max, strict=True)]
        boxes.append(box(low, high))
    return [
        group for group in groups if any(reaches(high, group.low) and reaches(group.high, low) for low, high in boxes)
    ]


def placed_types(key: Sequence[str], columns: Mapping[str, str]) -> list[str]:
    """The types of the key's columns."""
    return [columns[name] for name in key]
