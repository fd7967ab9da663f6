from __future__ import annotations

import json
import random
import shutil
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable, write_deltalake

from protocol.errors import ChangeLogError, SparkError, TidemarkError
from spark_sink.followed_log import Limits
from spark_sink.materialize import MaterializeReport, materialize
from tests.spark_sink.log_builder import Event, LogBuilder, create, schema
from tests.spark_sink.replay import random_events, replay

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_sink.pipeline import Applied

pytestmark = pytest.mark.spark


class Lake:
    """A warehouse kept from one log."""

    def __init__(self, spark: SparkSession, log: LogBuilder, warehouse: Path) -> None:
        self.spark = spark
        self.log = log
        self.warehouse = warehouse

    def materialize(self, *kinds: str, **options: Any) -> MaterializeReport:
        tables = options.pop("tables", {"*": list(kinds) or ["current", "history"]})
        return materialize(self.log.root, self.warehouse, tables, spark=self.spark, **options)

    def rows(self, kind: str, table: str = "public/items") -> list[dict[str, Any]]:
        return DeltaTable(str(self.warehouse / table / kind)).to_pyarrow_table().to_pylist()

    def current(self, table: str = "public/items") -> dict[Any, dict[str, Any]]:
        rows = self.rows("current", table)
        by_key = {row["id"]: {n: v for n, v in row.items() if n != "_commit_ts"} for row in rows}
        assert len(by_key) == len(rows)
        return by_key

    def replayed(self, table: str = "public/items") -> dict[Any, dict[str, Any]]:
        return replay((o, e) for o, e in self.log.events if e.table == table)

    def version(self, kind: str) -> int:
        return DeltaTable(str(self.warehouse / "public" / "items" / kind)).version()

    def assert_true(self, table: str = "public/items") -> None:
        assert self.current(table) == self.replayed(table)
        offsets = [o for o, e in self.log.events if e.table == table]
        assert [row["_offset"] for row in sorted(self.rows("history", table), key=lambda r: r["_offset"])] == offsets


@pytest.fixture
def lake(spark: SparkSession, log: LogBuilder, tmp_path: Path) -> Lake:
    return Lake(spark, log, tmp_path / "a lake")


@pytest.mark.parametrize("seed", range(2))
def test_tables_are_what_the_events_say_whatever_the_batches(lake: Lake, seed: int) -> None:
    chance = random.Random(seed)
    tables = {"public/dense": (5, 0.02), "public/sparse": (400, 0.0), "other/mixed": (60, 0.005)}
    for table in tables:
        lake.log.change_schema(schema(table))
    for _ in range(3):
        for _ in range(chance.randrange(1, 6)):
            events = [
                event
                for table, (keys, truncates) in tables.items()
                for event in random_events(chance, chance.randrange(60), keys=keys, truncates=truncates, table=table)
            ]
            chance.shuffle(events)
            lake.log.commit(*events)
        lake.materialize(batch=Limits(events=chance.choice([1, 150, 100_000])))
        for table in tables:
            lake.assert_true(table)


def test_the_report_says_what_was_done(lake: Lake) -> None:
    lake.log.commit(create(1), create(2), Event("d", {"id": 1}))
    seen: list[Applied] = []

    report = lake.materialize(progress=seen.append)

    assert [(t.table, t.kind, t.events, t.rows, t.position) for t in report.tables] == [
        ("public.items", "current", 3, 1, 3),
        ("public.items", "history", 3, 3, 3),
    ]
    assert (report.events, report.end_offset) == (6, 3)
    assert sorted((a.target.kind, a.events, a.position) for a in seen) == [("current", 3, 3), ("history", 3, 3)]
    assert lake.materialize().events == 0


def test_new_keys_are_appended_and_known_ones_merged(lake: Lake) -> None:
    def operations() -> list[str]:
        history = DeltaTable(str(lake.warehouse / "public/items/current")).history()
        return [commit["operation"] for commit in reversed(history)]

    for first in (0, 100):
        lake.log.commit(*map(create, range(first, first + 100)))
        lake.materialize("current")
    assert operations() == ["CREATE TABLE", "WRITE", "WRITE"]

    lake.log.commit(create(50, "new"), create(500))
    lake.materialize("current")

    assert operations()[3:] == ["MERGE"]
    assert lake.current() == lake.replayed()


def test_a_lost_checkpoint_costs_no_data_and_no_commit(lake: Lake) -> None:
    for i in range(3):
        lake.log.commit(create(i), create(i + 1, "b"), Event("d", {"id": 0}))
    lake.materialize(batch=Limits(events=3))
    before = lake.version("current"), lake.version("history")
    shutil.rmtree(lake.warehouse / "_tidemark")

    assert lake.materialize(batch=Limits(events=4)).events == 0
    assert (lake.version("current"), lake.version("history")) == before
    lake.assert_true()


