from __future__ import annotations

import math
import os
import random
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from tests.spark_sink.formats.test_positions import COLUMNS, opened, put, rows, stored
from tests.spark_sink.lake import directory
from tidemark.spark_sink.formats.data_files import DataFile
from tidemark.spark_sink.formats.delta_log import DeltaLog
from tidemark.spark_sink.formats.delta_table import PositionedTable
from tidemark.spark_sink.formats.file_writer import FileWriter
from tidemark.spark_sink.formats.maintenance import clean, small_files, vacuum
from tidemark.spark_sink.formats.positions import Position

TARGET = 1_000_000
HOUR = timedelta(hours=1)


def sized(*sizes: int) -> list[DataFile]:
    return [DataFile(f"part-{i}", size, 1) for i, size in enumerate(sizes)]


def joined(*sizes: int) -> list[list[int]]:
    return [[file.size for file in group] for group in small_files(sized(*sizes), TARGET)]


def test_few_files_are_left_alone() -> None:
    assert joined() == joined(10) == joined(10, 10, 10) == joined(900_000, 10, 900_000, 20, 10) == []


def test_files_of_one_size_are_joined() -> None:
    assert joined(10, 10, 10, 10) == [[10, 10, 10, 10]]


def test_a_large_neighbour_is_not_written_again_for_small_ones() -> None:
    assert joined(1_000, 10, 10, 10, 10) == [[10, 10, 10, 10]]
    assert joined(10, 10, 10, 10, 1_000, 10, 10, 10, 10) == [[10] * 4, [10] * 4]


def test_groups_end_near_the_target() -> None:
    groups = joined(*[100_000] * 95)

    assert [sum(group) for group in groups[:-1]] == [TARGET] * 9
    assert len(groups) == 10


@given(st.lists(st.integers(1, 2_000_000), max_size=60))
def test_groups_are_runs_of_neighbours_that_grow(sizes: list[int]) -> None:
    files = sized(*sizes)
    groups = small_files(files, TARGET)

    places = [[files.index(file) for file in group] for group in groups]
    flat = [place for group in places for place in group]
    assert flat == sorted(set(flat))
    for group, at in zip(groups, places, strict=True):
        assert at == list(range(at[0], at[-1] + 1))
        assert 4 * max(file.size for file in group) <= sum(file.size for file in group) <= TARGET


@pytest.mark.parametrize("typical", [50, 5_000])
def test_the_work_of_many_appends_is_n_log_n(typical: int) -> None:
    noise = random.Random(1)
    count = 5_000
    files: list[DataFile] = []
    written = appended = most = 0
    for i in range(count):
        size = noise.randint(1, 2 * typical)
        appended += size
        files.append(DataFile(f"new-{i}", size, 1))
        for group in small_files(files, TARGET):
            start = files.index(group[0])
            total = sum(file.size for file in group)
            written += total
            files[start : start + len(group)] = [DataFile(f"joined-{i}-{start}", total, 1)]
        most = max(most, len(files))

    assert written <= appended * math.log(TARGET, 4)
    assert most <= 4 * appended / TARGET + 4 * math.log(TARGET, 4)


def age(path: Path, by: timedelta) -> None:
    moment = time.time() - by.total_seconds()
    os.utime(path, (moment, moment))


def data(path: Path) -> set[str]:
    return {file.name for file in path.glob("*.parquet")}


@pytest.fixture
def table(tmp_path: Path) -> PositionedTable:
    created = opened(tmp_path / "a table")
    created.create(COLUMNS, "")
    return created


def later(hours: float) -> datetime:
    return datetime.now(UTC) + timedelta(hours=hours)


def replace_all(table: PositionedTable, position: int, *ids: int) -> None:
    put(table, position, *ids, removes=[file.path for file in table.files()])


def test_files_that_left_the_table_stay_for_a_day(table: PositionedTable) -> None:
    put(table, 1, 1)
    old = data(directory(table))
    replace_all(table, 2, 2)

    assert vacuum(table, HOUR, now=later(23)) == []
    assert [v.position.offset for v in table.versions()] == [2, 1, 0]
    assert set(vacuum(table, HOUR, now=later(25))) == old
    assert data(directory(table)) == {file.path for file in table.files()}
    assert stored(directory(table)) == [2]


def test_files_that_left_the_table_take_no_more_space_than_it(table: PositionedTable) -> None:
    for position in range(1, 8):
        replace_all(table, position, position)

    assert vacuum(table, HOUR, now=later(0.5)) == []
    vacuum(table, HOUR, now=later(2))

    assert sum((directory(table) / name).stat().st_size for name in data(directory(table))) <= 2 * table.size
    # The latest are what is left.
    assert [v.position.offset for v in table.versions()] == [7, 6, 0]
    assert stored(directory(table), 6) == [6]


