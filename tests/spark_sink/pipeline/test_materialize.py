"""The whole of it: a log, a streaming query, tables."""

from __future__ import annotations

import json
import random
import shutil
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from protocol.changelog import layout
from protocol.errors import ChangeLogError, SparkError
from spark_sink.pipeline.materialize import MaterializeReport, materialize
from spark_sink.source.followed_log import Limits
from tests.spark_sink.lake import Lake
from tests.spark_sink.log_builder import Event, LogBuilder, create
from tests.spark_sink.replay import random_events

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_sink.pipeline.pipeline import Applied

pytestmark = pytest.mark.spark


class SparkLake(Lake):
    """A warehouse that ``materialize`` keeps."""

    def __init__(self, spark: SparkSession, log: LogBuilder, warehouse: Path) -> None:
        super().__init__(log, warehouse)
        self.spark = spark

    def materialize(self, *kinds: str, **options: Any) -> MaterializeReport:
        tables = {"*": kinds or ("current", "history")}
        return materialize(self.log.root, self.warehouse, tables, spark=self.spark, **options)


@pytest.fixture
def lake(spark: SparkSession, log: LogBuilder, tmp_path: Path) -> SparkLake:
    return SparkLake(spark, log, tmp_path / "a lake")


def test_tables_are_what_the_events_say(lake: SparkLake) -> None:
    chance = random.Random(7)
    for limit in (1, 150, 100_000):
        for _ in range(4):
            lake.log.commit(*random_events(chance, 50, keys=60, truncates=0.005, table="public/items"))
        lake.materialize(batch=Limits(events=limit))
        lake.assert_true()


def test_the_report_says_what_was_done(lake: SparkLake) -> None:
    lake.log.commit(create(1), create(2), Event("d", {"id": 1}))
    seen: list[Applied] = []

    report = lake.materialize(progress=seen.append)

    assert [(t.table, t.kind, t.events, t.rows, t.position) for t in report.tables] == [
        ("public.items", "current", 3, 1, 3),
        ("public.items", "history", 3, 3, 3),
    ]
    assert (report.events, report.end_offset) == (6, 3)
    assert sorted((a.target.kind, a.events, a.position) for a in seen) == [("current", 3, 3), ("history", 3, 3)]
    assert lake.materialize().events == 0


def test_a_lost_checkpoint_costs_no_data_and_no_commit(lake: SparkLake) -> None:
    for i in range(3):
        lake.log.commit(create(i), create(i + 1, "b"), Event("d", {"id": 0}))
    lake.materialize(batch=Limits(events=3))
    before = lake.delta("current").version(), lake.delta("history").version()
    shutil.rmtree(lake.warehouse / "_tidemark")

    assert lake.materialize(batch=Limits(events=4)).events == 0
    assert (lake.delta("current").version(), lake.delta("history").version()) == before
    lake.assert_true()


def test_a_lost_table_is_built_again(lake: SparkLake) -> None:
    lake.log.commit(create(1), create(2))
    lake.materialize()
    shutil.rmtree(lake.warehouse / "public/items/current")

    lake.materialize()

    lake.assert_true()


def test_an_error_of_a_table_is_the_errors_own(lake: SparkLake) -> None:
    (lake.log.root / lake.log.commit(create(1)).segments[0].path).unlink()

    with pytest.raises(ChangeLogError, match=r"TM-LOG-009: .*\.parquet is missing"):
        lake.materialize()


def test_an_error_of_the_stream_is_the_errors_own(lake: SparkLake) -> None:
    lake.log.commit(create(1))
    lake.materialize()
    lake.log.commit(create(2))
    commit = lake.log.root / layout.COMMITS / layout.commit_name(1)
    whole = commit.read_bytes()
    commit.write_bytes(whole[:-9])

    with pytest.raises(ChangeLogError, match=r"TM-LOG-002: .*\.json is damaged"):
        lake.materialize()

    commit.write_bytes(whole)
    lake.materialize()
    lake.assert_true()


def test_wrong_calls_are_errors_before_anything_starts(lake: SparkLake) -> None:
    with pytest.raises(ChangeLogError, match="TM-LOG-001"):
        materialize(lake.warehouse, lake.warehouse, {"*": "current"}, spark=lake.spark)
    with pytest.raises(SparkError, match=r"TM-SPK-008.*iceberg"):
        lake.materialize(table_format="iceberg")
    with pytest.raises(SparkError, match=r"TM-SPK-008.*scd2"):
        lake.materialize("scd2")


def test_it_follows_the_log_until_it_is_stopped(lake: SparkLake) -> None:
    lake.log.commit(create(1))
    stop, first, second = threading.Event(), threading.Event(), threading.Event()

    def seen(applied: Applied) -> None:
        {1: first, 2: second}[applied.position].set()

    reports: list[MaterializeReport] = []
    running = threading.Thread(
        target=lambda: reports.append(lake.materialize("current", available_now=False, progress=seen, stop=stop))
    )
    running.start()
    try:
        assert first.wait(60)
        lake.log.commit(create(2))
        assert second.wait(60)
    finally:
        stop.set()
        running.join(60)

    assert reports[0].tables[0].rows == 2
    memory = json.loads((lake.warehouse / "_tidemark" / "log-1" / "memory.json").read_text())
    assert memory == {"end": 2, "positions": {"public/items current": 2}}
