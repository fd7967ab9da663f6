"""The pipeline without Spark: batches are cut and handed over as the stream would."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from protocol.errors import ChangeLogError, SparkError, TidemarkError
from spark_sink.formats.delta_table import PositionedTable
from spark_sink.pipeline.pipeline import Pipeline
from spark_sink.pipeline.table_keeper import CommittedSegment
from spark_sink.source.followed_log import Limits
from spark_sink.tables.kept_tables import KeepRules
from tests.spark_sink.lake import ITEMS, Lake
from tests.spark_sink.log_builder import Event, LogBuilder, create, schema
from tests.spark_sink.replay import random_events

BOTH: Mapping[str, Sequence[str]] = {"*": ["current", "history"]}
ALL = Limits(events=100_000)


class Stream:
    """A query with a checkpoint: what it has read it does not read again."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self.position = 0

    def start(self, tables: Mapping[str, Sequence[str]] = BOTH, limits: Limits = ALL) -> Pipeline:
        memory = self.lake.warehouse.parent / "memory.json"
        pipeline = Pipeline(
            self.lake.log.root, self.lake.warehouse, KeepRules(tables), limits, memory, progress=lambda applied: None
        )
        pipeline.open(resuming=self.position > 0)
        return pipeline

    def go_on(self, pipeline: Pipeline, limits: Limits = ALL) -> Pipeline:
        """Hands over all that is in the log now, in batches within the limits."""
        log = pipeline.log
        while (end := log.cut(self.position, limits, log.end())) > self.position:
            pipeline.apply([CommittedSegment(n, s) for n, s in log.segments_of_all(self.position, end)])
            self.position = end
        return pipeline

    def run(self, tables: Mapping[str, Sequence[str]] = BOTH, limits: Limits = ALL) -> Pipeline:
        return self.go_on(self.start(tables, limits), limits)


@pytest.fixture
def lake(log: LogBuilder, tmp_path: Path) -> Lake:
    return Lake(log, tmp_path / "a lake")


@pytest.fixture
def stream(lake: Lake) -> Stream:
    return Stream(lake)


@pytest.mark.parametrize("seed", range(6))
def test_tables_are_what_the_events_say_whatever_the_batches(lake: Lake, seed: int) -> None:
    chance = random.Random(seed)
    tables = {"public/dense": (5, 0.02), "public/sparse": (400, 0.0), "other/mixed": (60, 0.005)}
    for table in tables:
        lake.log.change_schema(schema(table))
    stream = Stream(lake)
    for _ in range(3):
        for _ in range(chance.randrange(1, 6)):
            events = [
                event
                for table, (keys, truncates) in tables.items()
                for event in random_events(chance, chance.randrange(60), keys=keys, truncates=truncates, table=table)
            ]
            chance.shuffle(events)
            lake.log.commit(*events)
        if chance.random() < 0.3:
            stream = Stream(lake)  # the checkpoint is lost
        stream.run(limits=Limits(events=chance.choice([1, 150, 100_000])))
        for table in tables:
            lake.assert_true(table)


def test_new_keys_are_appended_and_known_ones_merged(lake: Lake, stream: Stream) -> None:
    def operations() -> list[str]:
        return [commit["operation"] for commit in reversed(lake.delta("current").history())]

    for first in (0, 100):
        lake.log.commit(*map(create, range(first, first + 100)))
        stream.run()
    assert operations() == ["CREATE TABLE", "WRITE", "WRITE"]

    lake.log.commit(create(50, "new"), create(500))
    stream.run()

    assert operations()[3:] == ["MERGE"]
    lake.assert_true()


def test_a_batch_that_comes_again_changes_nothing(lake: Lake, stream: Stream) -> None:
    for i in range(4):
        lake.log.commit(create(i), create(i + 1, "b"), Event("d", {"id": 0}))
    stream.run(limits=Limits(events=3))
    before = lake.delta("current").version(), lake.delta("history").version()

    Stream(lake).run(limits=Limits(events=5))

    assert (lake.delta("current").version(), lake.delta("history").version()) == before
    lake.assert_true()