def test_files_that_left_the_table_just_now_count(table: PositionedTable) -> None:
    """Older ones go where these take as much space as the table."""
    put(table, 1, 1)
    replace_all(table, 2, *range(100))
    replace_all(table, 3, *range(100))
    (older, left), (newer, left_later) = sorted(
        DeltaLog(table.place).removals(3).items(), key=lambda removal: removal[1]
    )
    now = datetime.now(UTC)

    assert vacuum(table, now - left + timedelta(milliseconds=1), now=now) == []
    assert vacuum(table, now - left_later + timedelta(milliseconds=1), now=now) == [older]
    assert data(directory(table)) == {newer, *(file.path for file in table.files())}


def test_files_that_left_the_table_just_now_stay_however_old_and_large(table: PositionedTable) -> None:
    for position in range(1, 8):
        replace_all(table, position, position)
    for file in directory(table).glob("*.parquet"):
        age(file, 48 * HOUR)

    assert vacuum(table, HOUR) == []


def test_files_that_were_never_committed_go_when_they_are_old(table: PositionedTable) -> None:
    put(table, 1, 1)
    writer = FileWriter(table.place, COLUMNS, ["id"], 10**6)
    writer.write(rows(7))
    (leftover,) = writer.finish()
    (directory(table) / "notes.txt").write_text("somebody's")
    (directory(table) / "_change_data").mkdir()

    assert vacuum(table, HOUR) == []
    age(directory(table) / leftover.path, 2 * HOUR)
    age(directory(table) / table.files()[0].path, 48 * HOUR)
    age(directory(table) / "notes.txt", 48 * HOUR)
    assert vacuum(table, HOUR) == [leftover.path]
    assert stored(directory(table)) == [1]


def test_what_others_compacted_meanwhile_is_not_taken_for_a_leftover(table: PositionedTable) -> None:
    for position in range(1, 4):
        put(table, position, position)
    DeltaTable(str(directory(table))).optimize.compact()
    for file in directory(table).glob("*.parquet"):
        age(file, 2 * HOUR)

    vacuum(table, HOUR, now=later(30))

    assert stored(directory(table)) == [1, 2, 3]
    assert len(data(directory(table))) == 1


def test_a_restored_file_is_kept(table: PositionedTable) -> None:
    put(table, 1, 1)
    replace_all(table, 2, 2)
    DeltaTable(str(directory(table))).restore(1)

    vacuum(table, HOUR, now=later(48))

    assert stored(directory(table)) == [1]


def test_when_a_file_left_is_known_after_the_log_was_shortened(table: PositionedTable) -> None:
    put(table, 1, 1)
    (old,) = data(directory(table))
    age(directory(table) / old, 48 * HOUR)
    replace_all(table, 2, 2)
    table.commit([], [], Position(3))
    table.checkpoint()
    DeltaLog(table.place).forget_before(3)
    again = opened(directory(table))

    assert vacuum(again, HOUR) == []
    assert vacuum(again, HOUR, now=later(25)) == [old]


@pytest.mark.heavy
def test_a_long_log_is_shortened_and_costs_no_more(table: PositionedTable) -> None:
    DeltaTable(str(directory(table))).alter.set_table_properties({"delta.checkpointInterval": "10"})
    table.refresh()
    log = directory(table) / "_delta_log"
    most = 0
    for position in range(1, 301):
        replace_all(table, position, position)
        clean(table, 20)
        most = max(most, len(list(log.iterdir())))

    assert most < 60
    again = opened(directory(table))
    assert (again.position, again.version, stored(directory(table))) == (300, 301, [300])
    reached = [v.position.offset for v in again.versions()]
    assert reached == list(range(300, 300 - len(reached), -1)) and 20 <= len(reached) <= 50
    assert stored(directory(table), 301 - len(reached) + 1) == [reached[-1]]

    replace_all(again, 301, 301)
    assert opened(directory(table)).position == 301


def test_a_long_log_without_checkpoints_gets_some(table: PositionedTable) -> None:
    log = directory(table) / "_delta_log"
    for position in range(1, 60):
        table.commit([], [], Position(position))
        clean(table, 5)
        assert len(list(log.glob("*.json"))) <= 16
        assert len(list(log.glob("*.parquet"))) <= 2

    assert (opened(directory(table)).position, opened(directory(table)).version) == (59, 59)
