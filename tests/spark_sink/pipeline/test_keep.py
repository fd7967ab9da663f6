"""A run: what it does, what it says, and when it has nothing to do."""

from __future__ import annotations

import json
import random
import shutil
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from tests.spark_sink.lake import ITEMS
from tests.spark_sink.log_builder import Event, create, schema
from tests.spark_sink.pipeline.kept_lake import KeptLake, named
from tidemark import register
from tidemark.protocol.changelog import layout
from tidemark.protocol.errors import ChangeLogError, SparkError, TidemarkError
from tidemark.spark_sink.formats.delta_table import PositionedTable
from tidemark.spark_sink.formats.file_sizes import FileSizes
from tidemark.spark_sink.live.read_table import read_table
from tidemark.spark_sink.pipeline.followed_tables import FollowedTables
from tidemark.spark_sink.pipeline.keep import keep
from tidemark.spark_sink.pipeline.memory import Memory, memory_place
from tidemark.spark_sink.run.progress import LoggedProgress
from tidemark.spark_sink.run.report import Applied, MaterializeReport, PlannedPart
from tidemark.spark_sink.run.settings import FoldRule
from tidemark.spark_sink.source.followed_log import FollowedLog
from tidemark.spark_sink.tables.kept_tables import Target
from tidemark.spark_sink.tables.store_place import StorePlace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


class Heard:
    """What a run says while it runs."""

    def __init__(self, applied: Callable[[Applied], None] = lambda applied: None) -> None:
        self.said: list[tuple[str, str, int]] = []
        self._applied = applied

    def planned(self, parts: Sequence[PlannedPart]) -> None:
        self.said += [("planned", part.kind, part.end) for part in parts]

    def applied(self, applied: Applied) -> None:
        self.said.append(("applied", applied.part.kind, applied.part.end))
        self._applied(applied)

    def set_aside(self, table: str, kind: str, error: TidemarkError) -> None:
        self.said.append((error.code, kind, 0))


def no_session() -> SparkSession:
    raise AssertionError("a session was asked for")


def test_tables_of_any_name_are_kept(spark: SparkSession, lake: KeptLake) -> None:
    names = [
        "größe",
        "表",
        "हिन्दी",
        "a:b",
        "100%25",
        "x[1-2]{a,b}*?",
        "back\\slash",
        "a^b|c",
        "tab\t",
        "ü#?&,",
        "..",
        "~",
        "'\"`",
    ]
    for name in names:
        lake.log.change_schema(schema(f"public/{name}"))
    lake.log.commit(*(create(1, name, table=f"public/{name}") for name in names))
    lake.keep_well("current")
    lake.log.commit(*(create(2, name, table=f"public/{name}") for name in names))
    for name in names:
        rows = read_table(spark, lake.log.root, f"public.{name}", warehouse=lake.warehouse).collect()
        assert sorted((row["id"], row["name"]) for row in rows) == [(1, name), (2, name)]
    lake.keep_well("current")


def test_the_report_says_what_was_done_and_where_nothing_is_new_no_session_is_made(lake: KeptLake) -> None:
    lake.log.commit(create(1), create(2), Event("d", {"id": 1}))
    heard = Heard()

    report = keep(lake.settings(), lambda: lake.session(), heard)

    assert [(t.table, t.kind, t.way, t.events, t.rows, t.position, t.behind, t.error) for t in report.tables] == [
        ("public.items", "current", "task", 3, 1, 3, 0, None),
        ("public.items", "history", "task", 3, 3, 3, 0, None),
    ]
    assert (report.events, report.end_offset, report.set_aside) == (6, 3, ())
    assert sum(report.executors.values()) == 6
    assert report.cost.bytes_read and report.cost.bytes_written
    assert sorted(heard.said) == sorted(
        (what, kind, 3) for what in ("planned", "applied") for kind in ("current", "history")
    )
    lake.assert_true()

    again = keep(lake.settings(), no_session, heard)

    assert (again.events, again.executors, again.end_offset) == (0, {}, 3)
    assert [table.rows for table in again.tables] == [1, 3]


def test_a_lost_memory_costs_no_data_and_no_commit(lake: KeptLake) -> None:
    for i in range(3):
        lake.log.commit(create(i), create(i + 1, "b"), Event("d", {"id": 0}))
    lake.keep_well()
    before = lake.delta("current").version(), lake.delta("history").version()
    shutil.rmtree(lake.warehouse / "_tidemark")

    assert keep(lake.settings(), no_session).events == 0

    assert (lake.delta("current").version(), lake.delta("history").version()) == before
    lake.assert_true()


