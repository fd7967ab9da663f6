from __future__ import annotations

import json
import shutil
import string
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, TableFeatures

from tests.spark_sink.lake import directory
from tests.spark_sink.tables.test_column_types import TYPES
from tidemark.protocol.errors import SparkError
from tidemark.spark_sink.formats.data_files import DataFile
from tidemark.spark_sink.formats.delta_table import PositionedTable
from tidemark.spark_sink.formats.file_writer import FileWriter
from tidemark.spark_sink.formats.positions import Position
from tidemark.spark_sink.tables.column_types import arrow_schema
from tidemark.spark_sink.tables.store_place import StorePlace

COLUMNS = {"id": "bigint", "name": "string", "note": "string"}


def rows(*tuples: tuple[Any, ...]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(COLUMNS, values, strict=True)) for values in tuples], arrow_schema(COLUMNS))


def stored(path: Path) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in DeltaTable(str(path)).to_pyarrow_table().to_pylist())


def opened(path: Path) -> PositionedTable:
    return PositionedTable(StorePlace.of(path), "log-1", "public/items current")


def data_files(path: Path, *tuples: tuple[Any, ...], target: int = 10**6) -> list[DataFile]:
    writer = FileWriter(StorePlace.of(path), COLUMNS, ["id"], target)
    writer.write(rows(*tuples))
    return writer.finish()


@pytest.fixture
def table(tmp_path: Path) -> PositionedTable:
    created = opened(tmp_path / "a table")
    created.create(COLUMNS, "for a test")
    return created


def test_the_position_is_in_the_commit_that_writes(table: PositionedTable) -> None:
    assert (table.position, table.rows) == (0, 0)

    table.commit(data_files(directory(table), (1, "a", None), (2, "b", "x")), [], Position(7))

    assert (table.position, table.rows) == (opened(directory(table)).position, opened(directory(table)).rows) == (7, 2)


def test_a_commit_adds_and_removes_files_and_moves_the_position(table: PositionedTable) -> None:
    first = data_files(directory(table), (1, "a", None), (2, "b", "x"))
    table.commit(first, [], Position(7))
    assert (table.position, table.rows, table.size, table.version) == (7, 2, first[0].size, 1)
    assert [file.path for file in table.files()] == [first[0].path]

    second = data_files(directory(table), (2, "c", None))
    table.commit(second, [first[0].path], Position(9))
    table.commit([], [], Position(12))

    again = opened(directory(table))
    assert (again.position, again.rows, again.version) == (table.position, table.rows, table.version) == (12, 1, 3)
    assert stored(directory(table)) == [(2, "c", None)]


def test_of_two_that_go_on_from_one_version_one_commits(table: PositionedTable) -> None:
    files = data_files(directory(table), (1, "a", None))
    table.commit(files, [], Position(3))
    late = opened(directory(table))
    table.commit(data_files(directory(table), (2, "b", None)), [], Position(5))

    for adds, removes in ((data_files(directory(table), (2, "b", None)), []), ([], [files[0].path]), ([], [])):
        with pytest.raises(SparkError, match="TM-SPK-010"):
            late.commit(adds, removes, Position(5))
    assert (stored(directory(table)), opened(directory(table)).position) == ([(1, "a", None), (2, "b", None)], 5)

    late.refresh()
    late.commit([], [files[0].path], Position(6))
    assert stored(directory(table)) == [(2, "b", None)]


def test_a_file_that_is_not_there_cannot_be_removed(table: PositionedTable) -> None:
    with pytest.raises(SparkError, match=r"TM-SPK-010.*part-1"):
        table.commit([], ["part-1.zstd.parquet"], Position(5))
    assert opened(directory(table)).version == 0


def test_a_commit_without_rows_moves_the_position(table: PositionedTable) -> None:
    table.commit(data_files(directory(table), (1, "a", None)), [], Position(1))
    table.commit([], [], Position(5))
    assert opened(directory(table)).position == 5

    table.commit([], [file.path for file in table.files()], Position(6))

    assert (opened(directory(table)).position, stored(directory(table)), table.rows) == (6, [], 0)


