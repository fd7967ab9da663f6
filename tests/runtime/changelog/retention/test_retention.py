"""A log that begins later than it did says of what is left what it said before, and refuses the rest by name."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import zip_longest
from pathlib import Path

import pytest

from tests.examples import sample
from tests.runtime.changelog.compaction.logs import ITEMS, SMALL, TRIMMED, Positions, answers, compact, trim, write
from tests.runtime.changelog.retention.trimmed import become_whole, begin, plain, register
from tests.runtime.changelog.shop import ORDERS, data_files, named_files, stored
from tidemark.protocol.changelog import ChangeLog, layout
from tidemark.protocol.changelog.log_start import LogStart, later_start
from tidemark.protocol.errors import ChangeLogError
from tidemark.protocol.store.local import DirectoryStore
from tidemark.runtime.changelog.retention.next_start import Retain
from tidemark.runtime.changelog.upkeep import UpkeepRules, UpkeepThread
from tidemark.runtime.changelog.writer import LogWriter
from tidemark.runtime.upkeep.log_check import LogCheck
from tidemark.runtime.upkeep.log_copy import copy_log
from tidemark.spark_sink.source.followed_log import FollowedLog
from tidemark.spark_sink.tables.store_place import StorePlace
from tidemark.testing.deadline import wait_until
from tidemark.testing.object_store import S3Server


def committed(log: LogWriter) -> bool:
    plain(log, 1)
    return True


def code_of(call: Callable[[], object]) -> str:
    with pytest.raises(ChangeLogError) as caught:
        call()
    return caught.value.code


@pytest.mark.drawn(1)
@pytest.mark.parametrize("seed", range(sample(8, 2)))
def test_what_is_left_is_what_it_was(place: StorePlace, seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    is_near = place.directory is not None
    starts = [LogStart()]
    for turn in range(3 if is_near else 2):
        whole = DirectoryStore(tmp_path / f"whole {turn}")
        with LogWriter.open(place.store, "shop") as log:
            write(log, chance, chance.randrange(40, 130) if is_near else 45)
            if chance.random() < 0.7:
                compact(log, grace=timedelta(hours=chance.randrange(2)))
            before = FollowedLog(place)
            at = Positions.of(before, every=2 if is_near else 20)
            begun = before.log_start
            assert_same(list(answers(place, at.since(begun), before, begun.offset)), place, at, begun)
            old = FollowedLog(place)
            copy_log(ChangeLog(place.store), whole, lambda *_: None)
            start = trim(log, TRIMMED, grace=timedelta(hours=chance.randrange(2)))
            assert start.number >= begun.number
            assert len([*ChangeLog(place.store).commits()]) > TRIMMED.recent
            expected = list(answers(StorePlace.of(whole.root), at.since(start), None, start.offset))
            assert_same(expected, place, at, start)
            for follower in (old, before):
                assert_same(expected, place, at, start, follower)
                assert follower.summary() == FollowedLog(place).summary()
                assert follower.summary().state == log.state
            starts.append(start)
    assert starts[-1].number > 0
    log_now = ChangeLog(place.store)
    assert log_now.summary().log_start == starts[-1] == log_now.log_start
    assert list(LogCheck(log_now).damages()) == []
    copy_log(ChangeLog(place.store), DirectoryStore(tmp_path / "copy"), lambda *_: None)
    assert list(LogCheck(ChangeLog(tmp_path / "copy")).damages()) == []
    assert_same(expected, StorePlace.of(tmp_path / "copy"), at, start)
    with LogWriter.open(place.store, "shop") as log:
        compact(log)
        trim(log, Retain(recent=10**9))  # Only what is due.
    assert data_files(place.store) == named_files(place.store)
    refused = (
        lambda: log_now.commit(start.number - 1),
        lambda: log_now.commit_with_offset(start.offset - 1),
        lambda: list(log_now.segments(ORDERS, 0, log_now.end())),
        lambda: log_now.summary(start.number - 2),
    )
    assert [code_of(call) for call in refused] == ["TM-LOG-018"] * len(refused)
    assert log_now.edge_digest(start.offset - 1) == ""


def assert_same(
    expected: list[tuple[str, object]],
    place: StorePlace,
    at: Positions,
    start: LogStart,
    log: FollowedLog | None = None,
) -> None:
    for one, other in zip_longest(answers(place, at.since(start), log, start.offset), expected):
        assert one == other


@pytest.mark.drawn(1)
def test_nothing_goes_before_its_grace(place: StorePlace) -> None:
    with LogWriter.open(place.store, "shop") as log:
        plain(log, 110)
        files = data_files(place.store)
        start = trim(log, grace=timedelta(hours=1))
        assert (start.number, start.offset) == (101, 100)
        assert data_files(place.store) == files
        plain(log, 100)
        assert trim(log, grace=timedelta(hours=1)) == start, "it moves in steps, one grace each"
        assert trim(log).number == 201
    assert data_files(place.store) == named_files(place.store)
    names = [entry.path for entry in place.store.list(layout.COMMITS)]
    assert len(names) == len([*ChangeLog(place.store).commits()]) + 1, "commits, and the summary before them"


def test_what_a_table_needs_stays(tmp_path: Path) -> None:
    with LogWriter.open(tmp_path / "log", "shop") as log:
        plain(log, 150)
        newest = begin(log, ORDERS)
        plain(log, 150)
        assert trim(log, captured=[ORDERS]).number == 0, "no other generation is whole"
        become_whole(log, newest)
        plain(log, 250)
        assert trim(log, captured=[ORDERS, ITEMS]).number == 101
        assert trim(log, captured=[ITEMS]).number == 501, "nobody captures orders any more"
    assert [*LogCheck(ChangeLog(tmp_path / "log")).damages()] == []


def test_what_a_consumer_needs_stays(tmp_path: Path) -> None:
    with LogWriter.open(tmp_path / "log", "shop") as log:
        plain(log, 350)
        register(log.store, "nightly", 230)
        register(log.store, "hourly", 340)
        assert trim(log).number == 201
        register(log.store, "nightly", 340)
        assert trim(log).number == 301


@pytest.mark.parametrize(
    ("retain", "number"),
    [
        (Retain(recent=5), 401),
        (Retain(recent=150), 301),
        (Retain(age=timedelta(hours=10), recent=5), 0),
        (Retain(size=10**12, recent=5), 0),
        (Retain(age=timedelta(), recent=5), 401),
        (Retain(size=1, recent=5), 401),
        (Retain(age=timedelta(hours=10), size=1, recent=5), 401),
    ],
)
def test_age_and_size(tmp_path: Path, retain: Retain, number: int) -> None:
    with LogWriter.open(tmp_path / "log", "shop") as log:
        plain(log, 450)
        assert trim(log, retain).number == number


def test_it_begins_after_all_commits_that_one_file_stands_for(tmp_path: Path) -> None:
    with LogWriter.open(tmp_path / "log", "shop") as log:
        plain(log, 420)
        compact(log, grace=timedelta(hours=1))  # Summaries in between are still there.
        register(log.store, "nightly", 300)  # In the middle of some, and after a summary.
        start = trim(log)
        known = ChangeLog(log.store)
        assert known.summary().log_start == start
        before, first = known.replacement_of(start.number - 1), known.replacement_of(start.number)
        assert before is None and first is not None and first.first == start.number > 200
    assert [*LogCheck(ChangeLog(tmp_path / "log")).damages()] == []


def test_a_size_is_what_stays_at_most(tmp_path: Path) -> None:
    root = tmp_path / "log"
    with LogWriter.open(root, "shop") as log:
        plain(log, 650)
        compact(log)
        limit = sum((root / path).stat().st_size for path in named_files(root)) * 2 // 3
        start = trim(log, Retain(size=limit, recent=5))
        assert 0 < start.number < 600
        assert sum((root / path).stat().st_size for path in data_files(root)) <= limit


def test_an_age_is_that_of_the_last_event_that_goes(tmp_path: Path) -> None:
    with LogWriter.open(tmp_path / "log", "shop") as log:
        plain(log, 110)
        middle = datetime.now(UTC)
        plain(log, 200)
        start = trim(log, Retain(age=datetime.now(UTC) - middle, recent=5))
        assert start.number == 101
        assert start.time is not None and start.time < middle


def test_a_stalled_writer_after_it(s3: S3Server) -> None:
    """A writer is stalled while another one has the log, for so long that the number of its commit is deleted."""
    store = s3.place()
    with LogWriter.open(store, "shop") as old:
        plain(old, 1)
        with LogWriter.open(store, "shop") as new:
            plain(new, 115)
            assert trim(new).number == 101
            with pytest.raises(ChangeLogError) as caught:
                plain(old, 1)
            assert caught.value.code == "TM-LOG-007"
            left = data_files(store) - named_files(store)
            assert len(left) == 1, "it created its number once more"
            assert [event["id"] for event in stored(store)] == list(range(99, 116))
            assert [*LogCheck(ChangeLog(store)).damages()] == []
            plain(new, 100)
            assert trim(new).number == 201
            assert data_files(store) == named_files(store)


def test_in_the_background(tmp_path: Path) -> None:
    told: list[Exception] = []
    with LogWriter.open(tmp_path / "log", "shop") as log:
        plain(log, 110)
        rules = UpkeepRules(SMALL, timedelta(), TRIMMED)
        thread = UpkeepThread(log, rules, told.append, lambda: False, lambda: None, every=0.0)
        try:
            wait_until(lambda: committed(log) and log.summary.log_start.number > 0, 60, "the log begins later")
        finally:
            thread.close()
    assert told == []
    assert [*LogCheck(ChangeLog(tmp_path / "log")).damages()] == []


def test_the_start_of_a_log_moves_forward_only(tmp_path: Path) -> None:
    with LogWriter.open(tmp_path / "log", "shop") as log:
        plain(log, 110)
        start = trim(log)
        for number in (start.number, 1, log.summary.number + 1):
            with pytest.raises(ValueError, match="moves forward only"):
                log.begin_at(LogStart(number=number, offset=number - 1))
    assert later_start(start, LogStart(number=1, offset=0)) == start
