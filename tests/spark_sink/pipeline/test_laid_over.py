"""A table that is read again as it was: new rows are laid over the old ones, which go once the new ones are whole."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from tests.spark_sink.log_builder import Event, LogBuilder, create, schema
from tests.spark_sink.pipeline.kept_lake import KeptLake, named
from tests.spark_sink.replay import replay
from tidemark.protocol.changelog import Column, TableSchema
from tidemark.spark_sink.formats.file_sizes import FileSizes
from tidemark.spark_sink.live.read_table import read_table, read_tables
from tidemark.spark_sink.run.settings import PartLimits

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WAYS = ["task", "rewrite"]
MANY_FILES = {"file_sizes": FileSizes(smallest=3_000)}


@pytest.fixture
def lake(tmp_path: Path, spark: SparkSession) -> KeptLake:
    return KeptLake(LogBuilder(tmp_path / "log"), tmp_path / "lake", lambda: spark)


def values(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows without what they do not have, by offset."""
    told = [{n: v for n, v in row.items() if v is not None and n != "_commit_ts"} for row in rows]
    return sorted(told, key=lambda row: int(row["_offset"]))


def expected(lake: KeptLake, end: int | None = None) -> list[dict[str, Any]]:
    return values(replay(lake.log.shown_events(end=end), "id", lake.log.columns["public/items"]).values())


def assert_viewed(lake: KeptLake, end: int | None = None) -> None:
    """The live view shows what it should, in all its forms, with the kept table under it and without."""
    spark, root = lake.session(), lake.log.root
    for base in ({"warehouse": str(lake.warehouse)}, {}):
        frame = read_table(spark, root, "public.items", end, **base)
        assert values(frame.toArrow().to_pylist()) == expected(lake, end)
        options = {"path": str(root), "table": "public.items", "state": "current", **base}
        if end is not None:
            options["asOf"] = str(end)
        frame = spark.read.format("tidemark").options(**options).load()
        assert values(frame.toArrow().to_pylist()) == expected(lake, end)


def assert_viewed_as_of_each_offset(lake: KeptLake) -> None:
    for end in range(1, lake.log.offset + 1):
        assert_viewed(lake, end)


def commits(lake: KeptLake) -> list[list[dict[str, Any]]]:
    """The actions of each commit of ``current``."""
    folder = lake.warehouse / "public" / "items" / "current" / "_delta_log"
    return [list(map(json.loads, path.read_text().splitlines())) for path in sorted(folder.glob("*.json"))]


def generations(lake: KeptLake) -> list[tuple[int, int]]:
    """Of each commit the generation that rows are of, and that over which it is laid."""
    told = [next(action["commitInfo"] for action in commit if "commitInfo" in action) for commit in commits(lake)]
    return [(info["tidemark.generation"], info["tidemark.over"]) for info in told]


@pytest.mark.drawn(1)
@pytest.mark.parametrize("way", WAYS)
def test_new_rows_are_laid_over_the_old_ones_until_they_are_whole(lake: KeptLake, way: str) -> None:
    log = lake.log
    log.commit(*(create(id, f"old {id}", "note") for id in range(1, 8)))
    lake.keep_well("current", way=way)
    log.begin()
    log.commit(
        Event("t"),
        create(1, "new 1", snapshot=True),
        Event("d", {"id": 5}),
        Event("u", {"id": 6, "name": "new 6"}, ("note",)),
    )
    assert_viewed(lake)
    kept = named(lake.keep_well("current", way=way))
    lake.assert_current()
    assert (kept.rows, kept.generation, kept.over) == (6, 2, 1)
    assert kept.waits == (
        "rows of generation 1 stay under generation 2 until it is whole, which has 4 events since offset 7: a test"
    )
    assert_viewed(lake)

    log.commit(create(2, "new 2", snapshot=True), create(6, "new 6", "note", snapshot=True), create(9, "new"))
    assert_viewed(lake)
    lake.keep_well("current", way=way)
    lake.assert_current()
    assert lake.keep_well("current", way=way).events == 0

    log.complete()
    log.commit(Event("u", {"id": 2, "note": "later"}, ("name",)))
    assert_viewed(lake)
    kept = named(lake.keep_well("current", way=way))
    assert [row["id"] for row in lake.rows("current")] == [1, 6, 9, 2]
    lake.assert_current()
    assert_viewed(lake)
    assert (kept.generation, kept.over, kept.waits) == (2, 0, "")
    assert generations(lake)[-3:] == [(2, 1), (2, 1), (2, 0)]
    assert lake.keep_well("current", way=way).events == 0
    assert len(generations(lake)) == len(commits(lake))
    if way == "task":
        assert_viewed_as_of_each_offset(lake)