def test_a_lost_or_new_table_is_built_again_though_the_checkpoint_is_beyond(lake: Lake) -> None:
    lake.log.commit(create(1), create(2))
    lake.log.commit(Event("u", {"id": 1, "name": "x"}, unchanged=("note",)))
    lake.materialize("current")
    lake.materialize("current", "history")
    lake.assert_true()
    shutil.rmtree(lake.warehouse / "public" / "items" / "current")

    lake.materialize()

    lake.assert_true()


def test_a_table_that_was_restored_to_an_older_version_catches_up(lake: Lake) -> None:
    lake.log.commit(create(1), create(2))
    lake.materialize()
    old = lake.warehouse.parent / "old"
    shutil.copytree(lake.warehouse / "public", old)
    lake.log.commit(Event("d", {"id": 1}))
    lake.materialize()
    shutil.rmtree(lake.warehouse / "public")
    old.rename(lake.warehouse / "public")

    lake.materialize()

    lake.assert_true()


def test_a_table_that_gets_a_key_while_it_is_kept_has_all_its_rows(lake: Lake) -> None:
    lake.log.change_schema(schema(key=()))
    lake.log.commit(create(1), create(2))
    lake.log.change_schema(schema("public/others"))
    lake.log.commit(create(1, table="public/others"))
    stop, begun, ended = threading.Event(), threading.Event(), threading.Event()
    seen: list[tuple[str, int]] = []

    def see(applied: Applied) -> None:
        seen.append((applied.target.kind, applied.position))
        begun.set()
        if ("current", 4) in seen:
            ended.set()

    run = partial(lake.materialize, "current", available_now=False, progress=see, stop=stop)
    running = threading.Thread(target=run)
    running.start()
    try:
        assert begun.wait(60)
        lake.log.change_schema(schema())
        lake.log.commit(Event("u", {"id": 2, "name": "b"}, unchanged=("note",)))
        assert ended.wait(60)
    finally:
        stop.set()
        running.join(60)

    assert lake.current() == lake.replayed()


def test_a_kind_that_was_not_kept_for_a_while_catches_up(lake: Lake) -> None:
    for i, kinds in enumerate([("current", "history"), ("history",), ("current", "history")]):
        lake.log.commit(create(i), create(i + 1, "b"))
        lake.materialize(*kinds)

    lake.assert_true()


def test_a_table_ahead_of_the_log_is_refused(lake: Lake, tmp_path: Path) -> None:
    lake.log.commit(create(1))
    lake.log.commit(create(2))
    lake.materialize()
    lake.log = LogBuilder(tmp_path / "restored")
    lake.log.commit(create(1))

    with pytest.raises(SparkError, match=r"TM-SPK-006: .* is at offset 2, but .* ends at 1"):
        lake.materialize()


