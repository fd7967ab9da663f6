"""What dead writers left goes; what any commit names, what a newer writer writes, and what is not ours stays."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.runtime.changelog.shop import ORDER_SCHEMA, ORDERS, data_files, named_files, order, stored
from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.changelog.layout import CONSUMERS, consumer_name, segment_path
from tidemark.protocol.changelog.models import Commit
from tidemark.protocol.changelog.summaries import CLAIMS_KEPT, advance
from tidemark.protocol.store.local import unfinished_name
from tidemark.runtime.changelog.writer import LogWriter


def put(root: Path, path: str) -> str:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_bytes(b"left behind")
    return path


def test_leftovers_go_and_nothing_else(tmp_path: Path) -> None:
    for _ in range(3):
        with LogWriter.open(tmp_path, "shop") as log:
            batch = log.begin()
            batch.add(log.bind(ORDERS, ORDER_SCHEMA), [order(1)])
            log.commit(batch, {}, 1)
    # Epochs 1, 2, 3 have commits 0 and 1, 2 and 3, 4 and 5; the next claim is commit 6 with epoch 4.
    leftovers = {
        put(tmp_path, segment_path(collection, commit, epoch, 0))
        for collection, (commit, epoch) in itertools.product(
            [ORDERS, "public/never committed"], [(2, 1), (3, 1), (4, 2), (5, 2), (6, 3), (7, 3)]
        )
    }
    leftovers |= {put(tmp_path, f"commits/{unfinished_name()}"), put(tmp_path, unfinished_name())}
    others = {
        put(tmp_path, segment_path(ORDERS, 7, 4, 0)),
        put(tmp_path, segment_path(ORDERS, 7, 5, 0)),
        put(tmp_path, "data/public/orders/compacted.parquet"),
        put(tmp_path, "data/README"),
        put(tmp_path, "notes.tmp"),
        put(tmp_path, f"{CONSUMERS}/{consumer_name('nightly load')}"),
        put(tmp_path, f"{CONSUMERS}/{unfinished_name()}"),
    }
    LogWriter.open(tmp_path, "shop").close()
    assert not any((tmp_path / path).exists() for path in leftovers)
    assert all((tmp_path / path).exists() for path in others | named_files(tmp_path))
    assert len(stored(tmp_path)) == 3


# Of a writer that is killed here, the files that it writes are not closed.
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
@settings(max_examples=examples(20), deadline=None)
@given(st.lists(st.sampled_from(["commit", "reopen", "fill", "discard"]), max_size=12))
def test_only_named_files_are_left_after_any_history(actions: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        log = LogWriter.open(root, "shop")
        batch, written = log.begin(), 0
        for action in actions:
            match action:
                case "fill":
                    # Bound anew each time, so that what came before is on disk.
                    batch.add(log.bind(ORDERS, ORDER_SCHEMA), [order(1)])
                    batch.add(log.bind(ORDERS, ORDER_SCHEMA), [])
                case "discard":
                    batch.discard()
                    batch = log.begin()
                case "commit":
                    written += log.commit(batch, {}, 1).next_offset - batch.first_offset
                    batch = log.begin()
                case "reopen":
                    # As if killed: the lock goes, the files stay.
                    assert log.lock is not None
                    log.lock.release()
                    log._threads.shutdown()
                    log = LogWriter.open(root, "shop")
                    batch = log.begin()
                    assert data_files(root) == named_files(root)
        log.close()
        assert data_files(root) == named_files(root)
        assert len(stored(root)) == written


def test_summaries_do_not_grow_with_restarts(tmp_path: Path) -> None:
    with LogWriter.open(tmp_path, "shop") as log:
        summary = log.summary
    for number in range(1, CLAIMS_KEPT + 100):
        claim = Commit(number=number, epoch=number + 1, time=summary.time, first_offset=0, next_offset=0)
        summary = advance(summary, claim)
    assert len(summary.claims) == CLAIMS_KEPT
    assert summary.claims[summary.epoch] == summary.number
    assert ChangeLog(tmp_path).summary().claims == {1: 0}