@pytest.mark.drawn(1)
@pytest.mark.parametrize(
    ("way", "rows", "more"), [("task", 1800, {}), ("rewrite", 700, {f"c{number}": "bigint" for number in range(40)})]
)
def test_only_files_with_old_rows_are_rewritten(lake: KeptLake, way: str, rows: int, more: dict[str, str]) -> None:
    log = lake.log
    log.change_schema(schema(id="bigint", name="string", note="string", **more))
    log.commit(*(create(id, f"a name that is long enough for a file {id * 7919}") for id in range(rows)))
    lake.keep_well("current", way=way, **MANY_FILES)
    log.begin()
    gone = {100, rows - 1}
    log.commit(Event("t"), *(create(id, f"new {id * 7919}", snapshot=True) for id in range(rows) if id not in gone))
    lake.keep_well("current", way=way, **MANY_FILES)
    lake.assert_current()
    files = len(DeltaTable(str(lake.warehouse / "public/items/current")).file_uris())
    assert files > 4
    before = len(commits(lake))
    log.complete()
    log.commit()
    assert named(lake.keep_well("current", way=way, **MANY_FILES)).rows == rows - 2
    lake.assert_current()
    removal, *joins = commits(lake)[before:]
    assert sum("remove" in action for action in removal) in (1, 2)
    assert all(not action["remove"]["dataChange"] for join in joins for action in join if "remove" in action)


@pytest.mark.drawn(1)
@pytest.mark.parametrize("way", WAYS)
def test_a_truncate_empties_the_table_as_always(lake: KeptLake, way: str) -> None:
    log = lake.log
    log.commit(create(1), create(2))
    lake.keep_well("current", way=way)
    log.begin()
    log.commit(Event("t"), create(1, "again", snapshot=True), Event("t"), create(3, "new"))
    assert_viewed(lake)
    lake.keep_well("current", way=way)
    assert [row["id"] for row in lake.rows("current")] == [3]
    log.commit(create(4))
    log.complete()
    log.commit(create(5))
    assert_viewed(lake)
    lake.keep_well("current", way=way)
    assert [row["id"] for row in lake.rows("current")] == [3, 4, 5]
    assert_viewed(lake)
    if way == "rewrite":
        assert_viewed_as_of_each_offset(lake)


@pytest.mark.drawn(1)
@pytest.mark.parametrize("kept_between", [True, False])
def test_one_that_begins_before_the_last_is_whole_is_laid_over_both(lake: KeptLake, kept_between: bool) -> None:
    log = lake.log
    log.commit(*(create(id, "first") for id in range(1, 6)))
    lake.keep_well("current")
    log.begin()
    log.commit(Event("t"), create(1, "second", snapshot=True), create(2, "second", snapshot=True), create(8, "second"))
    if kept_between:
        lake.keep_well("current")
    log.begin()
    log.commit(Event("t"), create(1, "third", snapshot=True))
    assert_viewed(lake)
    kept = named(lake.keep_well("current"))
    assert (kept.generation, kept.over) == (3, 1)
    assert {row["id"]: row["name"] for row in lake.rows("current")} == {
        1: "third", 2: "second", 8: "second", 3: "first", 4: "first", 5: "first",
    }  # fmt: skip
    log.commit(create(4, "third", snapshot=True))
    log.complete()
    log.commit()
    assert_viewed(lake)
    kept = named(lake.keep_well("current"))
    assert [row["id"] for row in lake.rows("current")] == [1, 4]
    assert (kept.generation, kept.over) == (3, 0)
    assert_viewed(lake)


