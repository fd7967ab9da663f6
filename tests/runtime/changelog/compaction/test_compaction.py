"""A log that is compacted says what it said before, to everybody who reads it."""

from __future__ import annotations

import json
import random
from datetime import timedelta
from itertools import zip_longest
from pathlib import Path

import pytest

from tests.examples import sample
from tests.runtime.changelog.compaction.logs import SMALL, Positions, answers, compact, write
from tests.runtime.changelog.shop import ORDER_SCHEMA, ORDERS, data_files, named_files, order
from tidemark.protocol.changelog import ChangeLog, layout
from tidemark.protocol.changelog.models import FORMAT_VERSION
from tidemark.protocol.errors import ChangeLogError
from tidemark.protocol.store import Store
from tidemark.protocol.store.local import DirectoryStore
from tidemark.runtime.changelog import upkeep
from tidemark.runtime.changelog.upkeep import Upkeep, UpkeepRules, UpkeepThread
from tidemark.runtime.changelog.writer import LogWriter
from tidemark.runtime.upkeep.log_check import LogCheck
from tidemark.spark_sink.source.followed_log import FollowedLog
from tidemark.spark_sink.tables.store_place import StorePlace
from tidemark.testing.deadline import wait_until


@pytest.fixture
def log_store(place: StorePlace) -> Store:
    return place.store


def assert_same(found: list[tuple[str, object]], expected: list[tuple[str, object]]) -> None:
    for one, other in zip_longest(found, expected):
        assert one == other


@pytest.mark.drawn(1)
@pytest.mark.parametrize("seed", range(sample(8, 2)))
def test_whoever_reads_it_finds_the_same(place: StorePlace, seed: int) -> None:
    chance = random.Random(seed)
    compacted = 0
    for start in range(2 if place.directory else 1):
        with LogWriter.open(place.store, "shop") as log:
            write(log, chance, 45)
            before = FollowedLog(place)
            at = Positions.of(before, every=1 if place.directory else 20)
            expected = list(answers(place, at))
            old = FollowedLog(place)
            assert_same(list(answers(place, at, old)), expected)
            compacted += compact(log, grace=timedelta(hours=start % 2))
            assert_same(list(answers(place, at)), expected)
            # Who read it before, and has its commits in memory, goes on.
            for follower in (old, before):
                assert follower.summary() == FollowedLog(place).summary()
                assert follower.summary().state == log.state
                assert_same(list(answers(place, at, follower)), expected)
    assert compacted > 20
    assert ChangeLog(place.store).replacements or ChangeLog(place.store).summary().replacements


@pytest.mark.drawn(1)
def test_files_become_few_and_no_other_is_left(log_store: Store) -> None:
    chance = random.Random(7)
    with LogWriter.open(log_store, "shop") as log:
        write(log, chance, 120)
        before = len(data_files(log_store))
        compact(log)
    names = [entry.path for entry in log_store.list(layout.COMMITS)]
    assert data_files(log_store) == named_files(log_store)
    assert len(data_files(log_store)) < before / 2
    assert len(names) < 60
    assert list(LogCheck(ChangeLog(log_store)).damages()) == []


@pytest.mark.drawn(1)
def test_what_was_replaced_stays_for_the_grace(log_store: Store) -> None:
    with LogWriter.open(log_store, "shop") as log:
        write(log, random.Random(3), 60)
        files = data_files(log_store)
        assert compact(log, grace=timedelta(hours=1))
        assert files <= data_files(log_store)
        compact(log)
        assert data_files(log_store) == named_files(log_store)


def test_ranges_that_were_compacted_are_compacted_again(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path / "log")
    with LogWriter.open(store, "shop") as log:
        for _ in range(6):
            write_plain(log, 12)
            compact(log)
        found = ChangeLog(store)
        found.summary()
        assert max(one.last - one.first for one in found.replacements) > SMALL.new
    assert list(LogCheck(ChangeLog(store)).damages()) == []


def write_plain(log: LogWriter, commits: int) -> None:
    orders = log.bind(ORDERS, ORDER_SCHEMA, ["id"])
    for number in range(commits):
        batch = log.begin()
        batch.add(orders, [order(number)])
        log.commit(batch, {"n": log.summary.number}, 1)


@pytest.mark.parametrize("version", [3, 4])
def test_a_log_of_an_earlier_version_becomes_one_of_this(tmp_path: Path, version: int) -> None:
    root = tmp_path / "log"
    with LogWriter.open(root, "shop") as log:
        write_plain(log, 110)
    header = json.loads((root / layout.HEADER).read_text())
    (root / layout.HEADER).write_text(json.dumps(header | {"format_version": version}))
    for path in (root / layout.COMMITS).glob("checkpoint-*"):
        summary = json.loads(path.read_text())
        del summary["log_start"]
        if version == 3:
            assert summary.pop("replacements") == []
            summary["replaced"] = False
        path.write_text(json.dumps(summary))
    before = FollowedLog(root)
    at = Positions.of(before, every=1)
    expected = list(answers(StorePlace.of(root), at))
    assert before.header.format_version == version
    with LogWriter.open(root, "shop") as log:
        assert compact(log) > 100
    assert ChangeLog(root).header.format_version == FORMAT_VERSION == 5
    assert_same(list(answers(StorePlace.of(root), at)), expected)


def test_a_damaged_segment_is_told_and_the_others_are_compacted(tmp_path: Path) -> None:
    root = tmp_path / "log"
    with LogWriter.open(root, "shop") as log:
        write_plain(log, 40)
        broken = ChangeLog(root).commit(5).segments[0].path
        (root / broken).write_bytes(b"PAR1")
        told: list[ChangeLogError] = []
        rules = UpkeepRules(SMALL, timedelta())
        assert Upkeep(log, rules, lambda: log.commit(log.begin(), log.state, 0), told.append).compact(SMALL) > 20
    assert [(error.code, broken in error.message) for error in told] == [("TM-LOG-009", True)]
    assert (root / broken).exists(), "what cannot be read stays for who repairs it"
    assert all(not one.first <= 5 <= one.last for one in ChangeLog(root).summary().replacements)


def test_nothing_is_deleted_where_the_file_that_stands_for_it_is_gone(tmp_path: Path) -> None:
    root = tmp_path / "log"
    with LogWriter.open(root, "shop") as log:
        write_plain(log, 40)
        compact(log, grace=timedelta(hours=1))
        found = ChangeLog(root)
        found.find_replacements()
        (root / found.replacements[0].path).unlink()
        files = data_files(root)
        with pytest.raises(ChangeLogError) as caught:
            compact(log)
    assert caught.value.code == "TM-LOG-004"
    assert data_files(root) >= files


def test_a_defect_in_the_background_is_told_and_does_not_end_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "LOOK_SECONDS", 0.01)
    looks: list[int] = []
    told: list[Exception] = []

    def asked() -> bool:
        looks.append(1)
        raise MemoryError("no memory is left")

    with LogWriter.open(tmp_path / "log", "shop") as log:
        thread = UpkeepThread(log, UpkeepRules(SMALL, timedelta()), told.append, asked, lambda: None)
        wait_until(lambda: len(looks) > 3, 20, "it looks again")
        thread.close()
    assert [str(error) for error in told] == ["no memory is left"]