def test_a_table_that_gets_no_events_holds_nothing_back(lake: KeptLake) -> None:
    """Segments that it lacks nothing of are never looked at again."""
    lake.log.change_schema(schema("public/others"))
    lake.log.commit(create(1), create(1, table="public/others"))
    lake.keep_well()
    old = lake.log.commit(create(2))
    report = lake.keep_well()
    assert named(report, "public.others").position == 2
    memory = json.loads((lake.warehouse / "_tidemark" / "log-1" / "tables.json").read_text())
    others = memory["tables"]["public/others current"]
    assert (others["complete_to"], others["set_aside"]) == (3, None)
    (lake.log.root / old.segments[0].path).unlink()
    lake.log.commit(create(3, table="public/others"))

    lake.keep_well()

    lake.assert_true("public/others")


@pytest.mark.parametrize("kind", ["current", "history"])
@pytest.mark.parametrize("version", ["this", "an earlier one"])
def test_what_a_run_lacks_is_told_by_the_table_and_the_log(lake: KeptLake, kind: str, version: str) -> None:
    """Whatever the memory of the warehouse says. Tables of earlier versions do not state how many events they have."""
    names = ("public/quiet", "public/busy")
    for name in names:
        lake.log.change_schema(schema(name))
    lake.log.commit(*(create(id, table=name) for name in names for id in range(2)))
    lake.keep_well(kind)
    lake.log.commit(create(2, table="public/busy"))
    lake.keep_well(kind)
    for name in names if version != "this" else ():
        target = Target(name, kind)
        table = PositionedTable(target.place(StorePlace.of(lake.warehouse)), "log-1", target.name)
        table.commit([], [], replace(table.standing, events=-1))
    lake.log.commit(create(3, table="public/busy"))
    lake.keep_well(kind, only=("public.quiet",))
    place = memory_place(StorePlace.of(lake.warehouse), "log-1")
    memory = Memory.load(place)
    for known in memory.tables.values():
        known.complete_to = lake.log.offset
    memory.save(place)

    log = FollowedLog(lake.log.root)
    tables = FollowedTables(lake.settings(kind), log, LoggedProgress())
    tables.admit(log.summary())
    assert {target.collection: table.complete_to for target, table in tables.by_target.items()} == {
        "public/quiet": lake.log.offset,
        "public/busy": lake.log.offset - 1,
    }
    lake.keep_well(kind)
    for name in names:
        assert [row["id"] for row in lake.rows(kind, name)] == list(range(2 if name == "public/quiet" else 4))


def test_what_a_truncate_undid_is_not_read(lake: KeptLake) -> None:
    undone = lake.log.commit(create(1), create(2))
    (lake.log.root / undone.segments[0].path).unlink()
    lake.log.commit(create(3), Event("t"), create(4))

    report = lake.keep_well("current")

    assert named(report).rows == 1
    lake.assert_current()
    lake.log.commit(Event("t"))
    assert named(lake.keep_well("current")).rows == 0
    lake.log.commit(create(5), Event("t"))
    assert named(lake.keep_well("current", way="rewrite")).rows == 0


def test_what_changes_is_written_in_smaller_files_and_the_rest_stays(lake: KeptLake) -> None:
    sizes = FileSizes(smallest=12_000, largest=60_000, files=1)
    text = random.Random(1)
    lake.log.commit(*(create(id, text.randbytes(100).hex(), snapshot=True) for id in range(1500)), rows=500)
    lake.keep_well("current", file_sizes=sizes)
    table = PositionedTable(
        Target(ITEMS, "current").place(StorePlace.of(lake.warehouse)), "log-1", Target(ITEMS, "current").name
    )
    loaded = {file.path: file.size for file in table.files()}
    lake.log.commit(Event("u", {"id": 700, "name": "new"}))
    lake.keep_well("current", file_sizes=sizes)
    table.refresh()
    changed = {file.path: file.size for file in table.files()}
    (gone,) = loaded.keys() - changed.keys()
    added = [changed[path] for path in changed.keys() - loaded.keys()]
    assert len(loaded) >= 2
    assert loaded[gone] > 40_000
    assert len(added) > 2
    assert max(added) < 20_000
    lake.assert_current()
    # Of so small changes they are not joined again.
    lake.log.commit(Event("u", {"id": 700, "name": "newer"}))
    lake.keep_well("current", file_sizes=sizes)
    table.refresh()
    assert len({file.path for file in table.files()} - changed.keys()) == 1


