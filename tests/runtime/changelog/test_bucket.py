"""A log in a bucket, where no lock reaches the writers of other machines."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from tests.runtime.changelog.generations.mutants import Mutant
from tests.runtime.changelog.shop import ORDER_SCHEMA, ORDERS, order
from tidemark.protocol.changelog import ChangeLog, segment_files
from tidemark.protocol.changelog.layout import COMMITS, DATA, commit_name, segment_path
from tidemark.protocol.changelog.segment_files import SegmentFile, asked_for, batches
from tidemark.protocol.errors import ChangeLogError
from tidemark.protocol.store import Store
from tidemark.protocol.store.opening import opened
from tidemark.runtime.changelog import claim
from tidemark.runtime.changelog.events import segment_events
from tidemark.runtime.changelog.files.probe import FOLDER, probe
from tidemark.runtime.changelog.writer import LogWriter
from tidemark.spark_sink.tables.store_place import StorePlace
from tidemark.testing.http_faults import Fault, http_faults
from tidemark.testing.object_store import S3Server, s3_server


@pytest.fixture
def store(s3: S3Server) -> Store:
    return s3.place()


def committed(log: LogWriter, *ids: int) -> int:
    """Commits orders, and returns the number of the commit."""
    batch = log.begin()
    batch.add(log.bind(ORDERS, ORDER_SCHEMA, ["id"]), [order(id) for id in ids])
    return log.commit(batch, {"last": ids[-1]}, 1).number


def stored(store: Store) -> list[int]:
    """The ids of all orders."""
    log = ChangeLog(store)
    return [event["id"] for _, one in log.segments_of_all(0, log.end()) for event in segment_events(log, one)]


def test_what_is_written_is_read_and_resumed_from(store: Store) -> None:
    with LogWriter.open(store, "shop") as log:
        for number in range(98):
            committed(log, number)
    with LogWriter.open(store, "shop") as log:  # Commit 99; commit 100 has a summary.
        assert (log.epoch, log.state) == (2, {"last": 97})
        assert committed(log, 98, 99) == 100
    assert stored(store) == list(range(100))
    assert ChangeLog(store).summary().next_offset == 100
    named = {one.path for _, one in ChangeLog(store).segments_of_all(0, 100)}
    assert {entry.path for entry in store.list(DATA)} == named


def test_a_commit_makes_a_request_for_each_table_and_two_more(s3: S3Server) -> None:
    """As docs/running.md says of what it costs."""
    asked: list[str] = []

    def note(method: str, path: str) -> Fault:
        asked.append(method)
        return Fault.NONE

    place = s3.place()
    with http_faults(s3.endpoint, note) as proxy:
        store = opened(place.place, replace(s3.settings, endpoint=proxy.address))
        with LogWriter.open(store, "shop") as log:
            asked.clear()
            for number in range(10):
                committed(log, number)
            assert sorted(asked) == ["GET"] * 10 + ["PUT"] * 20
            asked.clear()
            committed(log, *range(10, 13))
            log.commit(log.begin(), {}, 1)
            assert asked == ["PUT", "PUT", "GET", "PUT", "GET"]


def test_segments_of_a_commit_are_finished_side_by_side(s3: S3Server) -> None:
    tables = [f"public/table_{number}" for number in range(8)]
    met = Barrier(len(tables))

    def meet(method: str, path: str) -> Fault:
        if method == "PUT" and DATA in path:
            met.wait(60)
        return Fault.NONE

    place = s3.place()
    with http_faults(s3.endpoint, meet) as proxy:
        store = opened(place.place, replace(s3.settings, endpoint=proxy.address))
        with LogWriter.open(store, "shop") as log:
            batch = log.begin()
            for name in tables:
                batch.add(log.bind(name, ORDER_SCHEMA, ["id"]), [order(1)])
            log.commit(batch, {}, 1)
    assert sorted(one.collection for one in ChangeLog(place).commit(1).segments) == tables


def test_commits_are_asked_for_side_by_side(s3: S3Server) -> None:
    place = s3.place()
    with LogWriter.open(place, "shop") as log:
        for number in range(20):
            committed(log, number)
    met = Barrier(2)

    def meet(method: str, path: str) -> Fault:
        if path.endswith("1.json"):  # Two of the first 16.
            met.wait(60)
        return Fault.NONE

    with http_faults(s3.endpoint, meet) as proxy:
        store = opened(place.place, replace(s3.settings, endpoint=proxy.address))
        assert [commit.number for commit in ChangeLog(store).commits(0, 17)] == list(range(18))


def read_all(log: ChangeLog) -> list[int]:
    """The ids of all orders, as compaction and Spark's tasks read segments."""
    found: list[int] = []
    segments = [one for _, one in log.segments_of_all(0, log.end())]
    for segment, data in asked_for(log.store, map(SegmentFile.of, segments)):
        with segment.opened(log.store, data) as file:
            for batch in batches(file, 1000):
                ids: list[Any] = batch.column("id").to_pylist()
                found += ids
    return found


def test_small_segments_are_read_side_by_side_by_a_request_each(s3: S3Server) -> None:
    place = s3.place()
    with LogWriter.open(place, "shop") as log:
        for number in range(20):
            committed(log, number)
    asked: list[str] = []
    met = Barrier(2)

    def meet(method: str, path: str) -> Fault:
        if DATA in path:
            asked.append(method)
            if path.endswith(("-1-18.parquet", "-1-19.parquet")):
                met.wait(60)
        return Fault.NONE

    with http_faults(s3.endpoint, meet) as proxy:
        store = opened(place.place, replace(s3.settings, endpoint=proxy.address))
        assert read_all(ChangeLog(store)) == list(range(20))
    assert asked == ["GET"] * 20


