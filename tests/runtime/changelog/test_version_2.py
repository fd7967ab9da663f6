"""A log of version 2 is read as it is. The next capture makes it one of version 5, and goes on."""

from __future__ import annotations

import hashlib
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.protocol.version_2 import COMMITS, END, ITEMS, OFFSETS, ORDERS, SUMMARY, OldLog
from tests.runtime.changelog.shop import stored
from tests.runtime.changelog.upgraded import Upgraded
from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.changelog.layout import SUMMARY_EVERY, commit_name, summary_name
from tidemark.protocol.changelog.shown import shown

KILLED = """
import os, pathlib, signal, sys
from tidemark.runtime.changelog import claim

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

{place} = die
claim.claimed(pathlib.Path(sys.argv[1]), "shop")
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    OldLog(tmp_path / "a log").write()
    return tmp_path / "a log"


def content(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def known(root: Path) -> dict[str, list[tuple[int, int, int | None]]]:
    """Of each generation its number, its events, and where it ends."""
    generations = ChangeLog(root).summary().generations
    return {table: [(one.number, one.events, one.ended) for one in found] for table, found in generations.items()}


def offsets(root: Path) -> dict[str, list[int]]:
    return {table: [event["_offset"] for event in stored(root, table)] for table in OFFSETS}


@pytest.mark.parametrize("summary", [True, False])
def test_it_is_read_as_it_is(root: Path, summary: bool) -> None:
    assert SUMMARY == SUMMARY_EVERY
    if not summary:
        (root / "commits" / summary_name(SUMMARY)).unlink()
    before = content(root)
    log = ChangeLog(root)
    assert log.header.format_version == 2
    assert known(root) == {ORDERS: [(1, 7, None)], ITEMS: [(1, 4, None)]}
    (orders,), (items,) = (log.summary().generations[table] for table in (ORDERS, ITEMS))
    assert orders.whole == orders.begin == 0
    assert items.whole == items.begin <= min(OFFSETS[ITEMS])
    assert [len(log.schema(one).columns) for one in (*orders.fingerprints, *items.fingerprints)] == [3, 4, 2]
    assert offsets(root) == OFFSETS
    assert log.summary().state == {"cursor": len(COMMITS) - 1}
    assert content(root) == before


def test_it_is_upgraded_and_goes_on(root: Path) -> None:
    before = content(root)
    with Upgraded(root) as log:
        claim = ChangeLog(root).commit(len(COMMITS))
        newest = before[f"commits/{commit_name(len(COMMITS) - 1)}"]
        assert claim.previous == hashlib.sha256(newest).hexdigest()
        assert (claim.epoch, claim.first_offset) == (3, END)
        assert log.writer.state == {"cursor": len(COMMITS) - 1}
        log.add(ORDERS, "u", id=1, note="new", total="1.00", paid=False)
        log.add(ITEMS, "t")
        log.add(ITEMS, id=4, name="name 4")
        commit = log.commit()
    assert commit.schemas == {}, "the columns are as they were"
    assert commit.generations == []
    after = content(root)
    assert ChangeLog(root).header.format_version == 5
    assert after.pop("tidemark.json") != before.pop("tidemark.json")
    assert after.items() >= before.items(), "no commit and no segment is another one"
    assert known(root) == {ORDERS: [(1, 8, None)], ITEMS: [(1, 6, None)]}
    assert offsets(root) == {ORDERS: [*OFFSETS[ORDERS], END], ITEMS: [*OFFSETS[ITEMS], END + 1, END + 2]}


def test_events_that_do_not_fit_wait_for_a_generation_of_their_own(root: Path) -> None:
    with Upgraded(root) as log:
        log.change(ORDERS, total={"type": "string", "format": "date"})
        log.add(ORDERS, id=5, total="2026-01-31")
        log.commit()
        assert known(root)[ORDERS] == [(1, 7, END)]
        log.begin(ORDERS)
        log.commit()
        summary = ChangeLog(root).summary()
        found = shown(summary, ORDERS)
        assert found is not None and found.generations == (summary.generations[ORDERS][0],)
        log.complete(ORDERS)
        log.commit()
    (newest,) = ChangeLog(root).summary().generations[ORDERS]
    assert (newest.number, newest.begin, newest.whole) == (2, END + 1, END + 2)
    assert newest.why == "column total was decimal(12,2) and is date"
    assert known(root)[ITEMS] == [(1, 4, None)]


@pytest.mark.parametrize(("place", "version"), [("os.replace", 2), ("claim._claim", 5)])
def test_a_kill_while_it_is_upgraded(root: Path, place: str, version: int) -> None:
    before = content(root)
    ended = subprocess.run([sys.executable, "-c", KILLED.format(place=place), root], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert ChangeLog(root).header.format_version == version
    commits = {name: text for name, text in content(root).items() if name.startswith("commits/")}
    assert commits.items() <= before.items(), "the header comes first: until then, earlier versions can go on"
    assert offsets(root) == OFFSETS
    with Upgraded(root) as log:
        log.add(ITEMS, id=4, name="name 4")
        log.commit()
    assert ChangeLog(root).header.format_version == 5
    assert ChangeLog(root).commit(len(COMMITS)).epoch == 3
    assert offsets(root) == {**OFFSETS, ITEMS: [*OFFSETS[ITEMS], END]}
    assert [path.name for path in root.rglob("*.tmp")] == []
