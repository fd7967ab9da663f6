"""Kept tables in a bucket, from a log in a bucket: all that happens to those in a directory."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from tests.spark_sink.lake import ITEMS
from tests.spark_sink.log_builder import Event, LogBuilder, create, schema
from tests.spark_sink.objects.bucket_lake import BucketLake
from tests.spark_sink.pipeline.kept_lake import named
from tidemark.protocol.errors import SparkError
from tidemark.spark_sink.formats.delta_log import DeltaLog
from tidemark.spark_sink.formats.delta_table import PositionedTable
from tidemark.spark_sink.formats.maintenance import clean, vacuum
from tidemark.spark_sink.formats.positions import Position
from tidemark.spark_sink.live.read_table import live_frame
from tidemark.spark_sink.live.state_partitions import plan_state, read_state
from tidemark.spark_sink.live.table_view import table_view
from tidemark.spark_sink.source.followed_log import FollowedLog
from tidemark.spark_sink.tables.kept_tables import Target
from tidemark.spark_sink.tables.store_place import StorePlace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

CURRENT = Target(ITEMS, "current")


@pytest.fixture
def lake(log: LogBuilder, bucket: StorePlace, spark: SparkSession) -> BucketLake:
    return BucketLake(log, bucket, lambda: spark)


def opened(lake: BucketLake) -> PositionedTable:
    return PositionedTable(CURRENT.place(lake.lake_place), "log-1", CURRENT.name)


def seen(lake: BucketLake, spark: SparkSession, end: int) -> list[dict[str, object]]:
    """The live view, which reads the same natively and as a data source."""
    view = table_view(FollowedLog(lake.log_place), "public.items", end, lake.lake_place)
    rows = [row.asDict() for row in live_frame(spark, view).collect()]
    by_tasks = [
        row for part in plan_state(view, view.columns) for batch in read_state(part) for row in batch.to_pylist()
    ]
    assert sorted(row["_offset"] for row in rows) == sorted(row["_offset"] for row in by_tasks)
    return sorted(({"id": row["id"], "name": row["name"]} for row in rows), key=lambda row: row["id"])


def test_tables_follow_all_that_happens(lake: BucketLake, spark: SparkSession) -> None:
    lake.log.commit(create(1), create(2, snapshot=True), create(3))
    lake.keep_well()
    lake.assert_true()
    lake.log.commit(Event("u", {"id": 1, "name": "new"}, ("note",)), Event("d", {"id": 2}))
    lake.keep_well(way="rewrite")
    lake.assert_true()
    lake.log.change_schema(schema(id="bigint", name="string", note="string", added="bigint"))
    lake.log.commit(Event("c", {"id": 4, "name": "d", "added": 7}))
    lake.keep_well()
    lake.assert_true()
    lake.log.commit(Event("t"), create(5), create(6))
    lake.settings()
    assert seen(lake, spark, lake.log.offset) == [{"id": 5, "name": None}, {"id": 6, "name": None}]
    lake.keep_well()
    lake.assert_true()
    lake.log.begin()
    lake.log.commit(Event("t"), create(5), create(7))
    lake.log.complete()
    lake.log.commit(Event("d", {"id": 7}))
    report = lake.keep_well()
    lake.assert_true()
    assert named(report).path == f"{lake.lake_place}/public/items/current"
    assert lake.keep_well().events == 0
    assert [row["id"] for row in seen(lake, spark, 3)] == [1, 2, 3]


def test_a_restored_table_goes_on_from_its_rows_and_is_looked_after(lake: BucketLake) -> None:
    for number in range(1, 5):
        lake.log.commit(create(number))
        lake.keep_well()
    lake.delta("current").restore(2)
    assert opened(lake).position == 2
    lake.keep_well()
    lake.assert_true()

    table = opened(lake)
    assert [version.position.offset for version in table.versions()][:2] == [4, 2]
    files = {file.path for file in table.files()}
    later = datetime.now(UTC) + timedelta(days=2)
    assert vacuum(table, timedelta(), now=later)
    assert files == {entry.path for entry in table.place.store.list("") if "/" not in entry.path}
    assert [version.position.offset for version in opened(lake).versions()] == [4, 0]
    for _ in range(2):
        clean(table, commits_kept=0)
    assert DeltaLog(table.place).first_commit() == table.version
    lake.log.commit(Event("d", {"id": 1}))
    lake.keep_well()
    lake.assert_true()

    lake.keep_well(rebuild=("public.items",))
    lake.assert_true()
    assert any(".replaced-" in entry.path for entry in lake.lake_place.store.list(""))


def test_of_two_writers_one_commits(lake: BucketLake) -> None:
    lake.log.commit(create(1))
    lake.keep_well("current")
    for step in range(2, 6):
        writers = [opened(lake), opened(lake)]
        begin, refused = threading.Barrier(len(writers)), []

        def write(writer: PositionedTable, begin: threading.Barrier = begin, step: int = step) -> None:
            begin.wait(60)
            try:
                writer.commit([], [], Position(step))
            except SparkError as error:
                refused.append(error.code)  # noqa: B023

        threads = [threading.Thread(target=write, args=(writer,)) for writer in writers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert refused == ["TM-SPK-010"]
        assert opened(lake).position == step


def test_versions_of_a_table_are_found_without_listing_their_files(lake: BucketLake) -> None:
    folder = lake.lake_place / "public/items"
    for name in ("current", "current__v2", "current__v10", "history"):
        for part in range(3):
            (folder / name).store.replace(f"_delta_log/{part}", b"")
    assert [target.version for target in CURRENT.versions(lake.lake_place)] == [10, 2, 1]
