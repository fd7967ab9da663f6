"""One writer: commits, state, schemas, offsets, and what is refused."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import subprocess
import sys
import threading
from collections.abc import Sequence
from datetime import datetime, timedelta, tzinfo
from pathlib import Path

import pytest

from tests.runtime.changelog.shop import (
    ORDER_SCHEMA,
    ORDERS,
    closed,
    data_files,
    document,
    named_files,
    order,
    stored,
)
from tidemark.protocol.changelog import ChangeLog, layout
from tidemark.protocol.changelog.layout import SUMMARY_EVERY
from tidemark.protocol.errors import ChangeLogError
from tidemark.protocol.store import local
from tidemark.protocol.store.local import DirectoryStore, sync_all
from tidemark.runtime.changelog import claim, writer
from tidemark.runtime.changelog.writer import LogWriter


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "a log" / "shop.log"


def test_a_commit_holds_its_events_and_the_state(root: Path) -> None:
    with LogWriter.open(root, "shop") as log:
        orders = log.bind(ORDERS, ORDER_SCHEMA, ["id"])
        batch = log.begin()
        batch.add(orders, [order(1, note="a"), order(2, note=None, total="1.50")])
        batch.add(orders, [order(1, "d")])
        commit = log.commit(batch, {"cursor": "0/1", "gone": 1}, checkpoints=2)
        assert log.state == {"cursor": "0/1", "gone": 1}
        log.commit(log.begin(), {"cursor": "0/2"}, checkpoints=1)
        assert (batch.events, log.summary.next_offset) == (3, 3)

    assert (commit.number, commit.first_offset, commit.next_offset, commit.checkpoints) == (1, 0, 3, 2)
    (segment,) = commit.segments
    assert (segment.rows, segment.first_offset, segment.last_offset) == (3, 0, 2)
    assert segment.size == (root / segment.path).stat().st_size
    read = ChangeLog(root)
    assert read.commit(1) == commit
    assert read.commit(2).state.updated == {"cursor": "0/2", "gone": None}
    assert read.summary().state == {"cursor": "0/2"}
    assert read.schema(segment.fingerprint).key == ["id"]
    assert [(e["_offset"], e["_op"], e["id"], e["note"]) for e in stored(root)] == [
        (0, "c", 1, "a"),
        (1, "c", 2, None),
        (2, "d", 1, None),
    ]


def test_a_state_that_no_patch_can_say_is_stored_whole(root: Path) -> None:
    with LogWriter.open(root, "shop") as log:
        commit = log.commit(log.begin(), {"position": None}, 1)
    assert commit.state.merge_patch is False
    with LogWriter.open(root, "shop") as log:
        assert log.state == {"position": None}


def test_opening_again_goes_on_with_a_new_epoch(root: Path) -> None:
    for epoch in (1, 2, 3):
        with LogWriter.open(root, "shop") as log:
            assert log.epoch == epoch
            assert log.summary.next_offset == (epoch - 1) * 2
            batch = log.begin()
            batch.add(log.bind(ORDERS, ORDER_SCHEMA), [order(1), order(2)])
            log.commit(batch, {"round": epoch}, 1)
    assert [event["_offset"] for event in stored(root)] == list(range(6))
    commits = list(ChangeLog(root).commits())
    assert [commit.epoch for commit in commits] == [1, 1, 2, 2, 3, 3]
    assert [len(commit.schemas) for commit in commits] == [0, 1, 0, 0, 0, 0]


def test_offsets_follow_the_order_of_adds_across_collections(root: Path) -> None:
    with LogWriter.open(root, "shop") as log:
        orders, lines = log.bind(ORDERS, ORDER_SCHEMA), log.bind("public/lines", closed(id={"type": "integer"}))
        batch = log.begin()
        for id in range(4):
            batch.add(orders, [order(id)])
            batch.add(lines, [document(id=id), document(id=id)])
        log.commit(batch, {}, 1)
    assert [event["_offset"] for event in stored(root)] == [0, 3, 6, 9]
    assert [event["_offset"] for event in stored(root, "public/lines")] == [1, 2, 4, 5, 7, 8, 10, 11]


def test_one_thread_fills_the_next_batch_while_another_commits(root: Path) -> None:
    with LogWriter.open(root, "shop") as log:
        orders = log.bind(ORDERS, ORDER_SCHEMA)
        batch = log.begin()
        committers: list[threading.Thread] = []
        for number in range(20):
            batch.add(orders, [order(number * 100 + id) for id in range(100)])
            full, batch = batch, log.begin()
            if committers:
                committers[-1].join()
            committers.append(threading.Thread(target=log.commit, args=(full, {"batch": number}, 1)))
            committers[-1].start()
            batch.add(orders, [])
        committers[-1].join()
    assert [(event["_offset"], event["id"]) for event in stored(root)] == [(n, n) for n in range(2000)]


def test_a_changed_schema_takes_effect_at_once_and_starts_a_segment(root: Path) -> None:
    with LogWriter.open(root, "shop") as log:
        batch = log.begin()
        batch.add(log.bind(ORDERS, ORDER_SCHEMA), [order(1, note="old")])
        wider = closed(id={"type": "integer"}, color={"type": "string"})
        batch.add(log.bind(ORDERS, wider), [document(id=2, color="red")])
        commit = log.commit(batch, {}, 1)
        assert len(commit.schemas) == 2
        assert [segment.rows for segment in commit.segments] == [1, 1]
        batch = log.begin()
        batch.add(log.bind(ORDERS, wider), [document(id=3, color="blue")])
        assert log.commit(batch, {}, 1).schemas == {}
    assert [(e["id"], e.get("note"), e.get("color")) for e in stored(root)] == [
        (1, "old", None),
        (2, None, "red"),
        (3, None, "blue"),
    ]


def test_the_same_schema_bound_again_goes_on_in_the_same_segment(root: Path) -> None:
    with LogWriter.open(root, "shop") as log:
        batch = log.begin()
        for id in range(3):
            batch.add(log.bind(ORDERS, ORDER_SCHEMA), [order(id)])
        (segment,) = log.commit(batch, {}, 1).segments
    assert segment.rows == 3


def test_a_discarded_batch_leaves_nothing_and_its_offsets_are_used_again(root: Path) -> None:
    with LogWriter.open(root, "shop") as log:
        orders = log.bind(ORDERS, ORDER_SCHEMA)
        batch = log.begin()
        for start in range(0, 140_000, 70_000):
            batch.add(orders, [order(id) for id in range(start, start + 70_000)])
        assert data_files(root)
        batch.discard()
        assert data_files(root) == set()
        with pytest.raises(ValueError, match="in the order"):
            log.commit(batch, {}, 1)
        batch = log.begin()
        batch.add(orders, [order(7)])
        log.commit(batch, {}, 1)
    assert [(event["_offset"], event["id"]) for event in stored(root)] == [(0, 7)]


def test_closing_discards_what_is_not_committed(root: Path) -> None:
    with LogWriter.open(root, "shop") as log:
        orders = log.bind(ORDERS, ORDER_SCHEMA)
        for _ in range(2):
            log.begin().add(orders, [order(id) for id in range(70_000)])
    assert data_files(root) == set()
    assert ChangeLog(root).latest() == 0


def test_batches_are_committed_in_order_and_once(root: Path) -> None:
    with LogWriter.open(root, "shop") as log:
        first, second = log.begin(), log.begin()
        with pytest.raises(ValueError, match="no more"):
            first.add(log.bind(ORDERS, ORDER_SCHEMA), [order(1)])
        with pytest.raises(ValueError, match="in the order"):
            log.commit(second, {}, 1)
        log.commit(first, {}, 1)
        with pytest.raises(ValueError, match="in the order"):
            log.commit(first, {}, 1)
        log.commit(second, {}, 1)


def test_a_batch_that_failed_is_never_committed(root: Path) -> None:
    with LogWriter.open(root, "shop") as log:
        orders = log.bind(ORDERS, ORDER_SCHEMA)
        batch = log.begin()
        batch.add(orders, [order(1)])
        with pytest.raises(ChangeLogError):
            batch.add(orders, [order(id).replace(b'"op":"c"', b'"op":"x"') for id in range(70_000)])
        for attempt in range(2):
            with pytest.raises(ValueError, match="failed" if attempt == 0 else "after a failure"):
                log.commit(batch, {}, 1)
    assert data_files(root) == set()
    with LogWriter.open(root, "shop") as log:
        assert (log.summary.number, log.summary.next_offset) == (1, 0)


@pytest.mark.heavy
def test_many_collections_in_one_commit_keep_few_files_open(root: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 256), hard))
    try:
        with LogWriter.open(root, "shop") as log:
            tables = [log.bind(f"public/t{number}", closed(id={"type": "integer"})) for number in range(300)]
            batch = log.begin()
            for round in range(2):
                for table in tables:
                    batch.add(table, [document(id=round)])
                    # The same table under a new handle: what is pending is written.
                    batch.add(log.bind(table.schema.collection, closed(id={"type": "integer"})), [])
            log.commit(batch, {}, 1)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert [event["id"] for event in stored(root, "public/t7")] == [0, 1]
    assert ChangeLog(root).summary().totals["public/t299"].events == 2
    assert data_files(root) == named_files(root)


def test_the_times_of_commits_do_not_go_back_with_the_clock(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Behind(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Behind:
            return cls(2020, 1, 1, tzinfo=tz)

    with LogWriter.open(root, "shop") as log:
        log.commit(log.begin(), {"cursor": 1}, checkpoints=1)
        monkeypatch.setattr(writer, "datetime", Behind)
        monkeypatch.setattr(claim, "datetime", Behind)
        batch = log.begin()
        batch.add(log.bind(ORDERS, ORDER_SCHEMA, ["id"]), [order(1)])
        log.commit(batch, {"cursor": 2}, checkpoints=1)
    LogWriter.open(root, "shop").close()
    found = ChangeLog(root)
    times = [found.commit(number).time for number in range(found.latest() + 1)]
    assert len(times) == 4 and times == sorted(times) and times[1] == times[3]
    assert (found.offset_at(times[3]), found.offset_at(times[3] + timedelta(seconds=1))) == (0, 1)


def test_a_log_of_another_capture_is_refused(root: Path) -> None:
    LogWriter.open(root, "shop").close()
    with pytest.raises(ChangeLogError) as caught:
        LogWriter.open(root, "warehouse")
    assert caught.value.code == "TM-LOG-005"
    assert "'shop'" in caught.value.message


def test_a_log_of_an_older_format_is_refused_and_left_as_it_is(root: Path) -> None:
    with LogWriter.open(root, "shop") as log:
        batch = log.begin()
        batch.add(log.bind(ORDERS, ORDER_SCHEMA), [order(1)])
        log.commit(batch, {}, 1)
    header = root / layout.HEADER
    header.write_text(json.dumps(json.loads(header.read_text()) | {"format_version": 1}))
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    with pytest.raises(ChangeLogError) as caught:
        LogWriter.open(root, "shop")
    assert caught.value.code == "TM-LOG-012"
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before
    # What the remedy says: with the directory moved away there is a new log, in which a connector begins anew.
    root.rename(root.with_name("old.log"))
    with LogWriter.open(root, "shop") as log:
        assert (log.state, log.summary.next_offset) == ({}, 0)


def test_a_second_writer_on_the_machine_is_told_who_writes(root: Path) -> None:
    with LogWriter.open(root, "shop") as log:
        with pytest.raises(ChangeLogError) as caught:
            LogWriter.open(root, "shop")
        assert caught.value.code == "TM-LOG-006"
        assert str(os.getpid()) in caught.value.message
        log.commit(log.begin(), {}, 1)
    LogWriter.open(root, "shop").close()


def test_a_header_that_vanished_is_not_made_anew(root: Path) -> None:
    LogWriter.open(root, "shop").close()
    (root / "tidemark.json").unlink()
    with pytest.raises(ChangeLogError) as caught:
        LogWriter.open(root, "shop")
    assert caught.value.code == "TM-LOG-004"


@pytest.mark.parametrize("place", ["tidemark.json", "commits/00000000000000000002.json"])
@pytest.mark.parametrize("damage", [b"", b'{"format_version": 1', b"\xff\xfe", b"[]"])
def test_a_damaged_file_is_named_and_left_alone(root: Path, place: str, damage: bytes) -> None:
    with LogWriter.open(root, "shop") as log:
        for _ in range(3):
            log.commit(log.begin(), {}, 1)
    (root / place).write_bytes(damage)
    with pytest.raises(ChangeLogError) as caught:
        LogWriter.open(root, "shop")
    assert caught.value.code == "TM-LOG-002"
    assert place in caught.value.message
    assert (root / place).read_bytes() == damage


def test_a_log_that_was_repaired_opens(root: Path) -> None:
    with LogWriter.open(root, "shop") as log:
        log.commit(log.begin(), {"n": 1}, 1)
    commit = root / "commits" / "00000000000000000001.json"
    whole = commit.read_bytes()
    commit.write_bytes(whole[:-5])
    with pytest.raises(ChangeLogError, match="TM-LOG-002"):
        LogWriter.open(root, "shop")
    commit.write_bytes(whole)
    with LogWriter.open(root, "shop") as log:
        assert log.state == {"n": 1}


def test_a_missing_commit_is_named_and_its_number_not_used(root: Path) -> None:
    with LogWriter.open(root, "shop") as log:
        for _ in range(3):
            log.commit(log.begin(), {}, 1)
    gone = root / "commits" / "00000000000000000002.json"
    gone.unlink()
    with pytest.raises(ChangeLogError) as caught:
        LogWriter.open(root, "shop")
    assert caught.value.code == "TM-LOG-004"
    assert str(gone) in caught.value.message
    assert not gone.exists()


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    for place in (tmp_path / "file", tmp_path / "file" / "log"):
        with pytest.raises(ChangeLogError) as caught:
            LogWriter.open(place, "shop")
        assert caught.value.code == "TM-LOG-008"
        assert str(tmp_path / "file") in caught.value.message


@pytest.mark.heavy
def test_a_full_disk_is_an_error_and_the_log_stays_whole(root: Path) -> None:
    # A limit on file sizes makes the kernel refuse writes in the middle of a file, as a full disk does.
    script = """
