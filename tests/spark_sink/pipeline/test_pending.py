"""Which segments of the log a table lacks."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.spark_sink.log_builder import Event, LogBuilder, create, schema
from tidemark.spark_sink.pipeline.pending import Pending
from tidemark.spark_sink.source.followed_log import FollowedLog

TABLES = ("public/a", "public/b", "public/c")


@settings(max_examples=examples(40), deadline=None)
@given(seed=st.integers(0, 2**32), commits=st.integers(1, 6), start=st.integers(0, 6))
def test_it_knows_the_segments_of_each_table_as_the_log_grows(
    tmp_path_factory: pytest.TempPathFactory, seed: int, commits: int, start: int
) -> None:
    chance = random.Random(seed)
    log = LogBuilder(tmp_path_factory.mktemp("pending") / "log", *map(schema, TABLES))
    edges = [0]
    listed: list[tuple[str, str, int, int]] = []
    pending: Pending | None = None
    for _ in range(commits):
        events = [create(number, table=chance.choice(TABLES)) for number in range(chance.randrange(1, 12))]
        commit = log.commit(*events, rows=chance.choice([None, 2]))
        listed += [(s.collection, s.path, s.first_offset, s.last_offset) for s in commit.segments]
        edges.append(commit.next_offset)
        if chance.random() < 0.5:
            pending = pending or Pending(FollowedLog(log.root), edges[min(start, len(edges) - 1)])
            pending.follow()
            assert pending.end == commit.next_offset
    pending = pending or Pending(FollowedLog(log.root), edges[min(start, commits)])
    pending.follow()
    assert pending.end == log.offset

    for collection in TABLES:
        for _ in range(5):
            low, high = sorted((chance.choice(edges), chance.choice(edges)))
            low = max(low, pending.start)
            expected = [path for c, path, first, last in listed if c == collection and last >= low and first < high]
            assert [found.segment.path for found in pending.between(collection, low, high)] == (
                expected if low < high else []
            )
        below = chance.choice([edge for edge in edges if edge >= pending.start])
        before = pending.between(collection, below, log.offset)
        pending.drop(collection, below)
        assert pending.between(collection, below, log.offset) == before
        dropped = [first for c, _, first, last in listed if c == collection and pending.start <= last < below]
        assert all(not pending.reaches_back(collection, first) for first in dropped)
        assert pending.reaches_back(collection, below)


def test_a_segment_says_when_it_was_committed(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path / "log")
    log.commit(create(1))
    second = log.commit(create(2), Event("d", {"id": 1}))
    pending = Pending(FollowedLog(log.root), 1)
    pending.follow()

    (found,) = pending.between("public/items", 1, 3)
    assert (found.time, found.segment.rows) == (second.time, 2)
