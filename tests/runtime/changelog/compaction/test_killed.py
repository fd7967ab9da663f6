"""Whoever compacts or trims a log may be killed at any moment: nothing is lost or doubled, and no file left over."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest

from tests.examples import sample
from tests.runtime.changelog.compaction.logs import compact, trim, write
from tests.runtime.changelog.dying_store import Died, copied, dying
from tests.runtime.changelog.shop import ORDERS, data_files, named_files, stored
from tests.runtime.changelog.writers import lines, place_of
from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.store import Store
from tidemark.protocol.store.opening import opened
from tidemark.runtime.changelog.retention.next_start import Retain
from tidemark.runtime.changelog.writer import LogWriter
from tidemark.runtime.upkeep.log_check import LogCheck


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with commits that were compacted, long enough ago, and others that were not."""
    root = tmp_path_factory.mktemp("prepared") / "log"
    chance = random.Random(5)
    with LogWriter.open(root, "shop") as log:
        for grace in (timedelta(), timedelta(hours=1), timedelta(hours=1)):
            write(log, chance, 25)
            compact(log, grace=grace)
        write(log, chance, 20)
    return root


def died(place: Store, at: int | None, *, after: bool) -> int | None:
    """Compacts and trims a log, and dies of it. Returns how many changes it made where it lived."""
    store = dying(place, at, after=after)
    log = None
    try:
        log = LogWriter.open(store, "shop")
        compact(log)
        trim(log)
    except Died:
        assert store.died
    else:
        return store.changes
    finally:
        if log is not None and log.lock is not None:
            log.lock.release()  # As the kernel does.
    return None


@pytest.mark.drawn(1)
def test_at_each_change_that_it_makes(prepared: Path, store: Store) -> None:
    expected = {name: stored(prepared, name) for name in (ORDERS, "public/items")}
    all_of_them = died(copied(prepared, beneath(store, "whole")), None, after=False)
    assert all_of_them is not None and all_of_them > 40
    deaths = sample(all_of_them, 5 if store.directory is not None else 2)
    for at in sorted(random.SystemRandom().sample(range(all_of_them), deaths)):
        place = copied(prepared, beneath(store, str(at)))
        assert died(place, at, after=at % 2 == 1) is None
        begin = ChangeLog(place).start()
        kept = {name: [row for row in rows if row["_offset"] >= begin] for name, rows in expected.items()}
        assert {name: stored(place, name) for name in expected} == kept, at
        with LogWriter.open(place, "shop") as log:
            write(log, random.Random(at), 15)
            compact(log)
            trim(log, Retain(recent=10**9))  # Only what is due.
        assert {name: stored(place, name)[: len(rows)] for name, rows in kept.items()} == kept
        assert [*LogCheck(ChangeLog(place)).damages()] == []
        assert data_files(place) == named_files(place), at


def beneath(store: Store, name: str) -> Store:
    """A place within another one."""
    return opened(f"{store.place}-{name}")


@pytest.mark.drawn(1)
@pytest.mark.slow
def test_at_random_moments(store: Store) -> None:
    rng, acknowledged = random.Random(7), 0
    for kill in range(sample(12, 3)):
        command = [sys.executable, "-m", "tests.runtime.changelog.compaction.compacting_process"]
        with subprocess.Popen([*command, place_of(store), str(kill)], stdout=subprocess.PIPE, text=True) as process:
            output = lines(process)
            assert next(output) == ["open"]
            for _ in range(rng.randrange(12, 40)):
                acknowledged = int(next(output)[2])
            time.sleep(rng.uniform(0, 0.1))  # Into the middle of whatever it does.
            process.kill()
            acknowledged = max([acknowledged, *(int(words[2]) for words in output)])
    with LogWriter.open(store, "shop") as log:
        assert log.state["next"] >= acknowledged
        ids = list(range(ChangeLog(store).start(), log.state["next"]))
        assert [event["id"] for event in stored(store)] == ids
        compact(log)
        assert trim(log).number > 0
    assert [event["id"] for event in stored(store)] == list(range(ChangeLog(store).start(), ids[-1] + 1))
    assert [*LogCheck(ChangeLog(store)).damages()] == []
