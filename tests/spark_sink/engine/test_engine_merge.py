"""The way ``sql``: what Delta Lake for Spark merges is what the events say, however it stores it."""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.examples import sample
from tests.spark_sink.lake import ITEMS
from tests.spark_sink.log_builder import Event, create, schema
from tests.spark_sink.pipeline.histories import History
from tests.spark_sink.pipeline.kept_lake import KeptLake, named
from tests.spark_sink.pipeline.test_histories import commit
from tests.spark_sink.replay import replay
from tidemark import read_table
from tidemark.spark_sink.formats.delta_table import PositionedTable
from tidemark.spark_sink.parts.engine_merge import EngineMerge
from tidemark.spark_sink.parts.part_plan import plan_part
from tidemark.spark_sink.parts.spark_jobs import SparkJobs
from tidemark.spark_sink.pipeline.keep import keep
from tidemark.spark_sink.pipeline.table_keeper import TableKeeper
from tidemark.spark_sink.source.followed_log import FollowedLog
from tidemark.spark_sink.tables.kept_tables import Target
from tidemark.spark_sink.tables.store_place import StorePlace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

pytestmark = [pytest.mark.spark, pytest.mark.slow]

KEYS = {"a/texts": {"the.té'xt `": "string"}, "a/nullable": {"tenant": "string", "number": "decimal(12,2)"}}


def name_of(lake: KeptLake, kind: str = "current", collection: str = ITEMS) -> str:
    return f"delta.`file:{Target(collection, kind).place(StorePlace.of(lake.warehouse))}`"


def engine_rows(spark: SparkSession, lake: KeptLake, collection: str = ITEMS) -> list[dict[str, Any]]:
    """A current table as the engine reads it: what delta-rs cannot, where there are deletion vectors."""
    rows = spark.sql(f"SELECT * FROM {name_of(lake, collection=collection)}").toArrow().to_pylist()
    return sorted(rows, key=lambda row: row["_offset"])


def expected(lake: KeptLake, collection: str = ITEMS) -> list[dict[str, Any]]:
    rows = replay(
        lake.log.shown_events(collection), lake.log.schemas[collection].key, lake.log.columns.get(collection, ())
    )
    return sorted(rows.values(), key=lambda row: row["_offset"])


def without_time(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != "_commit_ts"} for row in rows]


def test_merged_tables_are_what_the_events_say(lake: KeptLake, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, __name__)
    seed = os.environ.get("SEED") or os.urandom(4).hex()
    logger.info("random histories of SEED=%s", seed)  # shown where the test fails
    chance = random.Random(seed)
    histories = [History(chance, name, key, sample(60, 40), nulls=name == "a/nullable") for name, key in KEYS.items()]
    for history in histories:
        lake.log.change_schema(history.schema)
    lake.log.commit(*(event for history in histories for event in history.first_load()), rows=30)

    for way in sample(("sql", "task", "sql"), ("task", "sql")):
        commit(lake, histories, chance)
        report = lake.keep_well(way=way)
        assert {kept.way for kept in report.tables} == {way}
        for history in histories:
            lake.assert_true(history.collection)