def test_a_large_segment_is_read_by_a_request_for_each_row_group(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_files, "WHOLE_BYTES", 0)
    monkeypatch.setattr(segment_files, "_AHEAD_BYTES", 0)
    place = s3.place()
    with LogWriter.open(place, "shop") as log:
        batch, bound = log.begin(), log.bind(ORDERS, ORDER_SCHEMA, ["id"])
        for first in range(0, 210_000, 70_000):  # Each is a row group.
            batch.add(bound, [order(id) for id in range(first, first + 70_000)])
        log.commit(batch, {}, 1)
    asked: list[str] = []

    def note(method: str, path: str) -> Fault:
        asked.append(method) if DATA in path else None
        return Fault.NONE

    with http_faults(s3.endpoint, note) as proxy:
        store = opened(place.place, replace(s3.settings, endpoint=proxy.address))
        assert read_all(ChangeLog(store)) == list(range(210_000))
    assert asked == ["HEAD", *["GET"] * (1 + 3)], "the size, the footer, and three row groups"


@pytest.mark.parametrize("size", [0, segment_files.WHOLE_BYTES])
def test_a_segment_that_is_missing_or_another_one_is_named(
    size: int, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("WHOLE_BYTES", "_AHEAD_BYTES"):
        monkeypatch.setattr(segment_files, name, size)
    with LogWriter.open(store, "shop") as log:
        committed(log, 1)
        committed(log, 2, 3)
    first, second = (one.path for _, one in ChangeLog(store).segments_of_all(0, 3))
    store.replace(second, store.read(first))
    with pytest.raises(ChangeLogError, match=f"TM-LOG-009: .*{second} is damaged: it has"):
        read_all(ChangeLog(store))
    store.delete(first)
    with pytest.raises(ChangeLogError, match=f"TM-LOG-009: .*{first} is missing"):
        read_all(ChangeLog(store))


@pytest.mark.parametrize("name", [ORDERS, "public/new", "other/schema", "alone"])
def test_what_a_dead_writer_left_goes(name: str, store: Store) -> None:
    """Also what it left of a table that it had not committed yet."""
    with LogWriter.open(store, "shop") as log:
        committed(log, 1)
    left, later = (segment_path(name, number, epoch, 0) for number, epoch in ((2, 1), (9, 5)))
    for path in (left, later):
        store.create(path, path.encode())
    LogWriter.open(store, "shop").close()
    assert not store.exists(left)
    assert store.exists(later), "a newer writer's"
    assert stored(store) == [1]


def test_of_two_writers_the_older_one_fails(store: Store) -> None:
    with LogWriter.open(store, "shop") as old:
        committed(old, 1)
        with LogWriter.open(store, "shop") as new:
            with pytest.raises(ChangeLogError) as caught:
                committed(old, 2)
            assert caught.value.code == "TM-LOG-007"
            committed(new, 3)
    assert stored(store) == [1, 3]


def test_files_of_a_commit_that_the_next_writer_has_seen_stay(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The older writer looks after it has made a commit, and finds that of a newer one, which follows it."""
    newer: list[LogWriter] = []

    def taken_over_before_it_looks(place: Store, number: int) -> bool:
        monkeypatch.setattr(claim, "_is_passed", is_passed)
        newer.append(LogWriter.open(store, "shop"))
        return is_passed(place, number)

    is_passed = claim._is_passed
    with LogWriter.open(store, "shop") as old:
        committed(old, 1)
        monkeypatch.setattr(claim, "_is_passed", taken_over_before_it_looks)
        with pytest.raises(ChangeLogError) as caught:
            committed(old, 2)
        assert caught.value.code == "TM-LOG-007"
    with newer[0] as new:
        assert new.state == {"last": 2}
        committed(new, 3)
    assert stored(store) == [1, 2, 3]


def stall(store: Store) -> None:
    """A writer is stalled, while another one has the log for so long that the number of its commit is deleted."""
    with LogWriter.open(store, "shop") as old:
        committed(old, 1)
        with LogWriter.open(store, "shop") as new:
            for number in range(2, 5):
                committed(new, number)
        for number in range(3):
            store.delete(f"{COMMITS}/{commit_name(number)}")
        with pytest.raises(ChangeLogError) as caught:
            committed(old, 9)
        assert caught.value.code == "TM-LOG-007"


def test_a_stalled_writer_acknowledges_nothing_under_a_number_that_was_deleted(store: Store) -> None:
    stall(store)


def test_without_its_rule_a_stalled_writer_would(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    Mutant("no look at later commits", claim.write_commit, "store.directory is None and", "False and").switch(
        monkeypatch
    )
    with pytest.raises(pytest.fail.Exception):
        stall(store)


def test_a_store_that_keeps_its_promise_tells_its_time(place: StorePlace) -> None:
    store = place.store
    assert probe(store) == pytest.approx(store.modified(_created(store)), abs=60)
    assert not list(store.list(FOLDER))


@pytest.mark.parametrize("every", [1, 8])
def test_a_store_whose_conditional_writes_are_none_is_refused(every: int, tmp_path: Path) -> None:
    """Also if they are none now and then: stores that look first and write then are caught by luck."""
    with s3_server(tmp_path, lies=every) as liar:
        for _ in range(3):
            with pytest.raises(ChangeLogError) as caught:
                probe(place := liar.place())
            assert caught.value.code == "TM-LOG-014"
            assert caught.value.message == f"{place.place}: of 8 creators of one object 8 won"
            assert not list(place.list(FOLDER))


def _created(store: Store) -> str:
    store.create("now", b"")
    return "now"
