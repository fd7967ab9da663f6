"""Drivers that die anywhere, and drivers that run side by side, over one JVM."""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

from tests.examples import sample
from tests.spark_sink.log_builder import create, schema
from tests.spark_sink.pipeline.driver_process import DIED, Ended, Run
from tests.spark_sink.pipeline.drivers import Driver
from tests.spark_sink.pipeline.kept_lake import KeptLake
from tests.spark_sink.replay import random_events

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SMALL, LARGE = "public/small", "public/large"
TASK_BYTES = 20_000


def fill(lake: KeptLake, table: str, count: int) -> None:
    lake.log.commit(*random_events(random.Random(7), count, keys=count // 3, truncates=0.002, table=table))


@pytest.fixture
def begun(lake: KeptLake) -> KeptLake:
    """A table that is there and gets a column and many events, and one that is new: all that a run does is due."""
    lake.log.change_schema(schema(LARGE))
    lake.log.change_schema(schema(SMALL))
    fill(lake, LARGE, 100)
    lake.keep_well()
    lake.log.change_schema(schema(LARGE, id="bigint", name="string", note="string", more="string"))
    fill(lake, LARGE, 600)
    fill(lake, SMALL, 30)
    return lake


@pytest.mark.drawn(2, of="drivers that die")
def test_a_driver_may_die_before_and_after_all_that_it_does(begun: KeptLake, spark: SparkSession) -> None:
    fresh = begun.warehouse.with_name("as it was")
    shutil.copytree(begun.warehouse, fresh)
    with Driver(spark) as driver:

        def perform(die_at: int | None) -> Ended:
            shutil.rmtree(begun.warehouse)
            shutil.copytree(fresh, begun.warehouse)
            return driver.perform(Run(str(begun.log.root), str(begun.warehouse), TASK_BYTES, die_at=die_at))

        whole = perform(None)
        assert whole.code == 0
        assert_healed(begun)
        assert {point.removeprefix("before ") for point in whole.points if point.startswith("before ")} == {
            "create", "add_columns", "commit", "save", "run", "run_routed",
        }  # fmt: skip
        points = range(len(whole.points))
        for die_at in sample(points, first_of_each(whole.points)):
            assert perform(die_at).code == DIED
            assert_healed(begun)


def first_of_each(points: Sequence[str]) -> Sequence[int]:
    """Where points of each name come first, and the last one of all."""
    return sorted({*map(points.index, points), len(points) - 1})


@pytest.mark.drawn(2, of="drivers that die")
def test_a_driver_may_die_while_tasks_write(begun: KeptLake, spark: SparkSession) -> None:
    with Driver(spark) as driver:
        ended = driver.perform(Run(str(begun.log.root), str(begun.warehouse), TASK_BYTES, die_writing=True))
        assert ended.code == DIED
        assert_healed(begun)


@pytest.mark.drawn(2, of="drivers that die")
def test_two_drivers_at_once_write_no_row_twice(begun: KeptLake, spark: SparkSession) -> None:
    with Driver(spark) as one, Driver(spark) as other:
        for number in range(2):
            place = begun.warehouse.with_name(f"meeting {number}")
            place.mkdir()
            for driver in (one, other):
                driver.begin(Run(str(begun.log.root), str(begun.warehouse), TASK_BYTES, meet=str(place)))
            refused = 0
            for driver in (one, other):
                ended = driver.ended()
                assert ended.code == 0
                assert {error.split(":")[0] for error in ended.errors} <= {"TM-SPK-010"}
                refused += ended.points.count("before commit") - ended.points.count("after commit")
            assert refused
            begun.log.commit(create(1, "again", table=SMALL))
    assert_healed(begun)


def assert_healed(lake: KeptLake) -> None:
    """A normal run makes all of it what it has to be."""
    lake.keep_well()
    lake.assert_true(LARGE)
    lake.assert_true(SMALL)
