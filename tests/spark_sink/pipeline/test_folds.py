"""When a run that follows the log folds a table, on a real lake. The rule in simulated time: ``test_fold_rule``."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.spark_sink.log_builder import Event, create
from tests.spark_sink.pipeline.kept_lake import KeptLake
from tidemark.spark_sink.formats.file_sizes import FileSizes
from tidemark.spark_sink.pipeline.keep import keep
from tidemark.spark_sink.run.progress import LoggedProgress
from tidemark.spark_sink.run.report import Applied, KeptTable, MaterializeReport
from tidemark.spark_sink.run.settings import FoldRule
from tidemark.testing.deadline import wait_until

pytestmark = pytest.mark.spark

SELDOM = FoldRule(share=1e-6, trigger=0.01)
"""A second fold would come days later."""


class Looks(threading.Event):
    """Ends a run, and counts how often it has looked at the log and done what was due."""

    done = 0

    def wait(self, timeout: float | None = None) -> bool:
        self.done += 1
        return super().wait(timeout)


class Following(LoggedProgress):
    """A run that follows the log, as a thread; ``report`` is there once it has ended."""

    def __init__(self, lake: KeptLake, fold: FoldRule, **settings: Any) -> None:
        self.report: MaterializeReport | None = None
        self._ends: list[int] = []
        self._looks = Looks()
        told = lake.settings("current", available_now=False, fold=fold, **settings)
        self._thread = threading.Thread(target=lambda: self._run(lake, told))

    def _run(self, lake: KeptLake, settings: Any) -> None:
        self.report = keep(settings, lake.session, self, self._looks)

    def applied(self, applied: Applied) -> None:
        self._ends.append(applied.part.end)

    def folds_up_to(self, end: int) -> None:
        wait_until(lambda: self._ends and self._ends[-1] == end, 60, f"no fold up to {end}")

    def looks_and_does_not_fold(self) -> None:
        looked, folded = self._looks.done, list(self._ends)
        wait_until(lambda: self._looks.done >= looked + 3, 60, "the run does not look at the log")
        assert self._ends == folded

    @property
    def kept(self) -> KeptTable:
        assert self.report is not None
        (kept,) = self.report.tables
        return kept

    @contextmanager
    def running(self) -> Iterator[Following]:
        self._thread.start()
        try:
            yield self
        finally:
            self._looks.set()
            self._thread.join(60)


def test_a_table_is_folded_no_sooner_than_its_share_of_the_time_allows(lake: KeptLake) -> None:
    """What it lacks meanwhile is in the report, and it is folded when it has become too stale."""
    lake.log.commit(create(1))
    with Following(lake, SELDOM).running() as run:
        run.folds_up_to(1)
        lake.log.commit(create(2), create(3))
        run.looks_and_does_not_fold()
    assert (run.kept.position, run.kept.rows, run.kept.behind) == (1, 1, 2)

    with Following(lake, FoldRule(share=1e-6, max_staleness=0.0, trigger=0.01)).running() as run:
        run.folds_up_to(3)
    lake.assert_current()


def test_it_is_folded_at_once_when_its_last_row_has_come(lake: KeptLake) -> None:
    log = lake.log
    log.commit(create(1), create(2))
    with Following(lake, SELDOM).running() as run:
        run.folds_up_to(2)
        log.begin()
        log.commit(Event("t"), create(1, snapshot=True))
        run.looks_and_does_not_fold()
        log.complete()
        log.commit(create(2, snapshot=True))
        run.folds_up_to(log.offset)
        log.commit(create(3))
        run.looks_and_does_not_fold()
    assert (run.kept.position, run.kept.generation, run.kept.over) == (5, 2, 0)


def test_rows_that_fill_files_do_not_wait_until_a_fold_has_rewritten_some(lake: KeptLake) -> None:
    log = lake.log
    log.commit(create(1))
    with Following(lake, SELDOM, file_sizes=FileSizes(smallest=1, files=2**30)).running() as run:
        run.folds_up_to(1)
        log.commit(create(2))
        run.folds_up_to(2)
        log.commit(create(3))
        run.folds_up_to(3)
        log.commit(Event("u", {"id": 2, "name": "new"}))
        run.folds_up_to(4)
        log.commit(create(4))
        run.looks_and_does_not_fold()
    assert (run.kept.position, run.kept.behind) == (4, 1)


def test_rows_that_do_not_fill_files_wait(lake: KeptLake) -> None:
    lake.log.commit(create(1))
    with Following(lake, SELDOM).running() as run:
        run.folds_up_to(1)
        lake.log.commit(create(2))
        run.looks_and_does_not_fold()


def test_what_comes_while_the_session_opens_is_in_the_first_fold(lake: KeptLake) -> None:
    lake.log.commit(create(1))
    run = Following(lake, SELDOM)
    opened = lake.session

    def opens_slowly() -> Any:
        lake.log.commit(create(2), create(3))
        return opened()

    lake.session = opens_slowly
    with run.running():
        run.folds_up_to(3)
    assert run.kept.rows == 3
