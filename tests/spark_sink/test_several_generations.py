"""Events of several generations read together: history, changes, the source and streams.

A table's column was a number, and the table was read again with a date under the same name.
"""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException

from tests.spark_sink.log_builder import Event, LogBuilder
from tests.spark_sink.pipeline.kept_lake import KeptLake
from tests.spark_sink.source.test_stream_reader import Sink
from tidemark.protocol.changelog import Column, TableSchema
from tidemark.protocol.errors import SparkError
from tidemark.spark_sink.source.native_scan import read_changes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

DAY = date(2026, 1, 31)
ROWS = [(1, 5, None), (2, 6, None), (None, None, None), (1, None, DAY), (2, None, DAY)]
"""``id``, ``c`` and ``c__2`` of each event."""


def of_type(type_: str, spanning: str | None = None) -> TableSchema:
    columns = [Column(name="id", type="bigint"), Column(name="c", type=type_, spanning=spanning)]
    return TableSchema(collection="public/items", columns=columns, key=["id"])


@pytest.fixture
def log(tmp_path: Path) -> LogBuilder:
    """Two events with a number; the table is emptied and read again, with a date."""
    made = LogBuilder(tmp_path / "log", of_type("bigint"))
    made.commit(Event("c", {"id": 1, "c": 5}), Event("c", {"id": 2, "c": 6}))
    return made


def read_again(log: LogBuilder) -> None:
    log.change_schema(of_type("date", "c__2"))
    log.begin()
    log.commit(
        Event("t"),
        Event("c", {"id": 1, "c": DAY}, snapshot=True),
        Event("u", {"id": 2, "c": DAY}, unchanged=("c",), before='{"c":"2026-01-30","id":2.00}'),
    )
    log.complete()
    log.commit()


def found(frame: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in frame.orderBy("_offset").select(*columns).collect()]


def batch(spark: SparkSession, log: LogBuilder, **options: Any) -> DataFrame:
    given = {"path": str(log.root), "table": "public.items", **options}
    return spark.read.format("tidemark").options(**given).load()


def test_older_and_newer_values_have_a_column_each(spark: SparkSession, log: LogBuilder) -> None:
    read_again(log)
    for frame in (read_changes(spark, log.root, "public.items"), batch(spark, log)):
        assert frame.columns[:3] == ["id", "c", "c__2"]
        assert found(frame, "id", "c", "c__2") == ROWS
        assert found(frame, "_unchanged", "_before")[4] == (["c__2"], '{"c__2":"2026-01-30","id":2.00}')


@pytest.mark.parametrize(("start", "end", "expected"), [(0, 2, [5, 6]), (2, 5, [None, DAY, DAY]), (3, 5, [DAY, DAY])])
def test_a_range_of_one_generation_has_plain_names(
    spark: SparkSession, log: LogBuilder, start: int, end: int, expected: list[Any]
) -> None:
    read_again(log)
    options = {"startingOffset": start, "endingOffset": end}
    for frame in (read_changes(spark, log.root, "public.items", start, end), batch(spark, log, **options)):
        assert frame.columns[:2] == ["id", "c"]
        assert "c__2" not in frame.columns
        assert [value for (value,) in found(frame, "c")] == expected


def test_a_given_type_that_holds_all_values_exactly_takes_them(spark: SparkSession, log: LogBuilder) -> None:
    read_again(log)
    frame = read_changes(spark, log.root, "public.items", schema="c string, _offset bigint")
    assert found(frame, "c") == [("5",), ("6",), (None,), ("2026-01-31",), ("2026-01-31",)]
    pinned = spark.read.format("tidemark").schema("c string, _offset bigint")
    assert found(pinned.options(path=str(log.root), table="public.items").load(), "c") == found(frame, "c")


def test_a_given_type_that_does_not_is_refused_by_name(spark: SparkSession, log: LogBuilder) -> None:
    read_again(log)
    with pytest.raises(SparkError, match=r"TM-SPK-005: column c of public\.items is stored as bigint"):
        read_changes(spark, log.root, "public.items", schema="c date, _offset bigint")
    pinned = spark.read.format("tidemark").schema("c date").options(path=str(log.root), table="public.items")
    with pytest.raises(PySparkException, match="TM-SPK-005"):
        pinned.load().collect()


@pytest.mark.parametrize("way", ["task", "rewrite"])
def test_history_has_them_all(spark: SparkSession, log: LogBuilder, tmp_path: Path, way: str) -> None:
    lake = KeptLake(log, tmp_path / "lake", lambda: spark)
    lake.keep_well("history", "current", way=way)
    read_again(log)
    lake.keep_well("history", "current", way=way)
    assert [(row["id"], row["c"], row["c__2"]) for row in lake.rows("history")] == ROWS
    assert [(row["id"], row["c"]) for row in lake.rows("current")] == [(1, DAY), (2, DAY)]
    named = {field.name: field.metadata.get("tidemark.source") for field in lake.delta("history").schema().fields}
    assert (named["c"], named["c__2"]) == (None, "c")
    rebuilt = KeptLake(log, tmp_path / "other", lambda: spark)
    rebuilt.keep_well("history", way=way)
    assert rebuilt.rows("history") == lake.rows("history")


@pytest.mark.parametrize("way", ["task", "rewrite"])
def test_history_widens_a_column_once(spark: SparkSession, log: LogBuilder, tmp_path: Path, way: str) -> None:
    lake = KeptLake(log, tmp_path / "lake", lambda: spark)
    lake.keep_well("history", way=way)
    log.commit(Event("c", {"id": 3, "c": 7}))
    lake.keep_well("history", way=way)
    log.change_schema(of_type("string"))
    log.commit(Event("c", {"id": 4, "c": "x"}))
    for _ in range(2):
        lake.keep_well("history", way=way)
        assert [row["c"] for row in lake.rows("history")] == ["5", "6", "7", "x"]
    log.commit(Event("c", {"id": 5, "c": "y"}))
    lake.keep_well("history", way=way)
    assert [row["c"] for row in lake.rows("history")] == ["5", "6", "7", "x", "y"]


def test_a_stream_stops_once_where_the_table_is_read_again(
    spark: SparkSession, log: LogBuilder, tmp_path: Path
) -> None:
    sink = Sink(spark, tmp_path / "checkpoint")
    sink.run(log)
    query = sink.query(log)
    read_again(log)
    with pytest.raises(StreamingQueryException, match="TM-SPK-019: from offset 2 on"):
        sink.start(query)
    sink.run(log)
    assert sink.columns[:3] == ["id", "c", "c__2"]
    assert sink.offsets == [2, 3, 4]
    sink.run(log)
    assert sink.offsets == []


def test_a_stream_stops_for_a_table_that_is_read_again_as_it_was(
    spark: SparkSession, log: LogBuilder, tmp_path: Path
) -> None:
    sink = Sink(spark, tmp_path / "checkpoint")
    query = sink.query(log)
    log.begin()
    log.commit(Event("t"), Event("c", {"id": 1, "c": 5}))
    with pytest.raises(StreamingQueryException, match="is read again from the start, as its generation 2"):
        sink.start(query)
    sink.run(log)
    assert sink.offsets == [2, 3]
