from __future__ import annotations

import pytest

from tests.spark_sink.log_builder import Event, LogBuilder, create, schema
from tidemark.protocol.changelog import layout
from tidemark.protocol.errors import ChangeLogError
from tidemark.spark_sink.source.followed_log import FollowedLog, Limits

OTHER = "public/others"


def other(count: int) -> list[Event]:
    return [create(i, table=OTHER) for i in range(count)]


@pytest.fixture
def two_tables(log: LogBuilder) -> LogBuilder:
    log.change_schema(schema(OTHER))
    return log


def test_new_commits_are_seen(log: LogBuilder) -> None:
    log.commit(create(1))
    followed = FollowedLog(log.root)
    assert (followed.latest(), followed.end()) == (0, 1)

    log.commit(create(2))
    log.commit(create(3))

    assert (followed.latest(), followed.end()) == (2, 3)


def test_a_batch_ends_on_a_commit_within_the_limits(log: LogBuilder) -> None:
    for size in (3, 3, 5, 1):
        log.commit(*map(create, range(size)))
    followed = FollowedLog(log.root)

    assert [followed.cut(start, Limits(6), 12, "public/items") for start in (0, 3, 6, 11, 12)] == [6, 6, 12, 12, 12]


def test_a_commit_over_the_limit_is_a_batch_by_itself(log: LogBuilder) -> None:
    log.commit(*map(create, range(10)))
    log.commit(create(1))

    assert FollowedLog(log.root).cut(0, Limits(4), 11, "public/items") == 10


def test_bytes_limit_a_batch(log: LogBuilder) -> None:
    sizes = [log.commit(create(1)).segments[0].uncompressed for _ in range(4)]

    assert FollowedLog(log.root).cut(0, Limits(size=sizes[0] + sizes[1]), 4, "public/items") == 2


def test_a_batch_starts_within_a_commit_where_it_is_told_to(log: LogBuilder) -> None:
    log.commit(*map(create, range(4)))
    log.commit(*map(create, range(4)))

    assert FollowedLog(log.root).cut(2, Limits(4), 8, "public/items") == 4


def test_the_ceiling_ends_a_batch(log: LogBuilder) -> None:
    for i in range(4):
        log.commit(create(i))

    assert FollowedLog(log.root).cut(0, Limits(), 2, "public/items") == 2


def test_commits_without_events_of_the_table_are_no_batch(two_tables: LogBuilder) -> None:
    two_tables.commit(create(1))
    two_tables.commit(*other(5))
    followed = FollowedLog(two_tables.root)
    assert followed.cut(0, Limits(2), 6, "public/items") == 6
    assert followed.cut(1, Limits(2), 6, "public/items") == 1

    two_tables.commit(create(2))

    assert followed.cut(1, Limits(2), 7, "public/items") == 7


def test_many_commits_without_events_of_the_table_are_a_batch(two_tables: LogBuilder) -> None:
    for _ in range(3):
        two_tables.commit(*other(1))

    assert FollowedLog(two_tables.root).cut(0, Limits(quiet=3), 3, "public/items") == 3


def test_segments_of_all_tables_come_with_their_commits(two_tables: LogBuilder) -> None:
    two_tables.commit(create(1), *other(1))
    two_tables.commit(*other(2))
    two_tables.commit(create(2))

    found = FollowedLog(two_tables.root).segments_of_all(1, 4)

    assert [(number, s.collection, s.first_offset) for number, s in found] == [(0, OTHER, 1), (1, OTHER, 2)]


def test_more_commits_than_are_kept_in_memory(log: LogBuilder) -> None:
    for i in range(5):
        log.commit(create(i))
    followed = FollowedLog(log.root, commits_kept=2)

    assert [c.number for c in followed.commits()] == [c.number for c in followed.commits()] == list(range(5))


def test_a_missing_commit_is_an_error_that_names_it(log: LogBuilder) -> None:
    for i in range(3):
        log.commit(create(i))
    (log.root / layout.COMMITS / layout.commit_name(1)).unlink()

    with pytest.raises(ChangeLogError, match=f"TM-LOG-004.*{layout.commit_name(1)}"):
        FollowedLog(log.root).cut(0, Limits(), 3, "public/items")
