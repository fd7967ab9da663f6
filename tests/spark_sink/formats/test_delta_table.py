from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from protocol.errors import SparkError
from spark_sink.changes.net_changes import DELETED, PartialColumn
from spark_sink.formats.data_files import DataFile
from spark_sink.formats.delta_table import PositionedTable
from spark_sink.formats.file_writer import FileWriter
from spark_sink.tables.column_types import arrow_schema
from tests.spark_sink.tables.test_column_types import TYPES

COLUMNS = {"id": "bigint", "name": "string", "note": "string"}
FLAGS = {DELETED: "boolean"}


def rows(*tuples: tuple[Any, ...], **flags: str) -> pa.Table:
    columns = {**COLUMNS, **flags}
    return pa.Table.from_pylist([dict(zip(columns, values, strict=True)) for values in tuples], arrow_schema(columns))


def stored(path: Path) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in DeltaTable(str(path)).to_pyarrow_table().to_pylist())


def opened(path: Path) -> PositionedTable:
    return PositionedTable(path, "log-1", "public/items current")


def data_files(path: Path, *tuples: tuple[Any, ...], target: int = 10**6) -> list[DataFile]:
    writer = FileWriter(path, COLUMNS, ["id"], target)
    writer.write(rows(*tuples))
    return writer.finish()


@pytest.fixture
def table(tmp_path: Path) -> PositionedTable:
    created = opened(tmp_path / "a table")
    created.create(COLUMNS, "for a test")
    return created


def test_the_position_is_in_the_commit_that_writes(table: PositionedTable) -> None:
    assert (table.position, table.rows) == (0, 0)

    table.append(rows((1, "a", None), (2, "b", "x")), 7)

    assert (table.position, table.rows) == (opened(table.path).position, opened(table.path).rows) == (7, 2)


def test_a_commit_adds_and_removes_files_and_moves_the_position(table: PositionedTable) -> None:
    first = data_files(table.path, (1, "a", None), (2, "b", "x"))
    table.commit(first, [], 7)
    assert (table.position, table.rows, table.size, table.version) == (7, 2, first[0].size, 1)
    assert [file.path for file in table.files()] == [first[0].path]

    second = data_files(table.path, (2, "c", None))
    table.commit(second, [first[0].path], 9)
    table.commit([], [], 12)

    again = opened(table.path)
    assert (again.position, again.rows, again.version) == (table.position, table.rows, table.version) == (12, 1, 3)
    assert stored(table.path) == [(2, "c", None)]


def test_of_two_that_go_on_from_one_version_one_commits(table: PositionedTable) -> None:
    files = data_files(table.path, (1, "a", None))
    table.commit(files, [], 3)
    late = opened(table.path)
    table.commit(data_files(table.path, (2, "b", None)), [], 5)

    for adds, removes in ((data_files(table.path, (2, "b", None)), []), ([], [files[0].path]), ([], [])):
        with pytest.raises(SparkError, match="TM-SPK-010"):
            late.commit(adds, removes, 5)
    assert (stored(table.path), opened(table.path).position) == ([(1, "a", None), (2, "b", None)], 5)

    late.refresh()
    late.commit([], [files[0].path], 6)
    assert stored(table.path) == [(2, "b", None)]


def test_a_file_that_is_not_there_cannot_be_removed(table: PositionedTable) -> None:
    with pytest.raises(SparkError, match=r"TM-SPK-010.*part-1"):
        table.commit([], ["part-1.zstd.parquet"], 5)
    assert opened(table.path).version == 0


def test_a_commit_without_rows_moves_the_position(table: PositionedTable) -> None:
    table.append(rows((1, "a", None)), 1)
    table.append(rows(), 5)
    assert opened(table.path).position == 5

    table.replace(rows(), 6)

    assert (opened(table.path).position, stored(table.path), table.rows) == (6, [], 0)


def test_replace_leaves_only_the_new_rows(table: PositionedTable) -> None:
    table.append(rows((1, "a", None)), 1)
    table.replace(rows((2, "b", None)), 2)

    assert stored(table.path) == [(2, "b", None)]