def test_a_table_that_is_first_kept_while_it_is_read_again(lake: KeptLake) -> None:
    log = lake.log
    log.commit(*(create(id, "old", snapshot=True) for id in range(1, 30)))
    log.begin()
    log.commit(Event("t"))
    assert_viewed(lake)
    log.commit(*(create(id, "new", snapshot=True) for id in range(10, 20)), Event("d", {"id": 3}))
    lake.keep_well("current", way="rewrite")
    lake.assert_current()
    assert named(lake.keep_well("current", rebuild=("public.items",))).over == 1
    lake.assert_current()
    log.complete()
    log.commit()
    lake.keep_well("current")
    lake.assert_current()
    assert len(lake.rows("current")) == 10
    lake.keep_well("current", rebuild=("public.items",))
    lake.assert_current()


def test_one_that_was_whole_before_anybody_looked_replaces_the_rows(lake: KeptLake) -> None:
    log = lake.log
    log.commit(create(1), create(2))
    lake.keep_well("current")
    log.begin()
    log.commit(Event("t"), create(2, "new", snapshot=True))
    log.complete()
    log.commit(create(3))
    assert_viewed(lake)
    lake.keep_well("current")
    lake.assert_current()
    assert generations(lake)[-1] == (2, 0)


@pytest.mark.drawn(1)
@pytest.mark.parametrize("way", WAYS)
def test_a_wider_column_is_laid_over_with_its_new_type(lake: KeptLake, way: str) -> None:
    log = lake.log
    log.change_schema(schema(id="bigint", name="bigint", note="string"))
    log.commit(Event("c", {"id": 1, "name": 7}), Event("c", {"id": 2, "name": 8}), Event("c", {"id": 3, "name": 9}))
    lake.keep_well("current", way=way)
    log.change_schema(schema(id="bigint", name="string", more="string"))
    log.begin()
    log.commit(Event("t"), Event("c", {"id": 2, "name": "x", "more": "y"}, snapshot=True))
    lake.keep_well("current", way=way)
    found = {row["id"]: row["name"] for row in lake.rows("current")}
    assert found == {1: "7", 2: "x", 3: "9"}
    viewed = read_table(lake.session(), log.root, "public.items", warehouse=lake.warehouse)
    assert {row["id"]: row["name"] for row in viewed.collect()} == found
    log.complete()
    log.commit(Event("u", {"id": 2, "name": "z"}, ("more",)))
    lake.keep_well("current", way=way)
    assert [(row["id"], row["name"], row["more"]) for row in lake.rows("current")] == [(2, "z", "y")]


def test_what_does_not_come_to_fit_stops_and_replaces_the_rows_once_it_is_whole(lake: KeptLake) -> None:
    log = lake.log
    log.commit(create(1, "text"), create(2, "text"))
    lake.keep_well("current")
    log.change_schema(schema(id="bigint", note="string"))
    log.begin()
    log.commit(Event("t"), Event("c", {"id": 1, "note": "new"}, snapshot=True))
    lake.keep_well("current")
    assert [(row["id"], row["name"]) for row in lake.rows("current")] == [(2, "text"), (1, None)]
    log.change_schema(schema(id="bigint", note="string", name="bigint"))
    log.commit(Event("c", {"id": 3, "name": 5}, snapshot=True))
    kept = named(lake.keep_well("current"))
    assert [row["id"] for row in lake.rows("current")] == [2, 1]
    assert (kept.generation, kept.over) == (2, 1)
    assert kept.waits.startswith("rows of generation 1 stay until generation 2 is whole, which has 3 events")
    live = read_table(lake.session(), log.root, "public.items", warehouse=lake.warehouse)
    assert sorted(row["id"] for row in live.collect()) == [1, 2]
    log.complete()
    log.commit()
    for warehouse in (lake.warehouse, None):
        live = read_table(lake.session(), log.root, "public.items", warehouse=warehouse)
        assert sorted((row["id"], row["name"]) for row in live.collect()) == [(1, None), (3, 5)]
    lake.keep_well("current")
    assert [(row["id"], row["name"]) for row in lake.rows("current")] == [(1, None), (3, 5)]


