from __future__ import annotations

import pytest

from tests.spark_sink.log_builder import LogBuilder, create
from tidemark.spark_sink.source.followed_log import FollowedLog
from tidemark.spark_sink.source.partitions import plan


@pytest.fixture
def five(log: LogBuilder) -> list[int]:
    """The sizes of five segments in the log."""
    return [log.commit(create(i)).segments[0].size for i in range(5)]


def firsts(log: LogBuilder, *limits: int) -> list[list[int]]:
    planned = plan(FollowedLog(log.root), "public/items", {}, 0, 5, *limits)
    return [[file.first for file in partition.files] for partition in planned]


def test_segments_are_packed(log: LogBuilder, five: list[int]) -> None:
    assert firsts(log, 1, 2 * max(five)) == [[0, 1], [2, 3], [4]]


@pytest.mark.parametrize(("at_least", "most"), [(1, 1), (2, 3), (5, 5), (100, 5)])
def test_there_are_at_least_so_many_as_far_as_there_are_segments(
    log: LogBuilder, five: list[int], at_least: int, most: int
) -> None:
    planned = firsts(log, at_least)

    assert min(at_least, len(five)) <= len(planned) <= most
    assert [first for run in planned for first in run] == [0, 1, 2, 3, 4]


def test_nothing_is_no_partition(log: LogBuilder) -> None:
    assert firsts(log) == []