def test_merge_deletes_updates_inserts_and_keeps_what_was_not_carried(table: PositionedTable) -> None:
    table.append(rows((1, "a", "long"), (2, "b", "long"), (3, "c", "long"), (4, "d", "long")), 4)
    partial = [PartialColumn("note", "kept")]
    flags = {**FLAGS, "kept": "boolean"}

    table.merge(
        rows(
            (1, "gone", None, True, False),
            (2, "B", None, False, True),
            (3, "C", None, False, False),
            (9, "new", None, False, True),
            (8, "never was", None, True, False),
            **flags,
        ),
        ["id"],
        partial,
        9,
    )

    assert stored(table.path) == [(2, "B", "long"), (3, "C", None), (4, "d", "long"), (9, "new", None)]
    assert opened(table.path).position == 9


def test_columns_are_added_and_null_in_old_rows(table: PositionedTable) -> None:
    table.append(rows((1, "a", None)), 1)
    table.add_columns({"price": "decimal(10,2)", "tags": "array<string>"})

    assert table.columns == {**COLUMNS, "price": "decimal(10,2)", "tags": "array<string>"}
    assert stored(table.path) == [(1, "a", None, None, None)]


def test_every_type_of_a_log_is_held(tmp_path: Path) -> None:
    columns = {f"a column, {spark}": spark for spark in TYPES}
    table = opened(tmp_path / "100% & #1")
    table.create(columns, "")
    table.append(pa.Table.from_pylist([{}], arrow_schema(columns)), 1)

    assert opened(table.path).columns == columns


@pytest.mark.parametrize("late", ["append", "replace", "merge"])
def test_a_writer_that_goes_on_from_an_old_version_is_refused(table: PositionedTable, late: str) -> None:
    table.append(rows((1, "a", None)), 1)
    zombie = opened(table.path)
    table.append(rows((2, "b", None)), 2)

    with pytest.raises(SparkError, match="TM-SPK-010"):
        if late == "merge":
            zombie.merge(rows((2, "b", None, False), **FLAGS), ["id"], [], 2)
        else:
            getattr(zombie, late)(rows((2, "b", None)), 2)

    assert stored(table.path) == [(1, "a", None), (2, "b", None)]


def test_refresh_takes_in_a_compaction(table: PositionedTable) -> None:
    for i in range(3):
        table.append(rows((i, "a", None)), i + 1)
    DeltaTable(str(table.path)).optimize.compact()

    table.refresh()
    table.merge(rows((1, "b", None, False), **FLAGS), ["id"], [], 4)

    assert stored(table.path) == [(0, "a", None), (1, "b", None), (2, "a", None)]


@pytest.mark.parametrize(
    ("keys", "lacks"),
    [([10, 12], True), ([-3, 0], True), ([0, 7], False), ([4], False), ([5], False), ([], True)],
)
def test_statistics_prove_that_keys_are_new(table: PositionedTable, keys: list[int], lacks: bool) -> None:
    table.append(rows((1, "a", None), (5, "a", None)), 1)
    table.append(rows((7, "a", None), (8, "a", None)), 2)

    assert table.surely_lacks(rows(*((key, "", None) for key in keys)), ["id"]) is lacks


def test_statistics_of_strings_prove_nothing(table: PositionedTable) -> None:
    table.append(rows((1, "a", None)), 1)

    assert not table.surely_lacks(rows((2, "b", None)), ["name"])


def test_a_table_without_rows_lacks_all_keys(table: PositionedTable) -> None:
    table.append(rows((1, "a", None)), 1)
    table.replace(rows(), 2)

    assert table.surely_lacks(rows((1, "a", None)), ["name"])


def test_a_table_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path), rows((1, "a", None)))

    with pytest.raises(SparkError, match="TM-SPK-009"):
        opened(tmp_path)


def test_a_table_of_another_log_is_left_alone(table: PositionedTable) -> None:
    with pytest.raises(SparkError, match="TM-SPK-009"):
        PositionedTable(table.path, "log-2", "public/items current")


def test_a_damaged_table_is_an_error_that_names_it(table: PositionedTable) -> None:
    (table.path / "_delta_log" / f"{0:020d}.json").write_text("{")

    with pytest.raises(SparkError, match=r"TM-SPK-015.*a table"):
        opened(table.path)
