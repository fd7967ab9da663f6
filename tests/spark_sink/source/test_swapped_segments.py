"""Files of segments in each other's places: each is whole, and has as many bytes and rows as the log says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark_sink.lake import ITEMS
from tests.spark_sink.log_builder import LogBuilder, create, schema
from tests.spark_sink.pipeline.kept_lake import KeptLake, errors_of
from tidemark import read_changes, read_table
from tidemark.protocol.changelog import ChangeLog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

OTHERS = "public/others"


@pytest.fixture
def lake(spark: SparkSession, log: LogBuilder, tmp_path: Path) -> KeptLake:
    """Kept up to the first of three commits."""
    log.change_schema(schema(OTHERS))
    lake = KeptLake(log, tmp_path / "a lake", lambda: spark)
    for number, name in enumerate("abc"):
        log.commit(create(number, name), create(number, name, table=OTHERS))
        if not number:
            lake.keep_well()
    return lake


def swap(log: LogBuilder, of: str) -> None:
    """Swaps the files of two segments: the last one of items, and one of its table or of another one."""
    changes = ChangeLog(log.root)
    *_, before, last = changes.segments(ITEMS, 0, log.offset)
    *_, others = changes.segments(OTHERS, 0, log.offset)
    other = before if of == ITEMS else others
    assert (last.size, last.rows) == (other.size, other.rows)
    one, two = log.root / last.path, log.root / other.path
    content = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(content)


@pytest.mark.drawn(2)
@pytest.mark.parametrize("of", [ITEMS, OTHERS])
@pytest.mark.parametrize("way", ["task", "rewrite"])
def test_nothing_of_them_is_applied_and_the_next_run_is_right(lake: KeptLake, way: str, of: str) -> None:
    lake.log.change_schema(schema("public/well"))
    lake.log.commit(create(1, table="public/well"))
    swap(lake.log, of)

    tables = {"public.items", "public.others"} if of == OTHERS else {"public.items"}
    assert errors_of(lake.keep(way=way)) == dict.fromkeys(tables, "TM-LOG-009")
    lake.assert_true("public/well")
    assert [row["id"] for row in lake.rows("current")] == [0]
    assert [row["id"] for row in lake.rows("history")] == [0]

    swap(lake.log, of)
    lake.keep_well(way=way, retry=tuple(tables))
    for table in (ITEMS, OTHERS):
        lake.assert_true(table)


def stream(spark: SparkSession, lake: KeptLake) -> None:
    events = spark.readStream.format("tidemark").options(path=str(lake.log.root), table="public.items").load()
    query = events.writeStream.format("noop").option("checkpointLocation", str(lake.warehouse / "checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination()


def view(spark: SparkSession, lake: KeptLake) -> None:
    options = {"path": str(lake.log.root), "table": "public.items", "state": "current"}
    spark.read.format("tidemark").options(**options).load().collect()


READERS: dict[str, Callable[[SparkSession, KeptLake], object]] = {
    "read_changes": lambda spark, lake: read_changes(spark, lake.log.root, "public.items").collect(),
    "read_changes of one column": lambda spark, lake: (
        read_changes(spark, lake.log.root, "public.items", 1).select("id").collect()
    ),
    "live view": lambda spark, lake: read_table(
        spark, lake.log.root, "public.items", warehouse=lake.warehouse
    ).collect(),
    "live view of the log": lambda spark, lake: read_table(spark, lake.log.root, "public.items").collect(),
    "live view as a source": view,
    "batch": lambda spark, lake: (
        spark.read.format("tidemark").options(path=str(lake.log.root), table="public.items").load().collect()
    ),
    "stream": stream,
}


@pytest.mark.drawn(6)
@pytest.mark.parametrize("of", [ITEMS, OTHERS])
@pytest.mark.parametrize("reader", READERS)
def test_each_reader_says_so(spark: SparkSession, lake: KeptLake, reader: str, of: str) -> None:
    swap(lake.log, of)

    with pytest.raises(Exception, match=r"TM-LOG-009: .*\.parquet is damaged: it has \d+ as its first offset"):
        READERS[reader](spark, lake)