def test_a_failure_between_two_tables_repeats_only_the_unfinished_one(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    from spark_sink.delta_table import PositionedTable

    lake.log.commit(create(1))
    lake.materialize()
    lake.log.commit(create(2))
    append = PositionedTable.append

    def fail_on_history(self: PositionedTable, rows: Any, position: int) -> None:
        if self.path.name == "history":
            raise SparkError("TM-SPK-015", "the disk is full")
        append(self, rows, position)

    with monkeypatch.context() as patched:
        patched.setattr(PositionedTable, "append", fail_on_history)
        with pytest.raises(SparkError, match="TM-SPK-015: the disk is full"):
            lake.materialize()
    current = lake.version("current")

    report = lake.materialize()

    assert {t.kind: t.events for t in report.tables} == {"current": 0, "history": 1}
    assert lake.version("current") == current
    lake.assert_true()


def test_columns_come_go_and_widen(lake: Lake) -> None:
    lake.log.change_schema(schema(id="bigint", name="string", note="string", code="bigint"))
    lake.log.commit(Event("c", {"id": 1, "name": "a", "note": "x", "code": 1}))
    lake.log.change_schema(schema(id="bigint", name="string", code="string"))
    lake.log.commit(Event("c", {"id": 2, "name": "b", "code": "B"}))
    lake.materialize()
    lake.log.change_schema(schema(id="bigint", name="string", code="string", price="decimal(8,2)"))
    lake.log.commit(Event("u", {"id": 1, "code": "C", "price": None}, unchanged=("name",)), create(3, "c"))

    lake.materialize()

    rows = {row["id"]: (row["name"], row["note"], row["code"], row["price"]) for row in lake.rows("current")}
    assert rows == {1: ("a", None, "C", None), 2: ("b", None, "B", None), 3: ("c", None, None, None)}
    history = {row["_offset"]: (row["note"], row["code"]) for row in lake.rows("history")}
    assert history == {0: ("x", "1"), 1: (None, "B"), 2: (None, "C"), 3: (None, None)}


def test_a_table_without_a_key_has_history_alone(lake: Lake) -> None:
    lake.log.change_schema(schema("public/events", key=(), id="bigint"))
    lake.log.commit(Event("c", {"id": 1}, table="public/events"), create(1))

    report = lake.materialize("current")

    assert [(t.table, t.kind) for t in report.tables] == [("public.events", "history"), ("public.items", "current")]


def test_a_key_of_several_columns_in_any_case(lake: Lake) -> None:
    lake.log.change_schema(schema(key=("Region", "unit id"), Region="string", **{"unit id": "date", "note": "string"}))
    keys = [{"Region": region, "unit id": f"2026-01-0{day}"} for region in ("a", "A") for day in (1, 2)]
    from datetime import date

    rows = [{**k, "unit id": date.fromisoformat(k["unit id"])} for k in keys]
    lake.log.commit(*(Event("c", {**row, "note": "old"}) for row in rows))
    lake.materialize("current")
    lake.log.commit(
        Event("u", rows[1], unchanged=("note",)), Event("u", {**rows[2], "note": "new"}), Event("d", rows[3])
    )

    lake.materialize("current")

    stored = sorted((r["Region"], r["unit id"].day, r["note"], r["_offset"]) for r in lake.rows("current"))
    assert stored == [("A", 1, "new", 5), ("a", 1, "old", 0), ("a", 2, "old", 4)]


def change_type(lake: Lake) -> None:
    lake.log.commit(create(1))
    lake.materialize()
    lake.log.change_schema(schema(id="bigint", name="double", note="string"))
    lake.log.commit(Event("c", {"id": 2, "name": 0.5}))


def change_key(lake: Lake) -> None:
    lake.log.commit(create(1))
    lake.materialize()
    lake.log.change_schema(schema(key=("name",)))
    lake.log.commit(create(2, "b"))


def clash_names(lake: Lake) -> None:
    lake.log.change_schema(schema(id="bigint", note="string", Note="string"))
    lake.log.commit(Event("c", {"id": 1}))


def put_foreign_table(lake: Lake) -> None:
    import pyarrow as pa

    lake.log.commit(create(1))
    write_deltalake(str(lake.warehouse / "public/items/current"), pa.table({"id": [1]}))


def remove_segment(lake: Lake) -> None:
    (lake.log.root / lake.log.commit(create(1)).segments[0].path).unlink()


def cut_commit(lake: Lake) -> None:
    lake.log.commit(create(1))
    commit = next((lake.log.root / "commits").iterdir())
    commit.write_bytes(commit.read_bytes()[:-9])


@pytest.mark.parametrize(
    ("harm", "kind", "says"),
    [
        (change_type, SparkError, r"TM-SPK-005: column name of public\.items"),
        (change_key, SparkError, r"TM-SPK-012: public\.items has had the keys"),
        (clash_names, SparkError, r"TM-SPK-011: public\.items has columns note and Note"),
        (put_foreign_table, SparkError, r"TM-SPK-009: .*current"),
        (remove_segment, ChangeLogError, r"TM-LOG-004: .*\.parquet is missing"),
        (cut_commit, ChangeLogError, r"TM-LOG-002: .*\.json is damaged"),
    ],
)
def test_what_must_not_be_is_an_error_that_says_where(
    lake: Lake, harm: Callable[[Lake], None], kind: type[TidemarkError], says: str
) -> None:
    harm(lake)

    with pytest.raises(kind, match=says):
        lake.materialize()


def test_wrong_calls_are_errors_before_anything_starts(lake: Lake) -> None:
    with pytest.raises(ChangeLogError, match="TM-LOG-001"):
        materialize(lake.warehouse, lake.warehouse, {"*": "current"}, spark=lake.spark)
    with pytest.raises(SparkError, match=r"TM-SPK-008.*iceberg"):
        lake.materialize(table_format="iceberg")
    with pytest.raises(SparkError, match=r"TM-SPK-008.*scd2"):
        lake.materialize("scd2")


def test_it_follows_the_log_until_it_is_stopped(lake: Lake) -> None:
    lake.log.commit(create(1))
    stop, first, second = threading.Event(), threading.Event(), threading.Event()

    def seen(applied: Applied) -> None:
        {1: first, 2: second}[applied.position].set()

    reports: list[MaterializeReport] = []
    running = threading.Thread(
        target=lambda: reports.append(lake.materialize("current", available_now=False, progress=seen, stop=stop))
    )
    running.start()
    try:
        assert first.wait(60)
        lake.log.commit(create(2))
        assert second.wait(60)
    finally:
        stop.set()
        running.join(60)

    assert reports[0].tables[0].rows == 2
    memory = json.loads((lake.warehouse / "_tidemark" / "log-1" / "memory.json").read_text())
    assert memory == {"end": 2, "positions": {"public/items current": 2}}
