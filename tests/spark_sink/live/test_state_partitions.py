"""The tasks of ``state=current``, run here one after the other: their code is Arrow's, and Spark only spreads them."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from math import inf, nan
from pathlib import Path

import pytest
from pyspark.sql.datasource import InputPartition

from tests.examples import sample
from tests.spark_sink.live.random_log import WIDE, RandomLog, State, random_log
from tests.spark_sink.log_builder import Event, LogBuilder, schema
from tidemark.protocol.errors import SparkError
from tidemark.spark_sink.live.state_partitions import TAIL_BYTES, BasePartition, TailPartition, plan_state, read_state
from tidemark.spark_sink.live.table_view import TableView, TailLimits, table_view
from tidemark.spark_sink.source.followed_log import FollowedLog
from tidemark.spark_sink.tables.store_place import StorePlace

ROW = (*WIDE, "_offset", "_commit_ts")
NOBODY = 1 << 60


SMALL, LARGE = TailLimits(), TailLimits(keys=0)
"""Limits with which the tests' tails are small, and large."""


def viewed(made: RandomLog, collection: str, end: int, limits: TailLimits = SMALL) -> TableView:
    return replace(
        table_view(FollowedLog(made.log.root), collection, end, StorePlace.of(made.warehouse)), limits=limits
    )


def rows(partitions: Iterable[InputPartition]) -> State:
    found = []
    for partition in partitions:
        for batch in read_state(partition):
            for row in batch.to_pylist():
                time = row["_commit_ts"]
                found.append({**row, "_commit_ts": time and time.replace(tzinfo=None)})
    state = {tuple(row.get(name) for name in ROW) for row in found}
    assert len(state) == len(found)
    return state


@pytest.mark.drawn(2)
@pytest.mark.parametrize("seed", range(sample(4, 4, 1)))
@pytest.mark.parametrize("tail", ["small", "large", "in pieces"])
def test_the_tasks_give_what_a_replay_gives(tmp_path: Path, seed: int, tail: str) -> None:
    chance = random.Random(seed)
    made = random_log(chance, tmp_path, tables=3, commits=7)
    made.fold_at_random(chance)
    limits = SMALL if tail == "small" else LARGE
    tail_bytes = 300 if tail == "in pieces" else TAIL_BYTES

    for collection in made.widened:
        inside = [chance.randrange(a, b) for a, b in zip(made.boundaries, made.boundaries[1:], strict=False)]
        for end in [*made.boundaries, *inside]:
            view = viewed(made, collection, end, limits)
            found = rows(plan_state(view, view.columns, base_bytes=3000, tail_bytes=tail_bytes))
            assert found == made.state(collection, end), (collection, end)


@pytest.fixture
def made(tmp_path: Path) -> RandomLog:
    """Ten rows, in a base of four files with the keys 0 to 2, 3 to 5, 6 to 8, and 9."""
    log = LogBuilder(
        tmp_path / "a log", random_log(random.Random(0), tmp_path / "other", 1, 1).log.schemas["public/t0"]
    )
    made = RandomLog(log, tmp_path / "a lake", [0], {"public/t0": NOBODY})
    made.commit(*(event("c", n, note="old") for n in range(10)))
    made.fold("public/t0", 10)
    return made


def event(op: str, number: int, unchanged: tuple[str, ...] = (), **values: str) -> Event:
    row = {"id": number, "k1": number, "k2": "x", **values}
    return Event(op, row, unchanged=unchanged, table="public/t0")


def planned(made: RandomLog, limits: TailLimits) -> list[int]:
    """How many files are read as they are, without keys of the tail, and for rows to inherit from."""
    overlay = viewed(made, "public/t0", made.boundaries[-1], limits).overlay
    return [len(overlay.untouched), len(overlay.touched), len(overlay.inherited)]