def test_a_batch_larger_than_the_limits_is_applied_in_parts(lake: Lake, stream: Stream) -> None:
    """As before PySpark 4.2, where a batch is all there is."""
    for i in range(6):
        lake.log.commit(create(i), create(i + 1, "b"))

    stream.go_on(stream.start(limits=Limits(events=4)), ALL)

    assert lake.delta("history").version() == 3
    lake.assert_true()


def test_a_lost_table_is_built_again_though_the_stream_is_beyond(lake: Lake, stream: Stream) -> None:
    lake.log.commit(create(1), create(2))
    lake.log.commit(Event("u", {"id": 1, "name": "x"}, unchanged=("note",)))
    stream.run()
    shutil.rmtree(lake.warehouse / ITEMS / "current")
    lake.log.commit(Event("d", {"id": 2}))

    stream.run()

    lake.assert_true()


def test_a_table_that_was_restored_to_an_older_version_catches_up(lake: Lake, stream: Stream) -> None:
    lake.log.commit(create(1), create(2))
    stream.run()
    lake.log.commit(Event("d", {"id": 1}))
    stream.run()
    for kind in ("current", "history"):
        forget_commits_after(lake.warehouse / ITEMS / kind, 1)

    stream.run()

    lake.assert_true()


def forget_commits_after(table: Path, version: int) -> None:
    """Leaves a table as a copy made at that version is."""
    for commit in (table / "_delta_log").glob("*.json"):
        if int(commit.stem) > version:
            commit.unlink()


def test_a_kind_that_was_not_kept_for_a_while_catches_up(lake: Lake, stream: Stream) -> None:
    for i, kinds in enumerate([["current", "history"], ["history"], ["current", "history"]]):
        lake.log.commit(create(i), create(i + 1, "b"))
        stream.run({"*": kinds})

    lake.assert_true()


def test_a_table_that_gets_a_key_while_it_is_kept_has_all_its_rows(lake: Lake, stream: Stream) -> None:
    lake.log.change_schema(schema(key=()))
    lake.log.change_schema(schema("public/others"))
    lake.log.commit(create(1), create(2), create(1, table="public/others"))
    pipeline = stream.run()
    assert not (lake.warehouse / ITEMS / "current").exists()
    lake.log.change_schema(schema())
    lake.log.commit(Event("u", {"id": 2, "name": "b"}, unchanged=("note",)))

    stream.go_on(pipeline)

    lake.assert_true()


def test_a_table_ahead_of_the_log_is_refused(lake: Lake, stream: Stream, tmp_path: Path) -> None:
    lake.log.commit(create(1))
    lake.log.commit(create(2))
    stream.run()
    lake.log = LogBuilder(tmp_path / "restored")
    lake.log.commit(create(1))

    with pytest.raises(SparkError, match=r"TM-SPK-006: .* is at offset 2, but .* ends at 1"):
        Stream(lake).run()