@pytest.mark.drawn(1)
@pytest.mark.parametrize("back_to", [(1, 0), (2, 1)])
def test_a_restored_table_takes_again_what_it_lost(lake: KeptLake, back_to: tuple[int, int]) -> None:
    log = lake.log
    log.commit(create(1), create(2))
    lake.keep_well("current")
    log.begin()
    log.commit(Event("t"), create(1, "new", snapshot=True))
    lake.keep_well("current")
    log.commit(create(3, "new", snapshot=True))
    log.complete()
    log.commit()
    lake.keep_well("current")
    lake.assert_current()
    version = max(number for number, told in enumerate(generations(lake)) if told == back_to)
    lake.delta("current").restore(version)
    assert_viewed(lake)
    log.commit(create(4))
    lake.keep_well("current")
    lake.assert_current()
    assert_viewed(lake)


@pytest.mark.drawn(1)
@pytest.mark.parametrize("kept_between", [True, False])
def test_half_of_the_transaction_that_changed_the_table_does_not_count(lake: KeptLake, kept_between: bool) -> None:
    log = lake.log
    old, new = schema(id="bigint", name="string"), schema(id="bigint", name="bigint")
    log.change_schema(old)
    log.commit(create(1, "old"), create(2, "old"))
    if kept_between:
        lake.keep_well("current")
    before = log.offset
    log.commit(
        Event("d", {"id": 1}), Event("u", {"id": 2, "name": "half"}),
        departing=(new, [Event("u", {"id": 2, "name": 7}), Event("c", {"id": 3, "name": 8})]),
    )  # fmt: skip
    kept = named(lake.keep_well("current"))
    both = [(1, "old"), (2, "old")]
    assert sorted((row["id"], row["name"]) for row in lake.rows("current")) == both
    assert kept.waits == "later events wait from offset 4 on: the table is about to be read again"

    def viewed(end: int | None = None) -> list[tuple[Any, ...]]:
        found = []
        for base in ({"warehouse": str(lake.warehouse)}, {}):
            live = read_table(lake.session(), log.root, "public.items", end, **base)
            found.append(sorted((row["id"], row["name"]) for row in live.collect()))
        assert found[0] == found[1]
        return found[0]

    assert viewed() == both
    # An offset inside of the transaction means the events below it.
    assert [viewed(end) for end in range(before, before + 3)] == [both, [(2, "old")], [(2, "half")]]
    assert viewed(before + 3) == both
    log.begin()
    log.commit(Event("t"), Event("c", {"id": 2, "name": 7}, snapshot=True))
    lake.keep_well("current")
    assert sorted((row["id"], row["name"]) for row in lake.rows("current")) == both == viewed()
    log.commit(Event("c", {"id": 3, "name": 8}, snapshot=True))
    log.complete()
    log.commit()
    lake.keep_well("current")
    assert [(row["id"], row["name"]) for row in lake.rows("current")] == [(2, 7), (3, 8)] == viewed()


def told(*columns: tuple[str, str, str | None], fill: Any = None) -> TableSchema:
    """A schema of columns with a name, a type and an id, after the key. The last one has the fill."""
    key = Column(name="id", type="bigint", nullable=False, id="1")
    own = [Column(name=name, type=type_, id=id) for name, type_, id in columns]
    own[-1] = own[-1].model_copy(update={"fill": fill})
    return TableSchema(collection="public/items", key=["id"], columns=[key, *own])


A, B = ("a", "string", "2"), ("b", "string", "3")
X = ("x", "string", "3")


