"""Tables that are read again as something else: readers see the old rows until the new ones are whole."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from tests.spark_sink.log_builder import Event, LogBuilder, create, schema
from tests.spark_sink.pipeline.kept_lake import KeptLake, errors_of, named
from tidemark.protocol.errors import SparkError
from tidemark.spark_sink.live.read_table import read_table, read_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OTHER_TYPE = schema(id="bigint", name="bigint", note="string")
OTHER_KEY = schema(key=["name"], id="bigint", name="string", note="string")


@pytest.fixture
def lake(tmp_path: Path, spark: SparkSession) -> KeptLake:
    return KeptLake(LogBuilder(tmp_path / "log"), tmp_path / "lake", lambda: spark)


def rows(lake: KeptLake, *columns: str) -> list[tuple[Any, ...]]:
    """The rows of ``current``."""
    table = DeltaTable(str(lake.warehouse / "public" / "items" / "current")).to_pyarrow_table()
    return sorted(zip(*(table.column(name).to_pylist() for name in columns), strict=True))


def viewed(lake: KeptLake, *columns: str, **options: Any) -> list[tuple[Any, ...]]:
    """The rows of the live view, with the kept table under it and without, which are the same."""
    bases: list[dict[str, Any]] = [{"warehouse": lake.warehouse}, {}]
    frames = [read_table(lake.session(), lake.log.root, "public.items", **options, **base) for base in bases]
    found = [sorted(map(tuple, frame.select(*columns).collect())) for frame in frames]
    assert found[0] == found[1]
    return found[0]


@pytest.mark.parametrize("way", ["task", "rewrite"])
def test_another_type(lake: KeptLake, way: str) -> None:
    log = lake.log
    log.commit(create(1, "7"), create(2, "x"))
    lake.keep_well("current", way=way)
    log.change_schema(OTHER_TYPE)
    log.detach()
    log.commit(Event("c", {"id": 3, "name": 8, "note": None}))
    lake.keep_well("current", way=way)
    assert rows(lake, "id", "name") == viewed(lake, "id", "name") == [(1, "7"), (2, "x")]

    log.begin()
    log.commit(Event("t"), Event("c", {"id": 1, "name": 7, "note": None}, snapshot=True))
    lake.keep_well("current", way=way)
    assert rows(lake, "id", "name") == viewed(lake, "id", "name") == [(1, "7"), (2, "x")]

    log.commit(Event("c", {"id": 3, "name": 8, "note": None}, snapshot=True))
    log.complete()
    log.commit()
    new = [(1, 7), (3, 8)]
    assert viewed(lake, "id", "name") == new
    report = lake.keep_well("current", way=way)
    assert named(report).rows == 2
    assert rows(lake, "id", "name") == viewed(lake, "id", "name") == new

    log.commit(Event("u", {"id": 3, "name": 9, "note": None}))
    lake.keep_well("current", way=way)
    assert rows(lake, "id", "name") == viewed(lake, "id", "name") == [(1, 7), (3, 9)]
    assert viewed(lake, "id", "name", as_of=2) == [(1, "7"), (2, "x")]


def test_another_key(lake: KeptLake) -> None:
    log = lake.log
    log.commit(create(1, "a"), create(2, "b"))
    lake.keep_well("current")
    log.change_schema(OTHER_KEY)
    log.begin()
    log.commit(Event("t"), create(1, "a", snapshot=True), create(1, "c", snapshot=True))
    log.complete()
    log.commit(Event("d", {"name": "a"}), create(1, "d"))
    lake.keep_well("current")
    assert rows(lake, "id", "name") == viewed(lake, "id", "name") == [(1, "c"), (1, "d")]


def test_a_new_table_of_a_log_with_several(lake: KeptLake) -> None:
    test_another_key(lake)
    again = KeptLake(lake.log, lake.warehouse / "again", lake.session)
    again.keep_well("current")
    assert rows(again, "id", "name") == [(1, "c"), (1, "d")]


@pytest.mark.parametrize("way", ["task", "rewrite"])
def test_a_wider_type(lake: KeptLake, way: str) -> None:
    log = lake.log
    log.change_schema(schema(id="bigint", name="bigint", on="date"))
    log.commit(*(Event("c", {"id": n, "name": n, "on": None}) for n in range(1, 5)))
    lake.keep_well("current", way=way)
    log.change_schema(schema(id="bigint", name="string", on="timestamp_ntz", more="double"))
    log.commit(Event("u", {"id": 2, "name": "x", "on": None, "more": 1.5}))
    wide = [(1, "1"), (2, "x"), (3, "3"), (4, "4")]
    assert viewed(lake, "id", "name") == wide
    lake.keep_well("current", way=way)
    assert rows(lake, "id", "name") == viewed(lake, "id", "name") == wide


def test_a_log_that_was_restored_from_a_copy_and_has_grown(lake: KeptLake, tmp_path: Path) -> None:
    log = lake.log
    log.commit(create(1, "a"))
    copy = tmp_path / "copy"
    shutil.copytree(log.root, copy)
    log.commit(create(2, "b"))
    lake.keep_well()
    log.restore(copy)
    log.commit(create(3, "c"), create(4, "d"))
    log.commit(create(5, "e"))
    assert errors_of(lake.keep()) == {"public.items": "TM-SPK-006"}
    with pytest.raises(SparkError, match=r"TM-SPK-006.*restored"):
        read_table(lake.session(), log.root, "public.items", warehouse=lake.warehouse)
    lake.keep_well(rebuild=("public.items",))
    assert rows(lake, "id", "name") == [(1, "a"), (3, "c"), (4, "d"), (5, "e")]


def test_the_report_says_which_rows_are_shown_and_what_the_next_ones_wait_for(lake: KeptLake) -> None:
    log = lake.log
    log.commit(create(1, "7"), create(2, "x"))
    log.change_schema(OTHER_TYPE)
    log.detach()
    log.commit(Event("c", {"id": 3, "name": 8, "note": None}))
    kept = named(lake.keep_well("current"))
    assert (kept.generation, kept.waits) == (
        1,
        "later events wait from offset 2 on: the table is about to be read again",
    )
    log.begin()
    log.commit(Event("t"), Event("c", {"id": 1, "name": 7, "note": None}, snapshot=True))
    kept = named(lake.keep_well("current"))
    assert (kept.generation, kept.waits) == (
        1,
        "rows of generation 1 stay until generation 2 is whole, which has 2 events since offset 3: a test",
    )
    log.complete()
    log.commit()
    kept = named(lake.keep_well("current"))
    assert (kept.generation, kept.waits) == (2, "")


def test_tables_are_read_as_of_the_oldest_one_shown(tmp_path: Path, spark: SparkSession) -> None:
    others = "public/others"
    log = LogBuilder(tmp_path / "log", schema(), schema(others))
    log.commit(create(1, "7"), create(1, "a", table=others))
    log.change_schema(OTHER_TYPE)
    log.detach()
    log.commit(create(2, "b", table=others), Event("c", {"id": 3, "name": 8, "note": None}))
    log.commit(create(3, "c", table=others))
    found = read_tables(spark, log.root, ["public.items", "public.others"])
    assert [[row["id"] for row in found[name].collect()] for name in found] == [[1], [1]]
    assert read_table(spark, log.root, "public.others").count() == 3
    log.begin()
    log.commit(Event("t"), Event("c", {"id": 4, "name": 8, "note": None}), create(4, "d", table=others))
    found = read_tables(spark, log.root, ["public.others", "public.items"])
    assert [found[name].count() for name in found] == [1, 1]
    log.complete()
    log.commit()
    found = read_tables(spark, log.root, ["public.others", "public.items"])
    assert [[row["id"] for row in found[name].orderBy("id").collect()] for name in found] == [[1, 2, 3, 4], [4]]
