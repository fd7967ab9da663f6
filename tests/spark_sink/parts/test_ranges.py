"""Where keys are, as plans have it: against keys that really are in files and runs."""

from __future__ import annotations

import itertools
import random
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tidemark.protocol.changelog import KeyValue, Run, Segment
from tidemark.spark_sink.changes.key_order import Place, place, reaches
from tidemark.spark_sink.changes.sources import BackfilledRun, BaseFile, SourceGroup
from tidemark.spark_sink.formats.data_files import DataFile, KeyBounds
from tidemark.spark_sink.parts.ranges import file_groups, joined_runs, key_ranges, possibly_hit, sources

Key = tuple[int | None, ...]

TYPES = ("bigint", "bigint", "bigint")
KEYS: list[Key] = sorted(((a, b, c) for a in (None, *range(4)) for b in range(4) for c in range(3)), key=place)
STATED: list[list[KeyValue]] = [[a, b, c] for a in range(4) for b in range(4) for c in range(3)]


@dataclass
class Table:
    """Files with keys, and the bounds that are known of them."""

    keys: dict[str, list[Key]]
    files: list[tuple[DataFile, KeyBounds]]


END = 10**9
"""Beyond all offsets."""


def random_table(chance: random.Random, count: int) -> Table:
    keys: dict[str, list[Key]] = {}
    files = []
    for number in range(count):
        start = chance.randrange(len(KEYS))
        near = KEYS[start : start + chance.randrange(1, 12)]
        held = (
            chance.sample(near, chance.randrange(1, len(near) + 1)) if chance.random() < 0.8 else chance.sample(KEYS, 3)
        )
        path = f"{number}.parquet"
        keys[path] = held
        files.append((DataFile(path, chance.randrange(1, 100), len(held)), bounds_of(held, chance)))
    return Table(keys, files)


def bounds_of(keys: Sequence[Key], chance: random.Random) -> KeyBounds:
    """As Delta's statistics say them, where they do: nulls count on neither side."""
    low: tuple[Any, ...] | None = None
    high: tuple[Any, ...] | None = None
    columns = list(zip(*keys, strict=True))
    if all(None not in column for column in columns) and chance.random() < 0.9:
        low = tuple(map(min, columns))
    if all(set(column) != {None} for column in columns) and chance.random() < 0.9:
        high = tuple(max(value for value in column if value is not None) for column in columns)
    return KeyBounds(low, high)


def random_segments(chance: random.Random, count: int) -> list[Segment]:
    """Segments of backfilled rows in runs, some of which do not state them."""
    segments = []
    offset = 0
    for number in range(count):
        runs = []
        began = offset
        for _ in range(chance.randrange(4)):
            start = chance.randrange(len(STATED))
            length = len(STATED[start : start + chance.randrange(1, 9)])
            first, last = STATED[start], STATED[start + length - 1]
            runs.append(Run(first_offset=offset, last_offset=offset + length - 1, rows=length, first=first, last=last))
            offset += length
        backfilled = offset - began
        offset += 2  # of the source's log
        segments.append(
            Segment(
                collection="public/items", path=f"segment-{number}", rows=offset - began, size=1000, uncompressed=1000,
                first_offset=began, last_offset=offset - 1, fingerprint="f", snapshot_rows=backfilled,
                runs=runs if chance.random() < 0.8 or not backfilled else None,
            )
        )  # fmt: skip
    return segments


def assert_apart(groups: Sequence[SourceGroup], held: dict[str, list[Key]]) -> None:
    """In order, no key that one may hold is another's, and each holds the keys of its sources."""
    for one, following in itertools.pairwise(groups):
        assert one.low <= following.low
        assert not any(one.may_hold(place(key)) and following.may_hold(place(key)) for key in KEYS)
        assert not any(one.may_hold(place(key)) and place(key) >= following.low for key in KEYS)
    for group in groups:
        for source in group.sources:
            if isinstance(source, BaseFile):
                assert all(group.may_hold(place(key)) for key in held[source.path])
            else:
                first, last = keys_of_run(source)
                assert group.may_hold(first) and group.may_hold(last)


_runs: dict[tuple[str, int], tuple[Place, Place]] = {}


def keys_of_run(source: BackfilledRun) -> tuple[Place, Place]:
    return _runs[source.segment.path, source.first_offset]