def with_deletion_vectors(spark: SparkSession, lake: KeptLake) -> None:
    """A table of items that holds deletion vectors, as one has whose owner switched them on."""
    lake.log.commit(*(create(id, f"row {id}") for id in range(1, 40)))
    lake.keep_well("current")
    spark.sql(f"ALTER TABLE {name_of(lake)} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    lake.log.commit(Event("d", {"id": 7}), Event("u", {"id": 8, "name": "new"}, ("note",)))
    assert named(lake.keep_well("current", way="sql")).way == "sql"


def test_a_table_with_deletion_vectors_is_kept_by_its_engine(spark: SparkSession, lake: KeptLake) -> None:
    with_deletion_vectors(spark, lake)
    table = PositionedTable(
        Target(ITEMS, "current").place(StorePlace.of(lake.warehouse)), "log-1", Target(ITEMS, "current").name
    )
    assert table.engine_only is not None
    lake.log.change_schema(schema(ITEMS, ("id",), id="bigint", name="string", note="string", added="bigint"))
    lake.log.commit(
        Event("c", {"id": 100, "name": "added", "added": 5}), Event("u", {"id": 9, "added": 6}, ("name", "note"))
    )
    assert named(lake.keep_well("current")).way == "sql"
    assert without_time(engine_rows(spark, lake)) == expected(lake)

    lake.log.commit(create(200, "gone"), Event("t"), create(8, "after"), Event("u", {"id": 9, "added": 7}, ("name",)))
    lake.log.commit(Event("d", {"id": 8}))
    live = read_table(spark, lake.log.root, "public.items", warehouse=lake.warehouse).toArrow().to_pylist()
    assert without_time(sorted(live, key=lambda row: row["_offset"])) == expected(lake)
    lake.keep_well("current")
    assert without_time(engine_rows(spark, lake)) == expected(lake)


def test_a_table_with_a_feature_that_only_its_engine_writes_is_kept_by_it(spark: SparkSession, lake: KeptLake) -> None:
    lake.log.commit(create(1, "a"), create(2, "b"))
    lake.keep_well("current")
    spark.sql(f"ALTER TABLE {name_of(lake)} CLUSTER BY (name)")
    lake.log.change_schema(schema(ITEMS, ("id",), id="bigint", name="string", note="string", added="bigint"))
    lake.log.commit(Event("d", {"id": 1}), Event("u", {"id": 2, "added": 5}, ("name", "note")))

    assert named(lake.keep_well("current")).way == "sql"
    assert without_time(engine_rows(spark, lake)) == expected(lake)


def test_a_column_that_somebody_renamed_is_refused_until_it_is_back(spark: SparkSession, lake: KeptLake) -> None:
    lake.log.commit(create(1, "a"), create(2, "b"))
    lake.keep_well("current")
    spark.sql(f"ALTER TABLE {name_of(lake)} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    spark.sql(f"ALTER TABLE {name_of(lake)} RENAME COLUMN name TO title")
    lake.log.commit(Event("u", {"id": 1, "note": "new"}, ("name",)))
    (table,) = lake.keep("current").set_aside
    assert "RENAME COLUMN" in str(table.error)

    before = spark.sql(f"DESCRIBE HISTORY {name_of(lake)} LIMIT 1").collect()[0]["version"] - 1
    spark.sql(f"RESTORE TABLE {name_of(lake)} TO VERSION AS OF {before}")
    lake.keep_well("current")
    assert without_time(engine_rows(spark, lake)) == expected(lake)


LAST = [Event("u", {"id": 9, "name": "last"}, ("note",)), create(101, "last")]


@pytest.mark.parametrize("last", sample([[], LAST], [LAST]))
def test_new_rows_are_laid_over_the_old_ones_until_they_are_whole(
    spark: SparkSession, lake: KeptLake, last: list[Event]
) -> None:
    with_deletion_vectors(spark, lake)
    lake.log.begin()
    lake.log.commit(Event("t"), create(9, "new", snapshot=True), Event("d", {"id": 10}), create(100, "new"))
    lake.log.commit(Event("u", {"id": 11, "name": "new"}, ("note",)), create(11, "new", snapshot=True))
    kept = named(lake.keep_well("current"))
    assert (kept.way, kept.generation, kept.over) == ("sql", 2, 1)
    assert without_time(engine_rows(spark, lake)) == expected(lake)
    lake.log.complete()
    lake.log.commit(*last)
    live = read_table(spark, lake.log.root, "public.items", warehouse=lake.warehouse).toArrow().to_pylist()
    assert without_time(sorted(live, key=lambda row: row["_offset"])) == expected(lake)
    version = int(spark.sql(f"DESCRIBE HISTORY {name_of(lake)} LIMIT 1").collect()[0]["version"])
    kept = named(lake.keep_well("current"))
    assert (kept.generation, kept.over) == (2, 0)
    assert without_time(engine_rows(spark, lake)) == expected(lake)
    assert spark.sql(f"DESCRIBE HISTORY {name_of(lake)} LIMIT 1").collect()[0]["version"] == version + 1
    assert lake.keep_well("current").events == 0


def test_events_that_come_to_nothing_move_the_position(spark: SparkSession, lake: KeptLake) -> None:
    with_deletion_vectors(spark, lake)
    lake.log.commit(create(300), Event("d", {"id": 300}))
    report = lake.keep_well("current")
    assert named(report).position == report.end_offset
    assert lake.keep_well("current").events == 0


def test_a_restored_table_takes_again_what_it_lost(spark: SparkSession, lake: KeptLake) -> None:
    for number in range(2):
        lake.log.commit(*(create(10 * number + id, f"batch {number}") for id in range(5)))
        lake.keep_well(way="sql")
    for kind in ("current", "history"):
        spark.sql(f"RESTORE TABLE {name_of(lake, kind)} TO VERSION AS OF 1")
    lake.log.commit(Event("d", {"id": 1}))
    lake.keep_well(way="sql")
    lake.assert_true()


@pytest.mark.parametrize("faster", sample(["by as much", "by more"], ["by more"]))
def test_of_two_merges_from_one_version_one_is_committed(spark: SparkSession, lake: KeptLake, faster: str) -> None:
    lake.log.commit(create(1), create(2))
    lake.keep_well(way="sql")
    lake.log.commit(Event("u", {"id": 1, "name": "new"}), create(3))
    log = FollowedLog(lake.log.root)
    warehouse = StorePlace.of(lake.warehouse)
    slow = {kind: TableKeeper(log, Target(ITEMS, kind), warehouse) for kind in ("current", "history")}
    end = log.end()
    if faster == "by more":
        lake.log.commit(Event("u", {"id": 1, "name": "newer"}), Event("d", {"id": 3}))
    lake.keep_well(way="sql")
    for kind, keeper in slow.items():
        segments = list(log.segments(ITEMS, keeper.position, end))
        state = keeper.state_for(log.summary_at(end), segments)
        shown = keeper.target.shown(log.summary_at(end)) if kind == "current" else None
        part = plan_part(keeper.target, state, segments, end, lake.settings(way="sql"), shown)
        error = EngineMerge(SparkJobs(lambda: spark), log).apply(part, keeper.table).error
        # Where the other run took the same part, the table is where this one wanted it.
        assert (error.code if error else None) == ("TM-SPK-010" if faster == "by more" else None), kind
    assert lake.keep_well(way="sql").events == 0
    lake.assert_true()


def test_what_others_write_with_the_session_is_not_taken_for_ours(spark: SparkSession, lake: KeptLake) -> None:
    lake.log.commit(create(1), create(2))
    lake.keep_well("current", way="sql")
    spark.sql(f"DELETE FROM {name_of(lake)} WHERE id = 1")
    lake.log.commit(create(3))
    (table,) = lake.keep("current", way="sql").set_aside
    assert str(table.error).startswith("TM-SPK-016")


def test_a_merge_that_is_killed_is_merged_again(spark: SparkSession, lake: KeptLake, tmp_path: Path) -> None:
    """The segment is gone for a moment: the job fails after the table was looked at, and nothing was committed."""
    lake.log.commit(create(1), create(2))
    lake.keep_well("current", way="sql")
    lake.log.commit(create(3), Event("d", {"id": 1}))
    log = FollowedLog(lake.log.root)
    (segment,) = log.segments(ITEMS, 2, log.end())
    hidden = tmp_path / "hidden"
    (lake.log.root / segment.path).rename(hidden)
    report = keep(lake.settings("current", way="sql"), lake.session)
    assert str(report.set_aside[0].error).startswith("TM-LOG-009")
    hidden.rename(lake.log.root / segment.path)
    lake.keep_well("current", way="sql", retry=("public.items",))
    lake.assert_current()
