"""What a batch costs does not grow with the batches before it, in runs that each apply what is new and end."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.spark_sink.log_builder import Event, create
from tests.spark_sink.pipeline.kept_lake import KeptLake
from tests.spark_sink.pipeline.test_keep import Heard
from tidemark.protocol.changelog import layout
from tidemark.protocol.store.local import DirectoryStore
from tidemark.spark_sink.pipeline.keep import keep
from tidemark.spark_sink.run.report import Applied
from tidemark.spark_sink.run.settings import FoldRule, VacuumRule

pytestmark = pytest.mark.spark


class Looked:
    """Which files were read whole, and which directories listed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.at: list[Path] = []
        for name in ("listdir", "scandir"):
            monkeypatch.setattr(os, name, self._noting(getattr(os, name)))
        read = DirectoryStore.read

        def noted(store: DirectoryStore, path: str, *more: Any) -> bytes:
            self.at.append(store.root / path)
            return read(store, path, *more)

        monkeypatch.setattr(DirectoryStore, "read", noted)

    def _noting(self, look: Callable[..., Any]) -> Callable[..., Any]:
        def noted(path: Any, *more: Any) -> Any:
            self.at.append(Path(path))
            return look(path, *more)

        return noted


def test_a_run_reads_no_more_of_a_long_log_than_of_a_short_one(lake: KeptLake, monkeypatch: pytest.MonkeyPatch) -> None:
    def looked_at_by_a_run() -> list[Path]:
        lake.log.commit(create(lake.log.number))
        with monkeypatch.context() as patched:
            looked = Looked(patched)
            lake.keep_well("current")
        return [path for path in looked.at if path.is_relative_to(lake.log.root / layout.COMMITS)]

    for _ in range(5):
        lake.log.commit(create(lake.log.number))
    lake.keep_well("current")
    short = looked_at_by_a_run()
    assert short, "commits are read in another way, which this test does not see"
    for _ in range(2 * layout.SUMMARY_EVERY - 1):
        lake.log.commit(create(lake.log.number))
    lake.keep_well("current")
    long = looked_at_by_a_run()

    assert lake.log.root / layout.COMMITS not in long, "a listing is longer with every commit"
    # One more for each time that the log has become twice as long: where an offset is, is found by halving.
    assert len(long) <= len(short) + 6
    lake.assert_current()


def test_short_runs_together_remove_enough_to_be_vacuumed(lake: KeptLake) -> None:
    at_once = VacuumRule(min_age=timedelta(), pause=timedelta())
    for number in range(8):
        lake.log.commit(create(number))
        lake.keep_well("current", vacuum=at_once)

    files = [path.stat().st_size for path in (lake.warehouse / "public/items/current").glob("*.parquet")]
    live = lake.delta("current").count()
    assert live == 8
    # What is live, as much again that left it lately, and what came since.
    assert len(files) <= 4


def test_a_table_that_is_followed_leaves_few_old_files(lake: KeptLake) -> None:
    """Each fold replaces all of it, and an hour lasts a second. What the last fold replaced has just come to them."""
    rule = VacuumRule(min_age=timedelta(seconds=1), pause=timedelta(seconds=0.25), spare=15_000)
    text = random.Random(1)
    lake.log.commit(*(create(id, text.randbytes(100).hex()) for id in range(400)))
    path = lake.warehouse / "public/items/current"
    stop, found = threading.Event(), list[tuple[int, int]]()

    def seen(applied: Applied) -> None:
        sizes = {file.name: file.stat().st_size for file in path.glob("*.parquet")}
        live = sum(sizes.pop(name) for name in lake.delta("current").get_add_actions().column("path").to_pylist())
        found.append((live, sum(sizes.values())))
        if len(found) == 7:
            stop.set()
        lake.log.commit(Event("u", {"id": 3, "name": "new"}))

    fold = FoldRule(share=1.0, trigger=0.01)
    keep(lake.settings("current", available_now=False, fold=fold, vacuum=rule), lake.session, Heard(seen), stop)

    assert len(found) == 7
    assert [(live, old) for live, old in found if old > live + rule.spare + live] == []


def test_small_files_of_a_history_are_joined(lake: KeptLake) -> None:
    for number in range(10):
        lake.log.commit(create(number), Event("u", {"id": number, "name": "new"}))
        lake.keep_well()

    assert lake.delta("history").get_add_actions().num_rows < 5
    lake.assert_true()


def test_a_changed_row_rewrites_a_small_part_of_a_table_of_some_megabytes(lake: KeptLake) -> None:
    text = random.Random(1)
    lake.log.commit(*(create(id, text.randbytes(1000).hex(), snapshot=True) for id in range(3000)))
    lake.keep_well("current")
    lake.log.commit(Event("u", {"id": 700, "name": "new"}))
    lake.keep_well("current")  # what was loaded in one file is in many now
    lake.log.commit(Event("u", {"id": 700, "name": "newer"}))
    (table,) = lake.keep_well("current").tables

    live = sum(lake.delta("current").get_add_actions().column("size_bytes").to_pylist())
    assert live > 2_500_000
    assert 0 < table.cost.bytes_written < live / 5
    lake.assert_current()