@pytest.mark.parametrize("tail", ["small", "large"])
def test_files_that_cannot_hold_a_changed_key_are_read_as_they_are(made: RandomLog, tail: str) -> None:
    limits = SMALL if tail == "small" else LARGE
    assert planned(made, limits) == [4, 0, 0]

    made.commit(event("u", 4, note="new"))
    assert planned(made, limits) == [3, 1, 0 if tail == "small" else 1]

    made.commit(event("u", 50, note="new"), event("d", 9))
    # Of a large tail only the box of each segment is known.
    assert planned(made, limits) == ([2, 2, 0] if tail == "small" else [2, 2, 2])

    made.commit(event("u", 0, ("note",)))
    assert planned(made, limits) == ([1, 3, 1] if tail == "small" else [1, 3, 3])

    made.commit(Event("t", table="public/t0"))
    assert planned(made, limits) == [0, 0, 0]


def test_only_the_columns_that_are_asked_for_are_read(made: RandomLog) -> None:
    made.commit(event("u", 4, ("note",), name="new"))
    view = viewed(made, "public/t0", made.boundaries[-1])

    partitions = plan_state(view, ["note"])

    assert sum(isinstance(partition, BasePartition) for partition in partitions) == 2
    assert sum(isinstance(partition, TailPartition) for partition in partitions) == 1
    found = [batch for partition in partitions for batch in read_state(partition)]
    assert all(batch.schema.names == ["note"] for batch in found)
    assert [row["note"] for batch in found for row in batch.to_pylist()] == ["old"] * 10


def test_rows_count_where_none_of_their_columns_is_asked_for(made: RandomLog) -> None:
    made.commit(event("d", 4))
    view = viewed(made, "public/t0", made.boundaries[-1])

    found = [batch for partition in plan_state(view, ["missing"]) for batch in read_state(partition)]

    assert sum(batch.num_rows for batch in found) == 9


def test_the_newest_base_that_is_old_enough_is_taken(made: RandomLog) -> None:
    made.commit(event("u", 4, note="new"))
    made.commit(event("u", 4, note="newer"))
    made.fold("public/t0", 12)

    assert [viewed(made, "public/t0", end).start for end in (5, 10, 11, 12)] == [0, 10, 10, 12]


def test_a_version_whose_files_were_vacuumed_gives_way_to_the_log(made: RandomLog) -> None:
    old = viewed(made, "public/t0", 10).base
    made.commit(event("u", 4, note="new"))
    made.fold("public/t0", 11)
    assert old.table is not None
    old.table.store.delete(old.files[0].path)

    view = viewed(made, "public/t0", 10)

    assert (view.start, view.base.files) == (0, ())
    assert rows(plan_state(view, view.columns)) == made.state("public/t0", 10)


def test_a_file_that_went_after_planning_is_an_error_that_names_it(made: RandomLog) -> None:
    view = viewed(made, "public/t0", 10)
    partitions = plan_state(view, view.columns)
    assert view.base.table is not None
    view.base.table.store.delete(view.base.files[1].path)

    with pytest.raises(SparkError, match=r"TM-SPK-015.*part.*is missing"):
        rows(partitions)


@pytest.mark.parametrize("keys", [[1.0, 2.0, nan], [nan, -inf, inf], [nan]])
def test_a_large_tail_has_each_key_once_also_what_is_not_a_number(tmp_path: Path, keys: list[float]) -> None:
    log = LogBuilder(tmp_path / "log", schema("public/measures", ["at"], at="double", note="string"))
    for note in ("old", "new"):
        for key in keys:
            log.commit(Event("c", {"at": key, "note": note}, table="public/measures"))
    view = table_view(FollowedLog(log.root), "public/measures", log.offset, None)
    for tail_bytes in (1, 100, 1000):
        planned = plan_state(view, ["at", "note"], tail_bytes=tail_bytes)
        found = [row for partition in planned for batch in read_state(partition) for row in batch.to_pylist()]
        assert sorted(str(row["at"]) for row in found) == sorted(map(str, keys))
        assert {row["note"] for row in found} == {"new"}