@given(seed=st.integers(0, 2**32), files=st.integers(0, 8), segments=st.integers(0, 6), start=st.integers(0, 20))
def test_sources_are_apart_and_nothing_is_lost_or_taken_twice(seed: int, files: int, segments: int, start: int) -> None:
    chance = random.Random(seed)
    table = random_table(chance, files)
    listed = random_segments(chance, segments)
    _runs.clear()
    for segment in listed:
        for run in segment.runs or ():
            _runs[segment.path, run.first_offset] = (place(run.first), place(run.last))

    found = sources(table.files, listed, TYPES, start, END)

    assert_apart(found.groups, table.keys)
    joined = joined_runs(found.groups)
    assert sum(source.rows for group in joined for source in group.sources) == sum(
        source.rows for group in found.groups for source in group.sources
    )
    for group in joined:
        for source in group.sources:
            if isinstance(source, BackfilledRun):
                of_segment = next(segment for segment in listed if segment.path == source.segment.path).runs or []
                between = [r for r in of_segment if source.first_offset <= r.first_offset <= source.last_offset]
                assert sum(run.rows for run in between) == source.rows
                assert (group.low, group.high) == (place(between[0].first), place(between[-1].last))
    taken = [source for group in found.groups for source in group.sources]
    assert sorted(s.path for s in taken if isinstance(s, BaseFile)) == sorted(table.keys)
    runs = [(s.segment.path, s.first_offset, s.rows) for s in taken if isinstance(s, BackfilledRun)]
    assert len(set(runs)) == len(runs)
    by_path = {segment.path: segment for segment in listed}
    assert {path for path, *_ in runs} == found.copied.keys() <= by_path.keys()
    for path, spans in found.copied.items():
        assert sorted(spans) == sorted(
            (run.first_offset, run.last_offset, run.rows)
            for run in by_path[path].runs or ()
            if (path, run.first_offset, run.rows) in runs
        )
        assert by_path[path].first_offset >= start
    assert all(
        group.is_new == (len(group.sources) == 1 and isinstance(group.sources[0], BackfilledRun))
        for group in found.groups
    )


@given(seed=st.integers(0, 2**32))
def test_backfilled_rows_in_key_order_are_all_sources(seed: int) -> None:
    """A first load that was read by key has no events to sort."""
    chance = random.Random(seed)
    edges = sorted({0, *(chance.randrange(len(STATED)) for _ in range(4)), len(STATED)})
    segments = []
    for number, (first, end) in enumerate(itertools.pairwise(edges)):
        run = Run(
            first_offset=first, last_offset=end - 1, rows=end - first,
            first=STATED[first], last=STATED[end - 1],
        )  # fmt: skip
        segments.append(
            Segment(
                collection="c", path=f"{number}", rows=end - first, size=10, uncompressed=10, first_offset=first,
                last_offset=end - 1, fingerprint="f", snapshot_rows=end - first, runs=[run],
            )
        )  # fmt: skip
    chance.shuffle(segments)

    found = sources([], segments, TYPES, 0, END)

    assert found.copied.keys() == {segment.path for segment in segments}
    assert len(found.groups) == len(segments)


@given(
    seed=st.integers(0, 2**32),
    files=st.integers(0, 8),
    samples=st.integers(0, 40),
    sample_bytes=st.integers(1, 200),
    target=st.integers(1, 600),
)
def test_ranges_hold_every_key_once_and_all_groups_that_may_have_it(
    seed: int, files: int, samples: int, sample_bytes: int, target: int
) -> None:
    chance = random.Random(seed)
    table = random_table(chance, files)
    groups = file_groups(table.files)
    sampled = sorted(place(chance.choice(KEYS)) for _ in range(samples))

    ranges = key_ranges(groups, sampled, sample_bytes, target)

    lows = [one.low for one in ranges]
    assert lows[0] == () and lows == sorted(set(lows))
    assert [one.high for one in ranges] == [*lows[1:], None]
    for key in map(place, KEYS):
        range_of_key = ranges[bisect_right(lows, key) - 1]
        assert [g for g in groups if g.may_hold(key)] == [g for g in range_of_key.groups if g.may_hold(key)]
    for one in ranges:
        assert list(one.groups) == [group for group in groups if group in one.groups]
        # Nothing that none of its keys can be in: it would be read for nothing, and written twice.
        assert all(group.low < (one.high or ((3,),)) and reaches(group.high, one.low) for group in one.groups)
    # Each but the last has enough to do: what was planned for it, whole files counted where they begin.
    begun = [[g for g in one.groups if g.low >= one.low] for one in ranges]
    counts = [len([key for key in sampled if bisect_right(lows, key) - 1 == number]) for number in range(len(ranges))]
    same = max((sampled.count(key) for key in sampled), default=0) * sample_bytes
    for groups_of, count in list(zip(begun, counts, strict=True))[:-1]:
        assert sum(group.size for group in groups_of) + count * sample_bytes + same >= target


@given(seed=st.integers(0, 2**32), files=st.integers(0, 8), hits=st.integers(0, 3))
def test_files_that_events_may_hit_are_found_by_the_bounds_of_the_events(seed: int, files: int, hits: int) -> None:
    chance = random.Random(seed)
    table = random_table(chance, files)
    groups = file_groups(table.files)
    segments, touched = [], []
    for number in range(hits):
        keys = chance.sample(STATED, 2)
        touched += keys
        columns: list[list[Any]] = [list(column) for column in zip(*keys, strict=True)]
        stated = chance.random() < 0.8
        segments.append(
            Segment(
                collection="c", path=f"{number}", rows=2, size=10, uncompressed=10, first_offset=0, last_offset=1,
                fingerprint="f", key_min=list(map(min, columns)) if stated else None,
                key_max=list(map(max, columns)) if stated else None,
            )
        )  # fmt: skip

    found = possibly_hit(groups, segments, TYPES)

    assert [group for group in groups if group in found] == found
    for key in touched:
        assert [group for group in groups if group.may_hold(place(key))] == [g for g in found if g.may_hold(place(key))]