def test_a_failure_of_one_table_keeps_no_other_from_its_events(
    lake: Lake, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.log.commit(create(1))
    stream.run()
    lake.log.commit(create(2))
    append = PositionedTable.append

    def fail_on_history(self: PositionedTable, rows: pa.Table, position: int) -> None:
        if self.path.name == "history":
            raise SparkError("TM-SPK-015", "the disk is full")
        append(self, rows, position)

    with monkeypatch.context() as patched:
        patched.setattr(PositionedTable, "append", fail_on_history)
        with pytest.raises(SparkError, match="TM-SPK-015: the disk is full"):
            stream.run()
    version = lake.delta("current").version()

    stream.run()

    assert lake.delta("current").version() == version
    lake.assert_true()


def test_columns_come_go_and_widen(lake: Lake, stream: Stream) -> None:
    lake.log.change_schema(schema(id="bigint", name="string", note="string", code="bigint"))
    lake.log.commit(Event("c", {"id": 1, "name": "a", "note": "x", "code": 1}))
    lake.log.change_schema(schema(id="bigint", name="string", code="string"))
    lake.log.commit(Event("c", {"id": 2, "name": "b", "code": "B"}))
    stream.run()
    lake.log.change_schema(schema(id="bigint", name="string", code="string", price="decimal(8,2)"))
    lake.log.commit(Event("u", {"id": 1, "code": "C", "price": None}, unchanged=("name",)), create(3, "c"))

    stream.run()

    rows = {row["id"]: (row["name"], row["note"], row["code"], row["price"]) for row in lake.rows("current")}
    assert rows == {1: ("a", None, "C", None), 2: ("b", None, "B", None), 3: ("c", None, None, None)}
    assert [(r["note"], r["code"]) for r in lake.rows("history")] == [
        ("x", "1"),
        (None, "B"),
        (None, "C"),
        (None, None),
    ]


def test_a_table_without_a_key_has_history_alone(lake: Lake, stream: Stream) -> None:
    lake.log.change_schema(schema(key=()))
    lake.log.commit(create(1), create(1), Event("d", {"id": 1}))

    pipeline = stream.run({"*": ["current"]})

    assert [target.kind for target in pipeline.keepers] == ["history"]
    assert [row["_op"] for row in lake.rows("history")] == ["c", "c", "d"]


def test_a_key_of_several_columns_in_any_case(lake: Lake, stream: Stream) -> None:
    lake.log.change_schema(
        schema(key=("Region", "unit id"), **{"Region": "string", "unit id": "date", "note": "string"})
    )
    keys: list[dict[str, Any]] = [{"Region": r, "unit id": date(2026, 1, day)} for r in ("a", "A") for day in (1, 2)]
    lake.log.commit(*(Event("c", {**key, "note": "old"}) for key in keys))
    stream.run()
    lake.log.commit(
        Event("u", keys[1], unchanged=("note",)), Event("u", {**keys[2], "note": "new"}), Event("d", keys[3])
    )

    stream.run()

    rows = [(r["Region"], r["unit id"].day, r["note"], r["_offset"]) for r in lake.rows("current")]
    assert rows == [("a", 1, "old", 0), ("a", 2, "old", 4), ("A", 1, "new", 5)]


def change_type(lake: Lake, stream: Stream) -> None:
    lake.log.commit(create(1))
    stream.run()
    lake.log.change_schema(schema(id="bigint", name="double", note="string"))
    lake.log.commit(Event("c", {"id": 2, "name": 0.5}))


def change_key(lake: Lake, stream: Stream) -> None:
    lake.log.commit(create(1))
    stream.run()
    lake.log.change_schema(schema(key=("name",)))
    lake.log.commit(create(2, "b"))


def clash_names(lake: Lake, stream: Stream) -> None:
    lake.log.change_schema(schema(id="bigint", note="string", Note="string"))
    lake.log.commit(Event("c", {"id": 1}))


def put_foreign_table(lake: Lake, stream: Stream) -> None:
    lake.log.commit(create(1))
    write_deltalake(str(lake.warehouse / ITEMS / "current"), pa.table({"id": [1]}))


def remove_segment(lake: Lake, stream: Stream) -> None:
    (lake.log.root / lake.log.commit(create(1)).segments[0].path).unlink()


@pytest.mark.parametrize(
    ("harm", "kind", "says"),
    [
        (change_type, SparkError, r"TM-SPK-005: column name of public\.items"),
        (change_key, SparkError, r"TM-SPK-012: public\.items has had the keys \(id\), \(name\)"),
        (clash_names, SparkError, r"TM-SPK-011: public\.items has columns note and Note"),
        (put_foreign_table, SparkError, r"TM-SPK-009: .*current"),
        (remove_segment, ChangeLogError, r"TM-LOG-009: .*\.parquet is missing"),
    ],
)
def test_what_must_not_be_is_an_error_that_says_where(
    lake: Lake, stream: Stream, harm: Callable[[Lake, Stream], None], kind: type[TidemarkError], says: str
) -> None:
    harm(lake, stream)

    with pytest.raises(kind, match=says):
        stream.run()
