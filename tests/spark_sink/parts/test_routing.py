"""Spark's answer to which range a key is in is Python's."""

from __future__ import annotations

import random
from bisect import bisect_right
from math import nan
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.spark_sink.pipeline.histories import VALUES, random_keys
from tidemark.spark_sink.changes.key_order import Place, place
from tidemark.spark_sink.parts.routing import route
from tidemark.spark_sink.tables.column_types import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TYPES = [[type_] for type_ in VALUES] + [
    ["string", "bigint"],
    ["boolean", "timestamp", "decimal(12,2)"],
    ["binary", "date"],
    ["double", "timestamp_ntz", "string"],
]


@pytest.mark.parametrize("zone", ["Pacific/Apia"])
def test_spark_finds_the_range_that_python_finds(spark: SparkSession, zone: str) -> None:
    """Any types, nulls, prefixes of keys as bounds, whatever the values hold and whatever the session's zone is."""
    chance = random.Random(20)
    frames, expected = [], []
    for number, types in enumerate(TYPES):
        names = [f"k.{place}`'\\" for place in range(len(types))]
        keys = random_keys(chance, types, 60, nulls=True)
        if "double" in types:
            keys = sorted({*keys, *((nan, *key[1:]) for key in keys[:5] if types[0] == "double")}, key=place)
        bounds = sorted({some_bound(key, chance) for key in chance.sample(keys, min(len(keys), 23))})
        expected += [(number, row, bisect_right(bounds, place(key))) for row, key in enumerate(keys)]
        frames.append(asked(spark, number, keys, dict(zip(names, types, strict=True)), bounds))
    found = frames[0]
    for frame in frames[1:]:
        found = found.unionAll(frame)
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        assert sorted((row["number"], row["row"], row["range"]) for row in found.collect()) == expected
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def some_bound(key: tuple[Any, ...], chance: random.Random) -> Place:
    """A key, or its leading columns, as a range begins with."""
    return place(key[: chance.randrange(1, len(key) + 1)])


def asked(spark: SparkSession, number: int, keys: list[Any], columns: dict[str, str], bounds: list[Place]) -> Any:
    rows = [{**dict(zip(columns, key, strict=True)), "number": number, "row": row} for row, key in enumerate(keys)]
    content = pa.Table.from_pylist(rows, arrow_schema({**columns, "number": "bigint", "row": "bigint"}))
    routed = route(list(columns), list(columns.values()), bounds)
    return spark.createDataFrame(content).selectExpr("number", "row", f"{routed} AS range")
