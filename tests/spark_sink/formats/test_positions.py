"""The position of a table follows its data, whatever others did to it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from threading import Barrier
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Field, Transaction, write_deltalake
from deltalake.schema import PrimitiveType
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.spark_sink.lake import directory
from tidemark.protocol.errors import SparkError
from tidemark.spark_sink.formats.delta_log import DeltaLog
from tidemark.spark_sink.formats.delta_table import PositionedTable
from tidemark.spark_sink.formats.file_writer import FileWriter
from tidemark.spark_sink.formats.positions import Position
from tidemark.spark_sink.tables.column_types import arrow_schema
from tidemark.spark_sink.tables.store_place import StorePlace

COLUMNS = {"id": "bigint"}
TARGET = "public/items current"


def opened(path: Path, log_id: str = "log-1", target: str = TARGET) -> PositionedTable:
    return PositionedTable(StorePlace.of(path), log_id, target)


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids)}, arrow_schema(COLUMNS))


def put(table: PositionedTable, position: int, *ids: int, removes: Sequence[str] = ()) -> None:
    """Commits a file with these rows."""
    writer = FileWriter(table.place, COLUMNS, ["id"], 10**6)
    writer.write(rows(*ids))
    table.commit(writer.finish(), removes, Position(position))


def stored(path: Path, version: int | None = None) -> list[int]:
    ids: list[Any] = DeltaTable(str(path), version=version).to_pyarrow_table().column("id").to_pylist()
    return sorted(ids)


def log_file(path: Path, version: int) -> Path:
    return path / "_delta_log" / f"{version:020d}.json"


def clean_before(path: Path, version: int) -> None:
    """What an engine does to a log whose retention is over."""
    DeltaTable(str(path), version=version).create_checkpoint()
    for old in range(version):
        log_file(path, old).unlink(missing_ok=True)


@pytest.fixture
def table(tmp_path: Path) -> PositionedTable:
    """Versions 0 to 3 at positions 0, 10, 20 and 30, each but the first with one more file of one row."""
    created = opened(tmp_path / "a table")
    created.create(COLUMNS, "")
    for n in (1, 2, 3):
        put(created, n * 10, n)
    return created


@pytest.mark.parametrize(("version", "position"), [(0, 0), (1, 10), (2, 20)])
def test_a_restored_table_has_the_position_that_it_had_then(
    table: PositionedTable, version: int, position: int
) -> None:
    DeltaTable(str(directory(table))).restore(version)

    assert opened(directory(table)).position == position
    table.refresh()
    assert table.position == position

    put(table, 35, 7)
    assert (opened(directory(table)).position, stored(directory(table))) == (35, [*range(1, version + 1), 7])


def test_a_table_restored_by_time_has_the_position_of_its_files(table: PositionedTable) -> None:
    second = DeltaLog(table.place).commit(2)
    assert second is not None
    put(table, 40, 4)
    info = json.loads(log_file(directory(table), 2).read_text().splitlines()[0])["commitInfo"]
    DeltaTable(str(directory(table))).restore(datetime.fromtimestamp(info["timestamp"] / 1000, UTC))

    assert opened(directory(table)).position == 10 * len(stored(directory(table)))


def test_a_restore_of_a_restore_is_followed(table: PositionedTable) -> None:
    delta = DeltaTable(str(directory(table)))
    delta.restore(1)
    delta.restore(3)
    assert opened(directory(table)).position == 30
    delta.restore(4)
    assert (opened(directory(table)).position, stored(directory(table))) == (10, [1])


def test_commits_without_rows_between_do_not_matter(table: PositionedTable) -> None:
    table.commit([], [], Position(35))
    put(table, 40, 4)
    DeltaTable(str(directory(table))).restore(3)

    # The rows are those of version 4 as well, whose position is higher.
    assert (stored(directory(table)), opened(directory(table)).position) == ([1, 2, 3], 35)


def test_compaction_vacuum_and_settings_of_others_keep_the_position(table: PositionedTable) -> None:
    delta = DeltaTable(str(directory(table)))
    delta.optimize.compact()
    delta.alter.set_table_properties({"delta.checkpointInterval": "20"})
    delta.alter.add_columns([Field("more", PrimitiveType("long"))])
    delta.vacuum(0, dry_run=False, enforce_retention_duration=False)

    table.refresh()

    assert (table.position, opened(directory(table)).position, table.version) == (30, 30, delta.version())
    assert len(table.files()) == 1


def test_a_restore_to_a_compacted_version_has_the_position_before_it(table: PositionedTable) -> None:
    delta = DeltaTable(str(directory(table)))
    delta.optimize.compact()
    table.refresh()
    put(table, 40, 4)
    delta.update_incremental()
    delta.restore(4)

    assert (opened(directory(table)).position, stored(directory(table))) == (30, [1, 2, 3])


def test_a_compaction_that_came_between_makes_a_commit_fail_once(table: PositionedTable) -> None:
    old = [file.path for file in table.files()]
    DeltaTable(str(directory(table))).optimize.compact()

    with pytest.raises(SparkError, match="TM-SPK-010"):
        put(table, 40, 4, removes=old[:1])
    with pytest.raises(SparkError, match="TM-SPK-010"):
        put(table, 40, 4)
    table.refresh()
    with pytest.raises(SparkError, match="TM-SPK-010"):
        put(table, 40, 4, removes=old[:1])
    put(table, 40, 4)

    assert (opened(directory(table)).position, stored(directory(table))) == (40, [1, 2, 3, 4])


def test_of_many_that_commit_at_once_one_does(table: PositionedTable) -> None:
    handles = [opened(directory(table)) for _ in range(6)]
    together = Barrier(len(handles))

    def attempt(number: int) -> bool:
        together.wait()
        try:
            put(handles[number], 40 + number, 100 + number)
        except SparkError as error:
            assert error.code == "TM-SPK-010"
            return False
        return True

    with ThreadPoolExecutor(len(handles)) as pool:
        done = list(pool.map(attempt, range(len(handles))))

    winner = done.index(True)
    assert done.count(True) == 1
    again = opened(directory(table))
    assert (again.position, again.version) == (40 + winner, 4)
    assert stored(directory(table)) == [1, 2, 3, 100 + winner]


def write_append(path: Path) -> None:
    write_deltalake(str(path), rows(9), mode="append")


def write_delete(path: Path) -> None:
    DeltaTable(str(path)).delete("id = 2")


def write_overwrite(path: Path) -> None:
    write_deltalake(str(path), rows(), mode="overwrite")


@pytest.mark.parametrize("change", [write_append, write_delete, write_overwrite])
def test_rows_that_others_wrote_are_refused_until_they_are_undone(table: PositionedTable, change: Any) -> None:
    change(directory(table))
    DeltaTable(str(directory(table))).alter.set_table_properties({"delta.checkpointInterval": "20"})

    for attempt in (lambda: opened(directory(table)), table.refresh, lambda: put(table, 40, 4), lambda: table.position):
        with pytest.raises(SparkError, match=r"TM-SPK-016.*version 4 .*another program") as error:
            attempt()
        assert "--rebuild" in error.value.remedy

    DeltaTable(str(directory(table))).restore(3)
    assert opened(directory(table)).position == 30


@pytest.mark.parametrize("operation", ["RENAME COLUMN", "DROP COLUMNS"])
def test_columns_that_others_took_are_refused_until_they_are_back(table: PositionedTable, operation: str) -> None:
    lines = map(json.loads, log_file(directory(table), 0).read_text().splitlines())
    columns = json.dumps(next(line for line in lines if "metaData" in line))

    def commit(version: int, done: str) -> None:
        log_file(directory(table), version).write_text(f'{{"commitInfo": {{"operation": "{done}"}}}}\n{columns}\n')

    commit(4, operation)
    with pytest.raises(SparkError, match=rf"TM-SPK-016.*version 4 \({operation}\)"):
        opened(directory(table))
    commit(5, "RESTORE")
    assert opened(directory(table)).position == 30


def test_another_programs_commit_between_is_not_overlooked(table: PositionedTable) -> None:
    write_append(directory(table))

    with pytest.raises(SparkError, match="TM-SPK-010"):
        put(table, 40, 4)


def test_tables_of_others_are_left_alone(table: PositionedTable, tmp_path: Path) -> None:
    with pytest.raises(SparkError, match="TM-SPK-009"):
        opened(directory(table), log_id="log-2")

    write_deltalake(str(tmp_path / "theirs"), rows(1))
    with pytest.raises(SparkError, match="TM-SPK-009"):
        opened(tmp_path / "theirs")

    # An application transaction of ours alone does not make a table ours.
    ours = CommitProperties(app_transactions=[Transaction("tidemark:log-1", 5)])
    write_deltalake(str(tmp_path / "claimed"), rows(1), commit_properties=ours)
    with pytest.raises(SparkError, match="TM-SPK-009"):
        opened(tmp_path / "claimed")


@pytest.mark.parametrize("cleaned", [False, True])
def test_a_copy_is_taken_under_its_own_name_only(table: PositionedTable, tmp_path: Path, cleaned: bool) -> None:
    copy = tmp_path / "elsewhere" / "ü 100%"
    shutil.copytree(directory(table), copy)
    if cleaned:
        DeltaTable(str(copy)).create_checkpoint()
        for version in range(4):
            log_file(copy, version).unlink()

    assert opened(copy).position == 30
    with pytest.raises(SparkError, match=r"TM-SPK-017.*copy of .*, not public/items history"):
        opened(copy, target="public/items history")


def test_a_cleaned_log_is_trusted_where_no_restore_can_hide(table: PositionedTable) -> None:
    DeltaTable(str(directory(table))).optimize.compact()
    clean_before(directory(table), 4)

    # Version 3 is our last commit, and all commits after it are there.
    assert opened(directory(table)).position == 30


@pytest.mark.parametrize("cleaned", [False, True])
def test_all_members_of_a_position_are_stated(table: PositionedTable, cleaned: bool) -> None:
    stated = Position(40, before=5, generation=3, events=7, over=2)
    table.commit([], [], stated)
    if cleaned:
        DeltaTable(str(directory(table))).create_checkpoint()
        for version in range(table.version + 1):
            log_file(directory(table), version).unlink()
    assert opened(directory(table)).standing == stated


def test_a_cleaned_log_is_not_trusted_where_a_restore_may_hide(table: PositionedTable) -> None:
    DeltaTable(str(directory(table))).restore(1)
    DeltaTable(str(directory(table))).optimize.compact()
    DeltaTable(str(directory(table))).alter.set_table_properties({"delta.checkpointInterval": "20"})
    newest = DeltaTable(str(directory(table))).version()
    assert opened(directory(table)).position == 10
    clean_before(directory(table), newest)

    with pytest.raises(SparkError, match=r"TM-SPK-016.*after version 3 were removed"):
        opened(directory(table))


def test_a_restore_to_before_the_log_is_refused(table: PositionedTable) -> None:
    DeltaTable(str(directory(table))).restore(1)
    clean_before(directory(table), 3)

    with pytest.raises(SparkError, match=r"TM-SPK-016.*restored"):
        opened(directory(table))


def test_opening_reads_one_commit_and_going_on_none(table: PositionedTable, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    commit = DeltaLog.commit

    def counted(log: DeltaLog, version: int) -> Any:
        read.append(version)
        return commit(log, version)

    monkeypatch.setattr(DeltaLog, "commit", counted)
    again = opened(directory(table))
    assert read == [3]

    put(again, 40, 4)
    again.refresh()
    assert (again.position, read) == (40, [3])

    DeltaTable(str(directory(table))).optimize.compact()
    again.refresh()
    assert (again.position, read) == (40, [3, 5])


def test_versions_have_the_positions_of_their_rows(table: PositionedTable) -> None:
    delta = DeltaTable(str(directory(table)))
    delta.restore(1)
    table.refresh()
    table.commit([], [], Position(12))
    DeltaTable(str(directory(table))).optimize.compact()
    table.refresh()

    known = list(table.versions())

    assert [(v.version, v.position.offset) for v in known] == [(5, 12), (4, 10), (3, 30), (2, 20), (1, 10), (0, 0)]
    assert known == sorted(known, key=lambda v: v.committed, reverse=True)
    for v in known:
        old = table.at(v.version)
        assert (old.standing, old.version) == (v.position, v.version)
        assert sum(file.rows for file in old.files()) == len(stored(directory(table), v.version))


def test_versions_whose_files_are_gone_are_left_out(table: PositionedTable) -> None:
    second, first = sorted(table.files(), key=lambda file: (directory(table) / file.path).stat().st_mtime_ns)[1::-1]
    table.commit([], [second.path], Position(40))
    put(table, 50, 5)
    table.commit([], [first.path], Position(60))
    (directory(table) / second.path).unlink()

    assert [v.position.offset for v in table.versions()] == [60, 50, 40, 10, 0]


def test_versions_of_rows_that_others_wrote_are_left_out(table: PositionedTable) -> None:
    write_append(directory(table))
    DeltaTable(str(directory(table))).optimize.compact()
    DeltaTable(str(directory(table))).restore(3)
    table.refresh()

    assert [v.version for v in table.versions()] == [6, 3, 2, 1, 0]


def test_versions_end_where_the_log_does(table: PositionedTable) -> None:
    clean_before(directory(table), 2)

    assert [v.version for v in opened(directory(table)).versions()] == [3, 2]


def test_a_checkpoint_whose_next_commit_is_gone_is_of_no_use(table: PositionedTable) -> None:
    for version in (0, 3):
        DeltaTable(str(directory(table)), version=version).create_checkpoint()
    for version in (0, 1):
        log_file(directory(table), version).unlink()

    assert [v.version for v in opened(directory(table)).versions()] == [3]


def test_an_old_version_is_not_moved_by_what_comes_later(table: PositionedTable) -> None:
    old = table.at(2)
    put(table, 40, 4)
    old.refresh()

    assert (old.position, old.version, old.rows) == (20, 2, 2)


STEPS = st.lists(
    st.one_of(
        st.just(("put", 0)),
        st.just(("move", 0)),
        st.just(("drop", 0)),
        st.just(("compact", 0)),
        st.just(("alter", 0)),
        st.tuples(st.just("restore"), st.integers(0, 30)),
    ),
    max_size=8,
)


@settings(deadline=None, max_examples=examples(25))
@given(STEPS)
def test_the_position_always_describes_the_rows(tmp_path_factory: pytest.TempPathFactory, steps: Any) -> None:
    """Whatever we and others do, the rows are those that were there when the position was committed."""
    path = tmp_path_factory.mktemp("table")
    table = opened(path)
    table.create(COLUMNS, "")
    rows_at: dict[int, list[int]] = {0: []}
    position = 0
    for step, argument in steps:
        delta = DeltaTable(str(path))
        if step == "compact":
            delta.optimize.compact()
        elif step == "alter":
            delta.alter.set_table_properties({"delta.checkpointInterval": "20"})
        elif step == "restore":
            if delta.version():
                delta.restore(argument % delta.version())
        else:
            table.refresh()
            position += 1
            if step == "put":
                put(table, position, position)
            else:
                files = [file.path for file in table.files()][:1] if step == "drop" else []
                table.commit([], files, Position(position))
            rows_at[position] = stored(path)
        table.refresh()
        assert opened(path).position == table.position
        assert stored(path) == rows_at[table.position]
