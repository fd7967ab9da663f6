"""A log of version 2 in Spark: read as it is, and kept on once a capture of today has gone on with it."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from tests.protocol.version_2 import (
    EMPTIED,
    END,
    ITEM_ROWS,
    ITEMS,
    KEPT,
    OFFSETS,
    ORDER_ROWS,
    ORDERS,
    OldLog,
    write_kept_orders,
)
from tests.runtime.changelog.upgraded import Upgraded
from tests.spark_sink.pipeline.kept_lake import named
from tidemark.protocol.changelog import ChangeLog
from tidemark.spark_sink.live.read_table import read_table, read_tables
from tidemark.spark_sink.pipeline.keep import keep
from tidemark.spark_sink.run.report import MaterializeReport
from tidemark.spark_sink.run.settings import KeepSettings
from tidemark.spark_sink.source.native_scan import read_changes
from tidemark.spark_sink.tables.kept_tables import KeepRules
from tidemark.spark_sink.tables.store_place import StorePlace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

COLUMNS = {ORDERS: ("id", "note", "total", "paid"), ITEMS: ("id", "name")}
READS_AGAIN = {"total": {"type": ["string", "null"], "format": "date"}}
Found = list[tuple[Any, ...]]


class OldLake:
    """The log, and a warehouse.

    Args:
        spark: A session.
        folder: Of both.
    """

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.root, self.warehouse = folder / "log", folder / "lake"
        OldLog(self.root).write()

    def keep(self, *kinds: str, **more: Any) -> MaterializeReport:
        rules = KeepRules({"*": kinds})
        settings = KeepSettings(StorePlace.of(self.root), StorePlace.of(self.warehouse), rules, **more)
        report = keep(settings, lambda: self.spark)
        assert [kept.error for kept in report.tables if kept.error] == []
        return report

    def delta(self, table: str, kind: str) -> DeltaTable:
        return DeltaTable(str(self.warehouse / table / kind))

    def kept(self, table: str, kind: str = "current", *columns: str) -> Found:
        rows = self.delta(table, kind).to_pyarrow_table()
        return sorted(zip(*(rows.column(name).to_pylist() for name in columns or COLUMNS[table]), strict=True))

    def viewed(self, table: str, **options: Any) -> Found:
        """The live view, over the kept table and without it, which are the same."""
        bases: list[dict[str, Any]] = [{"warehouse": self.warehouse}, {}] if self.warehouse.exists() else [{}]
        frames = [read_table(self.spark, self.root, table.replace("/", "."), **options, **base) for base in bases]
        found = [in_order(frame, *(c for c in COLUMNS[table] if c in frame.columns)) for frame in frames]
        assert all(one == found[0] for one in found)
        return found[0]


def in_order(frame: DataFrame, *columns: str) -> Found:
    return sorted(map(tuple, frame.select(*columns).collect()), key=lambda row: row[0])


@pytest.fixture
def lake(tmp_path: Path, spark: SparkSession) -> OldLake:
    return OldLake(spark, tmp_path)


def test_it_is_read_as_it_is(lake: OldLake) -> None:
    assert lake.viewed(ORDERS) == ORDER_ROWS
    assert lake.viewed(ITEMS) == ITEM_ROWS
    assert lake.viewed(ITEMS, as_of=EMPTIED - 1) == [(1, "name 1"), (2, "name 2")]
    assert lake.viewed(ITEMS, as_of=EMPTIED) == [], "a TRUNCATE empties the table at once"
    both = read_tables(lake.spark, lake.root, ["public.orders", "public.items"])
    assert in_order(both["public.orders"], *COLUMNS[ORDERS]) == ORDER_ROWS
    for table, offsets in OFFSETS.items():
        options = {"path": str(lake.root), "table": table.replace("/", ".")}
        source = lake.spark.read.format("tidemark").options(**options).load()
        for frame in (read_changes(lake.spark, lake.root, options["table"]), source):
            assert [offset for (offset,) in in_order(frame, "_offset")] == offsets
    assert ChangeLog(lake.root).header.format_version == 2


@pytest.mark.parametrize("way", ["task", "rewrite"])
def test_tables_are_kept_from_it_as_it_is_and_from_what_it_becomes(lake: OldLake, way: str) -> None:
    lake.keep("current", "history", way=way)
    assert lake.kept(ORDERS) == ORDER_ROWS
    assert lake.kept(ITEMS) == ITEM_ROWS
    with Upgraded(lake.root) as log:
        log.add(ITEMS, "t")
        log.add(ORDERS, "d", id=4)
        log.commit()
        lake.keep("current", "history", way=way)
        assert lake.viewed(ITEMS) == []
        assert lake.delta(ITEMS, "current").to_pyarrow_table().num_rows == 0
        assert lake.viewed(ORDERS) == lake.kept(ORDERS) == ORDER_ROWS[:2]
    told = {ITEMS: [*OFFSETS[ITEMS], END], ORDERS: [*OFFSETS[ORDERS], END + 1]}
    for table, offsets in told.items():
        assert [offset for (offset,) in lake.kept(table, "history", "_offset")] == offsets


@pytest.mark.parametrize("upgraded", [False, True])
def test_a_table_that_was_kept_before_goes_on_without_being_rebuilt(lake: OldLake, upgraded: bool) -> None:
    write_kept_orders(lake.warehouse, lake.root)
    (first,) = lake.delta(ORDERS, "current").file_uris()
    assert lake.viewed(ORDERS, as_of=KEPT) == [(1, *ORDER_ROWS[0][1:3]), (3, "note 3", 3), (4, None, None)]
    expected, new = ORDER_ROWS, 1
    if upgraded:
        with Upgraded(lake.root) as log:
            log.add(ORDERS, "d", id=4)
            log.commit()
        expected, new = ORDER_ROWS[:2], 2
    assert lake.viewed(ORDERS) == expected
    report = lake.keep("current")
    assert (named(report, "public.orders").events, named(report, "public.orders").generation) == (new, 1)
    assert lake.kept(ORDERS) == expected
    history = lake.delta(ORDERS, "current").history()
    assert [one.get("operationParameters", {}).get("mode") for one in history if one["operation"] == "WRITE"] == [
        "Append"
    ] * 2
    assert Path(first).exists()
    assert lake.keep("current").events == 0


def test_a_new_generation_takes_the_place_of_the_old_rows_once_it_is_whole(lake: OldLake) -> None:
    write_kept_orders(lake.warehouse, lake.root)
    with Upgraded(lake.root) as log:
        log.change(ORDERS, **READS_AGAIN)
        log.add(ORDERS, id=5, total="2026-01-31")
        log.commit()
        lake.keep("current")
        assert lake.viewed(ORDERS) == lake.kept(ORDERS) == ORDER_ROWS
        log.begin(ORDERS)
        log.add(ORDERS, id=6, total="2026-02-01")
        log.commit()
        lake.keep("current")
        assert lake.viewed(ORDERS) == lake.kept(ORDERS) == ORDER_ROWS
        log.complete(ORDERS)
        log.commit()
    new = [(6, None, date(2026, 2, 1), None)]
    assert lake.viewed(ORDERS) == new
    assert named(lake.keep("current"), "public.orders").generation == 2
    assert lake.kept(ORDERS) == lake.viewed(ORDERS) == new
    assert lake.viewed(ORDERS, as_of=END) == ORDER_ROWS