def test_it_follows_the_log_until_it_is_stopped(lake: KeptLake) -> None:
    lake.log.commit(create(1))
    stop, first, second = threading.Event(), threading.Event(), threading.Event()

    def seen(applied: Applied) -> None:
        {1: first, 2: second}[applied.part.end].set()

    reports: list[MaterializeReport] = []
    settings = lake.settings("current", available_now=False, fold=FoldRule(share=1.0, trigger=0.01))
    running = threading.Thread(target=lambda: reports.append(keep(settings, lake.session, Heard(seen), stop)))
    running.start()
    try:
        assert first.wait(60)
        lake.log.commit(create(2))
        assert second.wait(60)
    finally:
        stop.set()
        running.join(60)

    assert reports[0].tables[0].rows == 2
    lake.assert_current()


def test_a_run_that_is_interrupted_tells_how_far_it_came(lake: KeptLake) -> None:
    lake.log.change_schema(schema("public/others"))
    lake.log.commit(create(1), create(2, table="public/others"))
    stop = threading.Event()

    def interrupt(applied: Applied) -> None:
        stop.set()
        raise KeyboardInterrupt

    report = keep(lake.settings("current"), lake.session, Heard(interrupt), stop)
    assert sorted((table.rows, table.behind) for table in report.tables) == [(0, 1), (1, 0)]
    assert lake.keep_well("current").events == 1
    lake.assert_current()

    with pytest.raises(KeyboardInterrupt):  # Nobody asked this one to stop.
        lake.log.commit(create(3))
        keep(lake.settings("current"), lake.session, Heard(interrupt), threading.Event())


def test_a_file_of_the_lake_that_is_missing_is_named(lake: KeptLake, spark: SparkSession) -> None:
    lake.log.commit(create(1))
    lake.keep_well("current")
    (file,) = lake.warehouse.rglob("*.parquet")
    file.unlink()

    with pytest.raises(SparkError, match=rf"TM-SPK-015: .*{file.name} is missing") as caught:
        read_table(spark, lake.log.root, "public.items", warehouse=lake.warehouse)
    assert caught.value.remedy == "Run tidemark materialize FILE --rebuild public.items."
    register(spark)
    view = spark.read.format("tidemark").options(path=str(lake.log.root), table="public.items", state="current")
    with pytest.raises(PySparkException, match=rf"TM-SPK-015: .*{file.name} is missing.*--rebuild public\.items"):
        view.option("warehouse", str(lake.warehouse)).load().collect()

    lake.keep_well("current", rebuild=("public.items",))
    assert read_table(spark, lake.log.root, "public.items", warehouse=lake.warehouse).count() == 1


def test_a_log_that_is_not_there_is_an_error_before_anything_starts(lake: KeptLake) -> None:
    lake.log.root = lake.warehouse / "none"
    with pytest.raises(ChangeLogError, match="TM-LOG-001"):
        lake.keep()


def test_a_damaged_commit_stops_the_run_and_costs_nothing(lake: KeptLake) -> None:
    lake.log.commit(create(1))
    lake.keep_well()
    lake.log.commit(create(2))
    commit = lake.log.root / layout.COMMITS / layout.commit_name(1)
    whole = commit.read_bytes()
    commit.write_bytes(whole[:-9])

    with pytest.raises(ChangeLogError, match=r"TM-LOG-002: .*\.json is damaged"):
        lake.keep()

    commit.write_bytes(whole)
    lake.keep_well()
    lake.assert_true()


@pytest.mark.parametrize("lost", [1, 2])
def test_commits_that_are_missing_before_later_ones_stop_the_run_and_cost_nothing(lake: KeptLake, lost: int) -> None:
    lake.log.commit(create(1))
    lake.keep_well()
    commits = [lake.log.root / layout.COMMITS / layout.commit_name(lake.log.commit(create(2)).number) for _ in range(3)]
    whole = {path: path.read_bytes() for path in commits[:lost]}
    for path in whole:
        path.unlink()

    with pytest.raises(ChangeLogError, match=rf"TM-LOG-004: .*{commits[0].name} is missing"):
        lake.keep()

    for path, content in whole.items():
        path.write_bytes(content)
    lake.keep_well()
    lake.assert_true()


def test_only_some_tables_are_kept_and_the_others_catch_up_later(lake: KeptLake) -> None:
    names = ("public/items", "public/iron", "other/items")
    for name in names:
        lake.log.change_schema(schema(name))
    lake.log.commit(*(create(1, table=name) for name in names))

    report = lake.keep_well(only=("public.it*",))

    assert {table.table for table in report.tables} == {"public.items"}
    lake.log.commit(*(create(2, table=name) for name in names))
    lake.keep_well("history")
    lake.log.commit(create(3))
    lake.keep_well()
    for name in names:
        lake.assert_true(name)
    assert not (lake.warehouse / ITEMS / "current.replaced").exists()
