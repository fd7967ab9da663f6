"""A driver that dies while it shows another generation: readers have all rows of the one or of the other."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from tests.examples import sample
from tests.spark_sink.lake import ITEMS
from tests.spark_sink.log_builder import Event, create, schema
from tests.spark_sink.pipeline.driver_process import DIED, Run
from tests.spark_sink.pipeline.drivers import Driver
from tests.spark_sink.pipeline.kept_lake import KeptLake
from tidemark.spark_sink.live.read_table import read_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

OLD = [(1, "7"), (2, "x")]
NEW = [(1, 7), (3, 8), (4, 9)]
TASK_BYTES = {"task": 1_000_000, "rewrite": 0}


def kept(lake: KeptLake) -> list[tuple[Any, ...]]:
    """The rows of ``current``, as anybody reads them."""
    table = DeltaTable(str(lake.warehouse / ITEMS / "current")).to_pyarrow_table()
    return sorted(zip(table.column("id").to_pylist(), table.column("name").to_pylist(), strict=True))


def viewed(lake: KeptLake) -> list[tuple[Any, ...]]:
    frame = read_table(lake.session(), lake.log.root, "public.items", warehouse=lake.warehouse)
    return sorted(map(tuple, frame.select("id", "name").collect()))


def number(id: int, name: int, **more: Any) -> Event:
    return Event("c", {"id": id, "name": name, "note": None}, **more)


def begin(lake: KeptLake) -> None:
    """The table has events of none, and begins to be read again with another type."""
    lake.log.change_schema(schema(id="bigint", name="bigint", note="string"))
    lake.log.detach()
    lake.log.commit(number(3, 8))
    lake.log.begin()
    lake.log.commit(Event("t"), number(1, 7, snapshot=True))


def complete(lake: KeptLake) -> None:
    lake.log.commit(number(3, 8, snapshot=True))
    lake.log.complete()
    lake.log.commit(number(4, 9))


@pytest.mark.drawn(2, of="drivers that die")
@pytest.mark.parametrize("way", ["task", "rewrite"])
def test_a_driver_may_die_before_and_after_all_that_it_does(lake: KeptLake, spark: SparkSession, way: str) -> None:
    lake.log.commit(create(1, "7"), create(2, "x"))
    lake.keep_well()
    fresh = lake.warehouse.with_name("as it was")
    with Driver(spark) as driver:
        for happens, shown in ((begin, OLD), (complete, NEW)):
            happens(lake)
            assert (kept(lake), viewed(lake)) == (OLD, shown)
            shutil.copytree(lake.warehouse, fresh, dirs_exist_ok=True)

            def run(die_at: int | None) -> Run:
                return Run(str(lake.log.root), str(lake.warehouse), TASK_BYTES[way], die_at=die_at)

            points = driver.perform(run(None)).points
            assert (kept(lake), viewed(lake)) == (shown, shown)
            assert ("before replace" in points) == (shown == NEW)
            does = "replace" if shown == NEW else "commit"
            for die_at in sample(range(len(points)), [points.index(f"{when} {does}") for when in ("before", "after")]):
                shutil.rmtree(lake.warehouse)
                shutil.copytree(fresh, lake.warehouse)
                assert driver.perform(run(die_at)).code == DIED
                assert kept(lake) in (OLD, shown), points[die_at]
                assert (kept(lake) == NEW) == ("after replace" in points[: die_at + 1]), points[die_at]
                assert viewed(lake) == shown, points[die_at]
                lake.keep_well()
                assert (kept(lake), viewed(lake)) == (shown, shown), points[die_at]
            shutil.rmtree(fresh)
    assert [row["_offset"] for row in lake.rows("history")] == list(range(lake.log.offset))
