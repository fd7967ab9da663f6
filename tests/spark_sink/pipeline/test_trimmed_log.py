"""A log that begins later than it did: who has read the rest goes on, and who has not is told."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark_sink.log_builder import Event, LogBuilder, create, schema
from tests.spark_sink.pipeline.kept_lake import KeptLake, errors_of, named
from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.errors import ChangeLogError
from tidemark.spark_sink.formats.log_export import export
from tidemark.spark_sink.live.read_table import read_table
from tidemark.spark_sink.parts.part_plan import Part, plan_part
from tidemark.spark_sink.pipeline import keep as keeping
from tidemark.spark_sink.source.native_scan import read_changes
from tidemark.spark_sink.tables.store_place import StorePlace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

ITEMS, OTHERS = "public/items", "public/others"


def commits(log: LogBuilder, first: int, count: int = 6, table: str = ITEMS) -> None:
    for id in range(first, first + count):
        log.commit(create(id, f"row {id}", table=table), create(id + 1, "twice", table=table))


def renewed(log: LogBuilder, first: int) -> None:
    """Items are read again from the start, whole in the end, and change afterwards."""
    log.begin(ITEMS)
    log.commit(Event("t"), create(first, snapshot=True))
    log.commit(create(first + 1, snapshot=True))
    log.complete(ITEMS)
    commits(log, first + 2)


def test_tables_go_on(lake: KeptLake) -> None:
    commits(lake.log, 1)
    lake.keep_well()
    renewed(lake.log, 50)
    lake.keep_well()
    begun = lake.log.trim(ITEMS)
    assert begun > 6
    commits(lake.log, 70)
    lake.keep_well()
    lake.assert_true()
    renewed(lake.log, 90)
    lake.keep_well()
    assert lake.log.trim(ITEMS) > begun
    lake.keep_well()
    lake.assert_true()


def test_tables_that_begin_with_it(lake: KeptLake) -> None:
    commits(lake.log, 1)
    renewed(lake.log, 50)
    begun = lake.log.trim(ITEMS)
    assert begun > 6
    lake.keep_well()
    assert lake.rows("current") == expected(lake)
    assert [row["_offset"] for row in lake.rows("history")] == list(range(begun, lake.log.offset))


def expected(lake: KeptLake) -> list[dict[str, Any]]:
    """The rows of a lake that has read all of the log."""
    whole = KeptLake(lake.log, lake.warehouse.parent / "whole", lake.session)
    whole.keep_well("current")
    return whole.rows("current")


def test_a_lake_that_was_left_behind(lake: KeptLake) -> None:
    lake.log.change_schema(schema(OTHERS))
    commits(lake.log, 1, table=OTHERS)
    commits(lake.log, 1)
    lake.keep_well()
    commits(lake.log, 20)
    renewed(lake.log, 50)
    begun = lake.log.trim(ITEMS)
    assert begun > named(lake.keep("current")).position or begun > 30
    report = lake.keep()
    assert errors_of(report) == {"public.items": "TM-LOG-018"}
    (aside,) = report.set_aside
    assert aside.kind == "history" and aside.error is not None and f"begins at {begun:,}" in aside.error
    assert lake.rows("current") == expected(lake), "it was built again from the last generation"
    # Others are quiet: their tables stand before the start of the log, and lack nothing.
    shown = read_table(lake.session(), lake.log.root, "public.others", warehouse=lake.warehouse).select("id").collect()
    assert sorted(row["id"] for row in shown) == [row["id"] for row in lake.rows("current", OTHERS)]

    report = lake.keep_well(rebuild=frozenset({"public.items"}))
    assert [row["_offset"] for row in lake.rows("history")] == list(range(begun, lake.log.offset))
    commits(lake.log, 99)
    lake.keep_well()
    assert lake.rows("history")[-1]["_offset"] == lake.log.offset - 1


def test_what_goes_while_it_is_to_be_applied(lake: KeptLake, monkeypatch: pytest.MonkeyPatch) -> None:
    commits(lake.log, 1)
    lake.keep_well()
    commits(lake.log, 20)

    def trimming(*arguments: Any) -> Part:
        lake.log.trim()
        return plan_part(*arguments)

    monkeypatch.setattr(keeping, "plan_part", trimming)
    report = lake.keep()
    assert {(table.kind, table.error and table.error.split(":")[0]) for table in report.set_aside} == {
        ("current", "TM-LOG-018"),
        ("history", "TM-LOG-018"),
    }


def test_a_table_that_is_not_captured_any_more_holds_nothing(lake: KeptLake) -> None:
    """Its rows cannot be completed, and that is said."""
    commits(lake.log, 1)
    lake.keep_well()
    commits(lake.log, 20)
    assert lake.log.trim() > 12
    report = lake.keep()
    assert {table.error.split(":")[0] for table in report.set_aside if table.error} == {"TM-LOG-018"}
    assert {table.kind for table in report.set_aside} == {"current", "history"}


def test_views_scans_and_exports(spark: SparkSession, lake: KeptLake) -> None:
    commits(lake.log, 1)
    renewed(lake.log, 50)
    path, end = Path(lake.log.root), lake.log.offset
    begun = lake.log.trim(ITEMS)
    offsets = [row["_offset"] for row in read_changes(spark, path, "public.items").select("_offset").collect()]
    assert sorted(offsets) == list(range(begun, end))
    for start in (begun - 1, "2026-01-01T00:00:01Z"):
        with pytest.raises(ChangeLogError, match="TM-LOG-018"):
            read_changes(spark, path, "public.items", start, end)
    for as_of in (begun - 1, "2026-01-01T00:00:01Z"):
        with pytest.raises(ChangeLogError, match="TM-LOG-018"):
            read_table(spark, path, "public.items", as_of)
    lake.keep_well("current")
    shown = read_table(spark, path, "public.items").select("id").collect()
    assert sorted(row["id"] for row in shown) == [row["id"] for row in lake.rows("current")]
    (exported,) = export(ChangeLog(path), StorePlace.of(path), [ITEMS])
    assert exported.error is None and exported.files

    lake.log.trim()
    (exported,) = export(ChangeLog(path), StorePlace.of(path), [ITEMS])
    assert exported.error is not None and exported.error.code == "TM-LOG-018"


def test_streams(spark: SparkSession, lake: KeptLake, tmp_path: Path) -> None:
    seen: list[int] = []

    def note(batch: DataFrame, _: int) -> None:
        seen.extend(row["_offset"] for row in batch.select("_offset").collect())

    def stream(checkpoint: str) -> None:
        found = spark.readStream.format("tidemark").options(path=str(lake.log.root), table="public.items").load()
        writer = found.writeStream.foreachBatch(note).option("checkpointLocation", str(tmp_path / checkpoint))
        writer.trigger(availableNow=True).start().awaitTermination()

    commits(lake.log, 1)
    stream("behind")
    commits(lake.log, 20)
    stream("ahead")
    renewed(lake.log, 50)
    begun = lake.log.trim(ITEMS)
    seen.clear()
    stream("ahead")
    assert sorted(seen) == list(range(24, lake.log.offset)) and begun == 24
    seen.clear()
    stream("new")
    assert sorted(seen) == list(range(begun, lake.log.offset))
    with pytest.raises(Exception, match="TM-LOG-018"):
        stream("behind")
