"""Columns that are renamed, swapped, dropped and added again, or filled: no row is read again for it."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable, Field
from deltalake.schema import PrimitiveType

from tests.spark_sink.log_builder import Event, LogBuilder
from tests.spark_sink.pipeline.kept_lake import KeptLake
from tests.spark_sink.pipeline.test_generations import rows, viewed
from tests.spark_sink.pipeline.test_schema_changes import STOP, kept
from tidemark.protocol.changelog import Column, TableSchema
from tidemark.spark_sink.source.native_scan import read_changes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def identified(**columns: tuple[str, str] | tuple[str, str, Any]) -> TableSchema:
    """A schema by name: an identity, a type and perhaps a fill; ``id`` is the key."""
    made = [Column(name="id", type="bigint", id="1")]
    for name, (identity, type_, *fill) in columns.items():
        made.append(Column(name=name, type=type_, id=identity, fill=fill[0] if fill else None))
    return TableSchema(collection="public/items", columns=made, key=["id"])


def row(op: str, id: int, *unchanged: str, **more: Any) -> Event:
    return Event(op, {"id": id, **more}, unchanged=unchanged)


@pytest.fixture
def lake(tmp_path: Path, spark: SparkSession) -> KeptLake:
    return KeptLake(LogBuilder(tmp_path / "log", identified(a=("2", "string"))), tmp_path / "lake", lambda: spark)


def changed(lake: KeptLake, *columns: str) -> list[tuple[Any, ...]]:
    """The newest values of each key in the events that ``read_changes`` gives."""
    found = read_changes(lake.session(), lake.log.root, "public.items").orderBy("_offset").select(*columns)
    return sorted({event[0]: tuple(event) for event in found.collect()}.values())


@pytest.mark.drawn(2)
@pytest.mark.parametrize("way", ["task", "rewrite"])
@pytest.mark.parametrize("followed", [True, False])
def test_a_column_that_is_renamed_keeps_its_values(lake: KeptLake, way: str, followed: bool) -> None:
    log = lake.log
    log.commit(*(row("c", n, a=f"old {n}") for n in range(1, 5)))
    if followed:
        lake.keep_well("current", way=way)
    log.announce(identified(b=("2", "string")))
    renamed = [(n, f"old {n}") for n in range(1, 5)]
    assert viewed(lake, "id", "b") == renamed
    if followed:
        lake.keep_well("current", way=way)
        assert rows(lake, "id", "b") == renamed
    log.commit(row("u", 2, b="new"), row("u", 3, "b"), row("d", 4))
    lake.keep_well("current", way=way)
    now = [(1, "old 1"), (2, "new"), (3, "old 3")]
    assert rows(lake, "id", "b") == viewed(lake, "id", "b") == now
    assert changed(lake, "id", "b")[:2] == now[:2]
    table = DeltaTable(str(lake.warehouse / "public" / "items" / "current"))
    assert [field.name for field in table.schema().fields] == ["id", "b", "_offset", "_commit_ts"]
    lake.keep_well("current", rebuild=("public.items",))
    assert rows(lake, "id", "b") == now


@pytest.mark.parametrize("way", ["task", "rewrite"])
def test_columns_that_swap_their_names(lake: KeptLake, way: str) -> None:
    log = lake.log
    log.change_schema(identified(a=("2", "string"), b=("3", "bigint")))
    log.commit(row("c", 1, a="x", b=7), row("c", 2, a="y", b=8))
    lake.keep_well("current", way=way)
    log.announce(identified(a=("3", "bigint"), b=("2", "string")))
    assert viewed(lake, "id", "a", "b") == [(1, 7, "x"), (2, 8, "y")]
    log.commit(row("u", 1, "a", b="z"))
    assert viewed(lake, "id", "a", "b") == [(1, 7, "z"), (2, 8, "y")]
    lake.keep_well("current", way=way)
    assert rows(lake, "id", "a", "b") == viewed(lake, "id", "a", "b") == [(1, 7, "z"), (2, 8, "y")]


@pytest.mark.parametrize("type_", ["string", "bigint"])
def test_a_column_that_is_dropped_and_added_again_ends_its_values(lake: KeptLake, type_: str) -> None:
    log = lake.log
    log.commit(row("c", 1, a="x"), row("c", 2, a="y"))
    lake.keep_well("current")
    log.announce(identified())
    lake.keep_well("current")
    log.announce(identified(a=("3", type_)))
    assert viewed(lake, "id", "a") == [(1, None), (2, None)]
    new = "7" if type_ == "string" else 7
    log.commit(row("u", 2, a=new))
    assert viewed(lake, "id", "a") == [(1, None), (2, new)]
    lake.keep_well("current")
    assert rows(lake, "id", "a") == viewed(lake, "id", "a") == [(1, None), (2, new)]
    assert changed(lake, "id", "a") == [(1, None), (2, new)]


@pytest.mark.parametrize("way", ["task", "rewrite"])
def test_backfilled_rows_of_before_the_change(lake: KeptLake, way: str) -> None:
    log = lake.log
    log.commit(*(Event("c", {"id": n, "a": f"old {n}"}, snapshot=True) for n in range(1, 5)))
    log.announce(identified(b=("2", "string"), a=("3", "bigint", 7)))
    log.commit(row("u", 2, "b", a=8))
    lake.keep_well("current", way=way)
    now = [(1, "old 1", 7), (2, "old 2", 8), (3, "old 3", 7), (4, "old 4", 7)]
    assert rows(lake, "id", "b", "a") == viewed(lake, "id", "b", "a") == now


def test_a_name_that_another_column_has_by_now_does_not_bring_an_older_one_back(lake: KeptLake) -> None:
    log = lake.log
    log.commit(row("c", 1, a="x"))
    log.announce(identified(b=("2", "string")))
    log.commit(row("c", 2, b="y"))
    log.announce(identified(b=("3", "bigint", 7)))
    lake.keep_well("current")
    table = DeltaTable(str(lake.warehouse / "public" / "items" / "current"))
    assert [field.name for field in table.schema().fields] == ["id", "b", "_offset", "_commit_ts"]
    assert rows(lake, "id", "b") == viewed(lake, "id", "b") == [(1, 7), (2, 7)]


def test_a_schema_may_have_the_names_over_several_generations(lake: KeptLake) -> None:
    log = lake.log
    log.commit(row("c", 1, a="x"))
    spanning = identified(a=("2", "bigint")).columns
    spanning[1] = spanning[1].model_copy(update={"spanning": "a__2"})
    log.change_schema(TableSchema(collection="public/items", columns=spanning, key=["id"]))
    log.begin()
    log.commit(Event("t"), row("c", 1, a=5))
    log.complete()
    log.commit()
    found = read_changes(
        lake.session(), log.root, "public.items", schema="id bigint, a string, a__2 bigint, _op string"
    )
    assert sorted(map(tuple, found.where("_op = 'c'").collect()), key=str) == [
        (1, "x", None, "c"),
        (1, None, 5, "c"),
    ]


def test_a_table_that_is_restored_to_a_version_with_the_old_name(lake: KeptLake) -> None:
    log = lake.log
    log.commit(row("c", 1, a="x"), row("c", 2, a="y"))
    lake.keep_well("current")
    log.announce(identified(b=("2", "string")))
    log.commit(row("u", 2, b="z"))
    lake.keep_well("current")
    table = DeltaTable(str(lake.warehouse / "public" / "items" / "current"))
    before = next(entry["version"] for entry in table.history() if entry.get("tidemark.position") == 2)
    table.restore(before)
    assert viewed(lake, "id", "b") == [(1, "x"), (2, "z")]
    lake.keep_well("current")
    assert rows(lake, "id", "b") == viewed(lake, "id", "b") == [(1, "x"), (2, "z")]


FILLS = [
    ("boolean", True, True),
    ("bigint", 7, 7),
    ("double", "-Infinity", float("-inf")),
    ("string", 'a"b\\c\n', 'a"b\\c\n'),
    ("decimal(12,2)", "1.50", Decimal("1.5")),
    ("date", "2026-01-31", date(2026, 1, 31)),
    ("timestamp", "2026-01-31T08:00:00.5Z", None),
    ("timestamp_ntz", "0001-01-31T08:00:00", datetime(1, 1, 31, 8)),
    ("binary", "AP8=", b"\x00\xff"),
    ("array<bigint>", [1, None], [1, None]),
]
"""Types, constants in JSON, and their values; None of one whose zone differs."""


def without_zones(found: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [
        tuple(value.replace(tzinfo=None) if isinstance(value, datetime) else value for value in one) for one in found
    ]


@pytest.mark.drawn(1)
@pytest.mark.parametrize("way", ["task", "rewrite"])
def test_a_column_that_is_added_with_a_constant_is_filled(lake: KeptLake, way: str) -> None:
    log = lake.log
    log.commit(row("c", 1, a="x"), row("c", 2, a="y"), row("c", 3, a="z"))
    lake.keep_well("current", way=way)
    # Somebody is early, with a column that then is not the source's.
    lake.delta("current").alter.add_columns([Field("c1", PrimitiveType("long"))])
    more = {f"c{n}": (str(n + 3), type_, fill) for n, (type_, fill, _) in enumerate(FILLS)}
    log.announce(identified(a=("2", "string"), **more))
    view = viewed(lake, "id", *more)
    log.commit(row("u", 2, *list(more)[1:], a="new", c0=False), row("d", 3), row("c", 4, a="all null"))
    assert viewed(lake, "id", "a", "c0", "c1") == [(1, "x", True, 7), (2, "new", False, 7), (4, "all null", None, None)]
    lake.keep_well("current", way=way)
    now = rows(lake, "id", *more)
    # Spark gives instants in the session's time zone, without one.
    assert without_zones(now) == without_zones(viewed(lake, "id", *more))
    assert without_zones(now)[0] == without_zones(view)[0]
    for (_, _, value), found in zip(FILLS, now[0][1:], strict=True):
        assert found is not None and value in (None, found)
    assert now[2][1:] == (None,) * len(FILLS)
    deleted = read_changes(lake.session(), log.root, "public.items").where("_op = 'd'").select(*more).collect()
    assert set(deleted[0]) == {None}
    lake.keep_well("current", rebuild=("public.items",))
    assert rows(lake, "id", *more) == now


@pytest.mark.parametrize("way", ["task", "rewrite"])
@pytest.mark.parametrize("followed", [True, False])
def test_a_constant_ends_with_its_column(lake: KeptLake, way: str, followed: bool) -> None:
    log = lake.log
    log.commit(row("c", 1, a="x"), row("c", 2, a="y"))
    log.announce(identified(a=("2", "string"), d=("3", "bigint", 7)))
    if followed:
        lake.keep_well("current", way=way)
        assert rows(lake, "id", "d") == [(1, 7), (2, 7)]
    log.change_schema(identified(a=("2", "string"), e=("4", "string")))
    log.commit(row("c", 3, a="z", e="new"), row("u", 2, a="changed", e="new"))
    lake.keep_well("current", way=way)
    assert (
        rows(lake, "id", "d", "e") == viewed(lake, "id", "d", "e") == [(1, 7, None), (2, None, "new"), (3, None, "new")]
    )


def test_state_in_sql_follows(lake: KeptLake) -> None:
    log = lake.log
    log.commit(row("c", 1, a="x"), row("c", 2, a="y"), row("c", 3, a="z"))
    lake.keep_well("current")
    log.change_schema(identified(b=("2", "string"), c=("3", "bigint", 7)))
    log.commit(row("u", 2, "b", c=8))
    reader = (
        lake.session()
        .read.format("tidemark")
        .options(path=str(log.root), table="public.items", state="current", warehouse=str(lake.warehouse))
    )
    assert sorted(map(tuple, reader.load().select("id", "b", "c").collect())) == [(1, "x", 7), (2, "y", 8), (3, "z", 7)]


def test_a_table_that_stops_at_changes_does_not_follow_a_new_name(lake: KeptLake) -> None:
    log = lake.log
    log.commit(row("c", 1, a="x"))
    assert kept(lake, STOP).error is None
    log.announce(identified(a=("2", "string"), c=("3", "bigint", 7)))
    assert kept(lake, STOP).error is None
    assert rows(lake, "id", "a", "c") == [(1, "x", 7)]
    log.announce(identified(b=("2", "string"), c=("3", "bigint", 7)))
    assert str(kept(lake, STOP).error).startswith("TM-SPK-024")
    assert rows(lake, "id", "a", "c") == [(1, "x", 7)]
