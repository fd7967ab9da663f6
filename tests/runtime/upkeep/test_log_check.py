"""``tidemark log check``: a log that is whole has no damage, and each damaged file is named with what is lost."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.protocol.version_2 import OldLog
from tests.runtime.changelog.shop import ORDER_SCHEMA, ORDERS, closed, document, order
from tests.runtime.changelog.upgraded import Upgraded
from tests.warm_process import run_to_its_end
from tidemark.demo.processes import TIDEMARK
from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.changelog.layout import COMMITS, commit_name, segment_path, summary_name
from tidemark.protocol.store import Store
from tidemark.protocol.store.local import DirectoryStore
from tidemark.runtime.changelog.writer import LogWriter
from tidemark.runtime.upkeep.log_check import AT_ONCE, Damage, LogCheck
from tidemark.testing.object_store import S3Server

ITEMS = "public/items"
NEWEST = 103


def write(store: Store) -> None:
    """A log of two starts: commits of ten orders and an item each, one of them with an emptied table."""
    for commits in (range(1, 60), range(61, NEWEST + 1)):
        with LogWriter.open(store, "shop") as log:
            orders = log.bind(ORDERS, ORDER_SCHEMA, ["id"])
            items = log.bind(ITEMS, closed(id={"type": "integer"}))
            for number in commits:
                batch = log.begin()
                batch.add(orders, [order(number * 100 + id, note="x" * 30) for id in range(5)])
                batch.add(items, [document(id=number)] if number != 70 else [document("t")])
                batch.add(orders, [order(number * 100 + id) for id in range(5, 10)])
                assert log.commit(batch, {"n": number}, 1).number == number


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("whole") / "log"
    write(DirectoryStore(root))
    return root


@pytest.fixture
def root(written: Path, tmp_path: Path) -> Path:
    shutil.copytree(written, tmp_path / "log")
    return tmp_path / "log"


def damages(store: Store | Path) -> list[Damage]:
    return list(LogCheck(ChangeLog(store)).damages())


def commit_path(root: Path, number: int) -> Path:
    return root / COMMITS / commit_name(number)


def segment(root: Path, number: int, collection: str = ORDERS) -> Path:
    segments = ChangeLog(root).commit(number).segments
    return root / next(one.path for one in segments if one.collection == collection)


def test_a_whole_log(root: Path) -> None:
    check = LogCheck(ChangeLog(root))
    assert list(check.damages()) == []
    found = check.checked
    events = 11 * (NEWEST - 1)
    assert (found.commits, found.summaries, found.segments, found.events) == (NEWEST + 1, 2, 2 * (NEWEST - 1), events)
    assert (found.tables, found.unnamed) == ({ORDERS, ITEMS}, 0)
    (left := root / segment_path(ORDERS, 7, 1, 9)).write_bytes(b"left by a writer")
    assert [*LogCheck(ChangeLog(root)).damages()] == []
    left.rename(root / segment_path(ORDERS, NEWEST + 1, 2, 0))  # Of a writer that is at work.
    assert [*LogCheck(ChangeLog(root)).damages()] == []


def flip(path: Path) -> None:
    """Changes a byte of a page: the footer is as it was."""
    data = bytearray(path.read_bytes())
    column = pq.read_metadata(path).row_group(0).column(0)
    begin = column.dictionary_page_offset or column.data_page_offset
    data[begin + column.total_compressed_size - 1] ^= 0xFF
    path.write_bytes(data)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


def of_another_commit(path: Path) -> None:
    """Replaces it by one with as many bytes, rows and other offsets."""
    others = sorted(other for other in path.parent.iterdir() if other.stat().st_size == path.stat().st_size)
    path.write_bytes(next(other for other in others if other != path).read_bytes())


@pytest.mark.parametrize("wreck", [flip, cut, of_another_commit, Path.unlink])
def test_a_segment_that_is_not_as_it_was_written(root: Path, wreck: Callable[[Path], None]) -> None:
    path = segment(root, 20)
    wreck(path)
    (damage,) = damages(root)
    assert damage.error.code == "TM-LOG-009"
    assert str(path) in damage.error.message
    first = 19 * 11
    assert (damage.lost, damage.rows, damage.collection) == ((first, first + 11), 10, ORDERS)


def edited(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1, text
    path.write_text(text.replace(old, new))


def test_a_commit_that_is_missing_or_damaged(root: Path) -> None:
    for number in (20, AT_ONCE * 4 - 1):  # The latter is the last of those that are read side by side.
        commit_path(root, number).unlink()
    cut(commit_path(root, 50))
    missing, last, damaged = damages(root)
    assert (missing.error.code, missing.lost) == ("TM-LOG-004", (19 * 11, 20 * 11))
    assert (last.error.code, last.lost) == ("TM-LOG-004", (30 * 11, 31 * 11))
    assert (damaged.error.code, damaged.lost) == ("TM-LOG-002", (49 * 11, 50 * 11))


def test_a_commit_that_was_edited(root: Path) -> None:
    edited(commit_path(root, 20), '"checkpoints":1', '"checkpoints":2')
    (damage,) = damages(root)
    assert damage.error.code == "TM-LOG-002"
    assert f"{commit_path(root, 21)} is damaged: it follows another commit 20" in damage.error.message


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"key_min":[7000]', '"key_min":[6999]'),
        ('"truncated_at":7', '"truncated_at":1'),
        ('"snapshot_rows":0,"truncated_at":null', '"snapshot_rows":1,"truncated_at":null'),
    ],
)
def test_what_a_commit_says_of_its_rows_is_compared_with_them(root: Path, old: str, new: str) -> None:
    edited(commit_path(root, 70), old, new)
    segments, later = damages(root)
    assert segments.error.code == "TM-LOG-009" and "are not what the log says of them" in segments.error.message
    assert "it follows another commit 70" in later.error.message


def test_a_summary_is_what_the_commits_come_to(root: Path) -> None:
    path = root / COMMITS / summary_name(100)
    edited(path, '"state":{"n":100}', '"state":{"n":99}')
    (damage,) = damages(root)
    assert damage.error.code == "TM-LOG-002"
    assert damage.error.message == f"{path} is damaged: the commits come to another summary"


def test_a_log_that_an_earlier_version_began(tmp_path: Path) -> None:
    OldLog(tmp_path / "log").write()
    assert damages(tmp_path / "log") == []
    with Upgraded(tmp_path / "log") as log:
        log.add("public/orders", id=5)
        log.commit()
    assert damages(tmp_path / "log") == []


def test_a_log_in_a_bucket(s3: S3Server) -> None:
    store = s3.place()
    with LogWriter.open(store, "shop") as log:
        for number in range(3):
            batch = log.begin()
            batch.add(log.bind(ORDERS, ORDER_SCHEMA, ["id"]), [order(number)])
            log.commit(batch, {}, 1)
    assert damages(store) == []
    path = ChangeLog(store).commit(2).segments[0].path
    store.delete(path)
    (damage,) = damages(store)
    assert (damage.error.code, damage.lost) == ("TM-LOG-009", (1, 2))
    assert store.where(path) in damage.error.message


def test_the_command(root: Path) -> None:
    whole = run_to_its_end([*TIDEMARK, "log", "check", str(root)])
    assert whole.returncode == 0, whole.stderr
    assert whole.stdout.endswith("nothing is damaged\n")
    segment(root, 20).unlink()
    damaged = run_to_its_end([*TIDEMARK, "log", "check", str(root)])
    assert damaged.returncode == 1
    assert "lost: 10 events of public.orders, offsets 209 to 219" in damaged.stdout
    assert "what to do: Restore the named file" in damaged.stdout
    *found, totals = map(
        json.loads, run_to_its_end([*TIDEMARK, "log", "check", str(root), "--json"]).stdout.splitlines()
    )
    assert [one["lost"] for one in found] == [{"offsets": [209, 220], "events": 10, "table": "public.orders"}]
    assert (totals["damaged"], totals["commits"]) == (1, NEWEST + 1)