def test_columns_are_added_and_null_in_old_rows(table: PositionedTable) -> None:
    table.commit(data_files(directory(table), (1, "a", None)), [], Position(1))
    table.add_columns({"price": "decimal(10,2)", "tags": "array<string>"})

    assert table.columns == {**COLUMNS, "price": "decimal(10,2)", "tags": "array<string>"}
    assert stored(directory(table)) == [(1, "a", None, None, None)]


def test_every_type_of_a_log_is_held(tmp_path: Path) -> None:
    columns = {f"a column, {spark}": spark for spark in TYPES}
    table = opened(tmp_path / "100% & #1")
    table.create(columns, "")
    writer = FileWriter(table.place, columns, [], 10**6)
    writer.write(pa.Table.from_pylist([{}], arrow_schema(columns)))
    table.commit(writer.finish(), [], Position(1))

    assert opened(directory(table)).columns == columns


def test_a_writer_that_goes_on_from_an_old_version_is_refused(table: PositionedTable) -> None:
    table.commit(data_files(directory(table), (1, "a", None)), [], Position(1))
    zombie = opened(directory(table))
    table.commit(data_files(directory(table), (2, "b", None)), [], Position(2))

    with pytest.raises(SparkError, match="TM-SPK-010"):
        zombie.commit(data_files(directory(table), (2, "b", None)), [], Position(2))

    assert stored(directory(table)) == [(1, "a", None), (2, "b", None)]


def test_refresh_takes_in_a_compaction(table: PositionedTable) -> None:
    for i in range(3):
        table.commit(data_files(directory(table), (i, "a", None)), [], Position(i + 1))
    DeltaTable(str(directory(table))).optimize.compact()

    table.refresh()
    table.commit(data_files(directory(table), (1, "b", None)), [file.path for file in table.files()], Position(4))

    assert stored(directory(table)) == [(1, "b", None)]


def log_file(path: Path, version: int) -> Path:
    return path / "_delta_log" / f"{version:020d}.json"


def z85(data: bytes) -> str:
    alphabet = string.digits + string.ascii_lowercase + string.ascii_uppercase + ".-:+=^!/*?&<>()[]{}@%$#"
    words = [int.from_bytes(data[i : i + 4]) for i in range(0, len(data), 4)]
    return "".join(alphabet[word // 85**place % 85] for word in words for place in range(4, -1, -1))


def delete_rows_as_another_engine(table: PositionedTable) -> None:
    """Rows 0 and 2 of the first file, as the Delta protocol stores them in the log: one roaring bitmap, in Z85."""
    lines = [json.loads(line) for line in log_file(directory(table), 1).read_text().splitlines()]
    (entry,) = (line["add"] for line in lines if "add" in line)
    bitmap = struct.pack("<IQIIIHHIHH", 1681511377, 1, 0, 12346, 1, 0, 1, 16, 0, 2)
    vector = {"storageType": "i", "pathOrInlineDv": z85(bitmap), "sizeInBytes": len(bitmap), "cardinality": 2}
    deleted = {**entry, "dataChange": False, "deletionVector": vector}
    log_file(directory(table), table.version + 1).write_text(json.dumps({"add": deleted}) + "\n")
    table.refresh()


def allow_deletion_vectors(table: PositionedTable) -> None:
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    protocol = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}}
    log_file(directory(table), table.version + 1).write_text(json.dumps(protocol) + "\n")
    table.refresh()


def test_deletion_vectors_of_another_engine_are_refused(table: PositionedTable) -> None:
    (file,) = data_files(directory(table), (1, "a", None), (2, "b", None), (3, "c", None))
    table.commit([file], [], Position(5))
    allow_deletion_vectors(table)
    assert [f.path for f in table.files()] == [file.path]  # allowed, not used
    assert table.engine_only is None

    delete_rows_as_another_engine(table)

    for look in (table.files, lambda: table.bounds({"id": "bigint"})):
        with pytest.raises(SparkError, match=r"TM-SPK-018.*deletion vectors"):
            look()
    assert table.engine_only is not None