import resource, sys
from pathlib import Path
from tidemark.protocol.errors import ChangeLogError
from tidemark.runtime.changelog.writer import LogWriter
from tests.runtime.changelog.shop import ORDER_SCHEMA, ORDERS, order
log = LogWriter.open(Path(sys.argv[1]), "shop")
orders = log.bind(ORDERS, ORDER_SCHEMA)
batch = log.begin()
batch.add(orders, [order(1)])
log.commit(batch, {"n": 1}, 1)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
batch = log.begin()
try:
    for start in range(0, 400_000, 1000):
        batch.add(orders, [order(id, note=str(id * 7919 % 104729)) for id in range(start, start + 1000)])
    log.commit(batch, {"n": 2}, 1)
except ChangeLogError as error:
    print(error)
log.close()
"""
    run = subprocess.run([sys.executable, "-W", "error", "-c", script, str(root)], capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith(f"TM-LOG-008: cannot write {root}/data/public/orders/")
    assert "too large" in run.stdout
    with LogWriter.open(root, "shop") as log:
        assert (log.state, log.summary.next_offset) == ({"n": 1}, 1)
    assert data_files(root) == named_files(root)


def test_opening_reads_the_newest_summary_and_what_follows_only(root: Path) -> None:
    with LogWriter.open(root, "shop") as log:
        orders = log.bind(ORDERS, ORDER_SCHEMA)
        for number in range(1, SUMMARY_EVERY * 2 + 6):
            batch = log.begin()
            if number % 10 == 0:
                batch.add(orders, [order(number)])
            log.commit(batch, {"n": number}, 1)
        whole = log.summary
    assert (root / "commits" / f"checkpoint-{SUMMARY_EVERY * 2:020d}.json").exists()
    # Commits below the newest summary are not opened: damage there does not show.
    for number in range(SUMMARY_EVERY * 2):
        (root / "commits" / f"{number:020d}.json").write_bytes(b"damaged")
    assert ChangeLog(root).summary() == whole
    assert whole.totals[ORDERS].events == 20
    with LogWriter.open(root, "shop") as log:
        assert log.state == {"n": SUMMARY_EVERY * 2 + 5}


def test_a_summary_that_was_never_written_is_done_without(root: Path) -> None:
    with LogWriter.open(root, "shop") as log:
        for number in range(SUMMARY_EVERY + 3):
            log.commit(log.begin(), {"n": number}, 1)
        whole = log.summary
    (root / "commits" / f"checkpoint-{SUMMARY_EVERY:020d}.json").unlink()
    assert ChangeLog(root).summary() == whole


def test_a_log_that_lost_all_its_commits_is_not_begun_anew(root: Path) -> None:
    with LogWriter.open(root, "shop") as log:
        batch = log.begin()
        batch.add(log.bind(ORDERS, ORDER_SCHEMA, ["id"]), [order(1)])
        log.commit(batch, {}, checkpoints=1)
    shutil.rmtree(root / layout.COMMITS)
    with pytest.raises(ChangeLogError) as caught:
        LogWriter.open(root, "shop")
    assert caught.value.code == "TM-LOG-004"
    assert len(data_files(root)) == 1


def test_what_a_commit_names_stays_though_nobody_knows_whether_it_is_durable(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = LogWriter.open(root, "shop")
    (batch := log.begin()).add(log.bind(ORDERS, ORDER_SCHEMA), [order(1)])
    commit = root / layout.COMMITS / layout.commit_name(batch.number)

    def fails_once_it_is_there(paths: Sequence[str]) -> None:
        if commit.exists():
            raise OSError(errno.EIO, "the disk has failed", paths[0])
        sync_all(paths)

    with monkeypatch.context() as patch, pytest.raises(ChangeLogError) as caught:
        patch.setattr(local, "sync_all", fails_once_it_is_there)
        log.commit(batch, {"n": 1}, 1)
    assert caught.value.code == "TM-LOG-008"
    log.close()
    with LogWriter.open(root, "shop") as again:
        assert again.state == {"n": 1}
    assert [event["id"] for event in stored(root)] == [1]


def test_the_folders_of_segments_are_durable_before_a_commit_names_them(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those that an earlier writer made, which may have ended before it had made them durable."""
    synced: list[Path] = []
    create = DirectoryStore.create

    def noted(paths: Sequence[str]) -> None:
        synced.extend(map(Path, paths))
        sync_all(paths)

    monkeypatch.setattr(local, "sync_all", noted)

    def commit(log: LogWriter, *collections: str) -> set[Path]:
        """The folders that are durable when the commit is published."""
        batch, before = log.begin(), len(synced)
        for collection in collections:
            batch.add(log.bind(collection, ORDER_SCHEMA, ["id"]), [order(1)])
        found: list[set[Path]] = []

        def created(store: DirectoryStore, path: str, data: bytes) -> None:
            found.append({each.relative_to(root) for each in synced[before:] if each.is_dir()})
            create(store, path, data)

        monkeypatch.setattr(DirectoryStore, "create", created)
        log.commit(batch, {}, checkpoints=1)
        monkeypatch.setattr(DirectoryStore, "create", create)
        return found[0]

    data = Path(layout.DATA)
    with LogWriter.open(root, "shop") as log:
        folders = {data / each for each in ("a", "a/b", "a/c", "d", "d/e")}
        assert commit(log, "a/b", "a/c", "d/e") == {Path(), data, *folders}
        assert commit(log, "a/b") == {data / "a/b"}
        assert commit(log, "a/f") == {data / "a", data / "a/f"}
    with LogWriter.open(root, "shop") as log:
        assert commit(log, "a/b") == {Path(), data, data / "a", data / "a/b"}
