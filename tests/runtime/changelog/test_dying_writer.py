"""A writer may die before or after any change that it makes: what it acknowledged is there, and all of it once."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.examples import sample
from tests.runtime.changelog.dying_store import Died, Dying, copied, dying
from tests.runtime.changelog.shop import ORDER_SCHEMA, ORDERS, data_files, named_files, order, stored
from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.changelog.layout import SUMMARY_EVERY
from tidemark.protocol.store import Store
from tidemark.protocol.store.opening import opened
from tidemark.runtime.changelog.writer import LogWriter
from tidemark.runtime.upkeep.log_check import LogCheck

LINES = "public/lines"
ROWS = 3
COMMITS = 4


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log whose second commit from now has a summary."""
    root = tmp_path_factory.mktemp("old") / "log"
    write(root, SUMMARY_EVERY - 3)
    return root


def write(place: Store | Path, commits: int, acknowledged: list[int] | None = None) -> None:
    """Commits orders and their lines, from where the log ends, and notes the first id that is not acknowledged."""
    with opened_writer(place) as log:
        orders, lines = (log.bind(name, ORDER_SCHEMA, ["id"]) for name in (ORDERS, LINES))
        for _ in range(commits):
            first = log.state.get("next", 0)
            batch = log.begin()
            for bound in (orders, lines):
                batch.add(bound, [order(id) for id in range(first, first + ROWS)])
            log.commit(batch, {"next": first + ROWS}, 1)
            if acknowledged is not None:
                acknowledged.append(first + ROWS)


@contextmanager
def opened_writer(place: Store | Path) -> Iterator[LogWriter]:
    with LogWriter.open(place, "shop") as log:
        try:
            yield log
        except Died:
            if log.lock is not None:
                log.lock.release()  # As the kernel does.
            raise


@pytest.mark.drawn(2)
@pytest.mark.parametrize("begin", ["new", "old"])
def test_at_each_change_that_it_makes(begin: str, store: Store, old: Path) -> None:
    def place(name: str) -> Store:
        found = opened(f"{store.place}-{name}")
        return copied(old, found) if begin == "old" else found

    lived = dying(place("whole"), None, after=False)
    write(lived, COMMITS)
    assert lived.changes > 3 * COMMITS
    every = [(at, after) for at in range(lived.changes) for after in (False, True)]
    deaths = sample(len(every), 5 if store.directory else 2)
    for at, after in random.SystemRandom().sample(every, deaths):
        acknowledged: list[int] = []
        dead = dying(place(f"{at}-{after}"), at, after=after)
        write_until_death(dead, acknowledged)
        there = opened(dead.place)
        # The next writer finds what was acknowledged, and continues there.
        write(there, COMMITS)
        log = ChangeLog(there)
        ids = list(range(log.summary().state["next"]))
        assert len(ids) >= max(acknowledged, default=0) + COMMITS * ROWS
        for name in (ORDERS, LINES):
            assert [event["id"] for event in stored(there, name)] == ids, (at, after)
        assert [*LogCheck(log).damages()] == []
        assert data_files(there) == named_files(there), (at, after)


def write_until_death(store: Dying, acknowledged: list[int]) -> None:
    with pytest.raises(Died):
        write(store, COMMITS, acknowledged)
    assert store.died