def test_column_mapping_of_another_engine_is_refused(table: PositionedTable) -> None:
    lines = [json.loads(line) for line in log_file(directory(table), 0).read_text().splitlines()]
    metadata = next(line["metaData"] for line in lines if "metaData" in line)
    schema = json.loads(metadata["schemaString"])
    for number, field in enumerate(schema["fields"], 1):
        field["metadata"] = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": field["name"]}
    metadata["schemaString"] = json.dumps(schema)
    metadata["configuration"].update({"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "3"})
    protocol = {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}
    log_file(directory(table), 1).write_text("\n".join(map(json.dumps, [protocol, {"metaData": metadata}])))
    table.refresh()

    with pytest.raises(SparkError, match=r"TM-SPK-018.*column mapping"):
        table.files()


def test_a_table_with_a_feature_that_we_do_not_write_is_left_to_an_engine(table: PositionedTable) -> None:
    (file,) = data_files(directory(table), (1, "a", None))
    table.commit([file], [], Position(5))
    assert table.engine_written is None
    DeltaTable(str(directory(table))).alter.add_feature(
        TableFeatures.RowTracking, allow_protocol_versions_increase=True
    )
    table.refresh()

    assert "another program added the feature rowTracking" in str(table.engine_written)
    assert [f.path for f in table.files()] == [file.path]


def test_rows_that_somebody_forbade_to_change(table: PositionedTable) -> None:
    (file,) = data_files(directory(table), (1, "a", None))
    table.commit([file], [], Position(5))
    DeltaTable(str(directory(table))).alter.set_table_properties({"delta.appendOnly": "true"})
    table.refresh()

    with pytest.raises(SparkError, match=r"TM-SPK-018: .* set delta\.appendOnly"):
        table.commit([], [file.path], Position(6))
    assert table.position == 5


def test_a_table_that_was_deleted_is_not_there(table: PositionedTable) -> None:
    table.commit(data_files(directory(table), (1, "a", None)), [], Position(5))
    shutil.rmtree(directory(table))

    with pytest.raises(SparkError, match="TM-SPK-015"):
        table.commit([], [], Position(6))
    table.refresh()
    assert (table.exists, table.position, list(table.versions())) == (False, 0, [])

    another = opened(directory(table))
    another.create(COLUMNS, "again")
    another.commit([], [], Position(3))
    table.refresh()
    assert (table.exists, table.position, table.version, table.rows) == (True, 3, 1, 0)


def test_of_two_that_make_a_table_one_does(tmp_path: Path) -> None:
    first, second = opened(tmp_path / "new"), opened(tmp_path / "new")
    first.create(COLUMNS, "")

    with pytest.raises(SparkError, match="TM-SPK-010"):
        second.create(COLUMNS, "")


def cut_short(path: Path) -> None:
    log_file(path, 1).write_text('{"commitInfo": {')


def without_a_commit(path: Path) -> None:
    log_file(path, 1).unlink()


def without_the_beginning(path: Path) -> None:
    log_file(path, 0).unlink()


def a_file_instead(path: Path) -> None:
    shutil.rmtree(path)
    path.write_text("")


def with_a_broken_checkpoint(path: Path) -> None:
    DeltaTable(str(path)).create_checkpoint()
    next((path / "_delta_log").glob("*.parquet")).write_bytes(b"PAR1")


@pytest.mark.parametrize(
    "damage", [cut_short, without_a_commit, without_the_beginning, a_file_instead, with_a_broken_checkpoint]
)
def test_a_damaged_table_is_an_error_in_one_line_that_names_it(table: PositionedTable, damage: Any) -> None:
    table.commit([], [], Position(1))
    table.commit([], [], Position(2))
    damage(directory(table))

    with pytest.raises(SparkError, match=r"^TM-SPK-015: .*/a table: \w.{10,300}$") as error:
        opened(directory(table))
    assert "\n" not in error.value.message and "\x1b" not in error.value.message


def test_a_folder_that_cannot_be_written_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")

    with pytest.raises(SparkError, match=r"TM-SPK-015: .*/taken/a table: .*Not a directory"):
        opened(tmp_path / "taken" / "a table").create(COLUMNS, "")