@pytest.mark.drawn(2)
@pytest.mark.parametrize(
    ("first", "second", "laid"),
    [
        pytest.param([told(A, B)], [told(("b", "string", "2"), ("a", "string", "3"))], False, id="created otherwise"),
        pytest.param([told(A, B), told(A, X)], [told(A, X)], True, id="renamed before"),
        pytest.param([told(A, B)], [told(A, B), told(A, X)], True, id="renamed after"),
        pytest.param([told(A), told(A, B, fill="f")], [told(A, B)], True, id="filled before"),
    ],
)  # fmt: skip
def test_rows_are_laid_over_others_with_the_same_columns_only(
    lake: KeptLake, first: list[TableSchema], second: list[TableSchema], laid: bool
) -> None:
    log = lake.log

    def commit(id: int, of: TableSchema, value: str, *, snapshot: bool = False) -> dict[str | None, Any]:
        log.change_schema(of)
        row = {"id": id, **{column.name: f"{value} {column.name}" for column in of.columns[1:]}}
        log.commit(Event("c", row, snapshot=snapshot))
        return {column.id: row[column.name] for column in of.columns}

    old = [commit(id, of, "old") for id, of in enumerate(first, 1)]
    log.change_schema(second[0])
    log.begin()
    log.commit(Event("t"))
    new = [commit(id, of, "new", snapshot=True) for id, of in enumerate(second, 10)]
    last = (second if laid else first)[-1]
    fills = {column.id: column.fill for of in first for column in of.columns}
    rows = [
        {column.name: row.get(column.id, fills.get(column.id)) for column in last.columns}
        for row in (old + new if laid else old)
    ]

    def assert_shown(expected: list[dict[str, Any]]) -> None:
        lake.keep_well("current")
        names = list(expected[0])
        views = [
            read_table(lake.session(), log.root, "public.items", warehouse=place).select(*names).toArrow().to_pylist()
            for place in (lake.warehouse, None)
        ]
        for found in ([{name: row[name] for name in names} for row in lake.rows("current")], *views):
            assert sorted(found, key=lambda row: int(row["id"])) == expected

    assert_shown(rows)
    log.complete()
    log.commit()
    assert_shown([{column.name: row.get(column.id) for column in second[-1].columns} for row in new])


def test_files_with_rows_of_both_are_joined_and_cut_apart_again(lake: KeptLake) -> None:
    log = lake.log
    log.commit(*(create(id, "old") for id in range(0, 200, 2)))
    lake.keep_well("current")
    log.begin()
    log.commit(Event("t"))
    for id in range(1, 200, 2):
        if id % 20 == 1:
            log.commit(*(create(new, "new", snapshot=True) for new in range(id, id + 20, 2)))
            lake.keep_well("current", **MANY_FILES)
    log.complete()
    log.commit()
    lake.keep_well("current", **MANY_FILES)
    lake.assert_current()
    assert len(lake.rows("current")) == 100


def test_a_table_that_is_laid_over_does_not_hold_others_back(tmp_path: Path, spark: SparkSession) -> None:
    others = "public/others"
    log = LogBuilder(tmp_path / "log", schema(), schema(others))
    log.commit(create(1), create(2), create(1, table=others))
    log.begin()
    log.commit(Event("t"), create(1, "new", snapshot=True), create(2, table=others))
    log.commit(create(3, table=others))
    found = read_tables(spark, log.root, ["public.items", "public.others"])
    assert [found[name].count() for name in found] == [2, 3]
    assert {row["id"]: row["name"] for row in found["public.items"].collect()} == {1: "new", 2: None}


def test_a_reader_never_sees_fewer_rows_than_both_whole_states_have(lake: KeptLake) -> None:
    log = lake.log
    small = {"limits": PartLimits(12_000, 12_000, 8_000, 4_000), **MANY_FILES}
    log.commit(*(create(id, f"old {id}") for id in range(400)))
    lake.keep_well("current", **small)
    common, ended = set(range(50, 400)), threading.Event()
    lacked: list[set[int]] = []

    def read() -> None:
        while not ended.is_set():
            ids = lake.delta("current").to_pyarrow_table(columns=["id"]).column("id").to_pylist()
            lacked.append(common.difference(ids))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        log.begin()
        log.commit(Event("t"))
        for start in range(50, 500, 90):
            log.commit(*(create(id, f"new {id}", snapshot=True) for id in range(start, start + 90)))
            lake.keep_well("current", **small)
            ids = {row["id"] for row in read_table(lake.session(), log.root, "public.items").select("id").collect()}
            assert common <= ids
        log.complete()
        log.commit()
        lake.keep_well("current", **small)
    finally:
        ended.set()
        reader.join(timedelta(minutes=1).total_seconds())
    assert lacked
    assert not any(lacked)
    lake.assert_current()
    assert {row["id"] for row in lake.rows("current")} == set(range(50, 500))
