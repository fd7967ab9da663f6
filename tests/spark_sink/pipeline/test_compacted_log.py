"""A log that is compacted gives the same tables, streams and views, wherever in it a reader stands."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark_sink.log_builder import Event, create
from tests.spark_sink.pipeline.kept_lake import KeptLake, named
from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.changelog.compacted_commit import CompactedCommit
from tidemark.spark_sink.live.read_table import read_table
from tidemark.spark_sink.parts.part_plan import Part, plan_part
from tidemark.spark_sink.pipeline import keep as keeping
from tidemark.spark_sink.source.native_scan import read_changes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidemark.spark_sink.run.settings import Way

pytestmark = pytest.mark.spark


def commits(lake: KeptLake, chance: random.Random, count: int) -> None:
    """Commits of a few rows each: new ones, some of a backfill, and changes of older ones."""
    for _ in range(count):
        begun = chance.randrange(10_000)
        chunk = [create(id, f"row {id}", snapshot=True) for id in range(begun, begun + chance.randrange(1, 9))]
        changes = [create(chance.randrange(100), "new") for _ in range(chance.randrange(4))]
        changes += [Event("d", {"id": chance.randrange(100)}) for _ in range(chance.randrange(2))]
        lake.log.commit(*chunk, *changes)


@pytest.mark.drawn(1)
@pytest.mark.parametrize("way", [None, "rewrite"])
def test_tables_go_on_inside_of_it(lake: KeptLake, way: Way | None) -> None:
    chance = random.Random(3)
    commits(lake, chance, 6)
    lake.keep_well(way=way)
    position = named(lake.keep_well(way=way)).position
    commits(lake, chance, 8)
    assert lake.log.compact() > 10
    # The tables stand in the middle of what is one commit by now.
    inside = ChangeLog(lake.log.root)
    commit = inside.commit(inside.commit_with_offset(position))
    assert isinstance(commit, CompactedCommit)
    assert commit.first_offset < position < commit.next_offset

    lake.keep_well(way=way)
    lake.assert_true()

    for _ in range(3):
        commits(lake, chance, 3)
        lake.log.compact()
        lake.keep_well(way=way)
    lake.assert_true()
    again = KeptLake(lake.log, lake.warehouse.parent / "another", lake.session)
    again.keep_well(way=way)
    again.assert_true()


def test_a_truncate_before_a_position_does_not_empty_the_table_again(lake: KeptLake) -> None:
    lake.log.commit(create(1), create(2))
    lake.log.commit(Event("t"), create(3))
    lake.log.commit(create(4))
    lake.keep_well()
    lake.log.commit(create(5))
    lake.log.commit(create(6))
    assert lake.log.compact() > 2
    lake.keep_well()
    lake.assert_true()
    assert [row["id"] for row in lake.rows("current")] == [3, 4, 5, 6]


def test_segments_that_go_while_they_are_to_be_applied(lake: KeptLake, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(9)
    commits(lake, chance, 6)
    planned: list[Part] = []

    def compacting(*arguments: Any) -> Part:
        if not planned:
            assert lake.log.compact() > 2
        planned.append(plan_part(*arguments))
        return planned[-1]

    monkeypatch.setattr(keeping, "plan_part", compacting)
    lake.keep_well()
    assert len(planned) > 2  # The first plans had segments that were gone.
    lake.assert_true()


def test_a_run_ends_where_it_wanted_to(lake: KeptLake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log grows while a run applies what there was, and the end of that is in the middle of a file by then."""
    chance = random.Random(11)
    commits(lake, chance, 4)
    lake.keep_well("current")
    commits(lake, chance, 4)
    end, planned = lake.log.offset, [0]

    def growing(*arguments: Any) -> Part:
        planned[0] += 1
        assert planned[0] < 10, "it goes on for ever"
        if planned[0] == 1:
            commits(lake, chance, 4)
            assert lake.log.compact() > 8
        return plan_part(*arguments)

    monkeypatch.setattr(keeping, "plan_part", growing)
    assert named(lake.keep_well("current")).position == end
    lake.keep_well("current")
    lake.assert_current()


def test_views_and_scans(spark: SparkSession, lake: KeptLake) -> None:
    chance = random.Random(5)
    commits(lake, chance, 5)
    lake.keep_well("current")
    commits(lake, chance, 9)
    end = lake.log.offset
    events = [offset for offset, _ in lake.log.events]
    middle = lake.log.events[len(events) // 2][0]
    path = Path(lake.log.root)

    def shown(as_of: int | str) -> dict[int, int]:
        frame = read_table(spark, path, "public.items", as_of, warehouse=lake.warehouse)
        return {row["id"]: row["_offset"] for row in frame.collect()}

    before = shown("latest"), shown(middle)
    lake.log.compact()
    assert (shown("latest"), shown(middle)) == before
    for start, stop in ((0, end), (middle, end), (3, middle)):
        frame = read_changes(spark, path, "public.items", start, stop)
        assert sorted(row["_offset"] for row in frame.select("_offset").collect()) == list(range(start, stop))


def test_a_stream_goes_on_inside_of_it(spark: SparkSession, lake: KeptLake, tmp_path: Path) -> None:
    chance = random.Random(7)
    seen: list[int] = []

    def note(batch: DataFrame, _: int) -> None:
        seen.extend(row["_offset"] for row in batch.select("_offset").collect())

    for _ in range(3):
        commits(lake, chance, 4)
        stream = spark.readStream.format("tidemark").options(
            path=str(lake.log.root), table="public.items", maxEventsPerBatch="12"
        )
        writer = stream.load().writeStream.foreachBatch(note).option("checkpointLocation", str(tmp_path / "at"))
        writer.trigger(availableNow=True).start().awaitTermination()
        assert sorted(seen) == list(range(lake.log.offset))
        commits(lake, chance, 4)
        lake.log.compact()
