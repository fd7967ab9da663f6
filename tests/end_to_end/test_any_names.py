"""Columns of any names, from the source to the lake: each is there, and the metadata says what the source calls it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from tests.captures.source_tables import prepare
from tests.end_to_end.capture import Capture
from tests.warm_jvm import SHARED
from tests.workload.tables import source_of
from tidemark.testing.servers.postgres import Database

pytestmark = [pytest.mark.slow, SHARED]

KEPT = {"Id": "Id", "id": "id__2", "_op": "_op__2", "_BEFORE": "_BEFORE__2", 'a"b': "a_b", "a\\b": "a_b__2"}
"""Columns of the source, and what the lake calls them."""

TABLES = ("names", "_doc", "plain")


def identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def lake_rows(capture: Capture, table: str) -> list[dict[str, Any]]:
    """The rows of ``current``, by the names that its metadata says the source has."""
    found = DeltaTable(str(capture.lake / "public" / table / "current"))
    sources = {field.name: field.metadata.get("tidemark.source", field.name) for field in found.schema().fields}
    rows: list[dict[str, Any]] = found.to_pyarrow_table().drop_columns(["_offset", "_commit_ts"]).to_pylist()
    return [{sources[name]: value for name, value in row.items()} for row in rows]


def source_rows(database: Database, table: str) -> list[dict[str, Any]]:
    with closing(source_of(database).connect(autocommit=True)) as connection, closing(connection.cursor()) as cursor:
        cursor.execute(f"SELECT * FROM {identifier(table)}")
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def assert_equal(capture: Capture, database: Database) -> None:
    capture.catch_up()
    ended = capture.materialize()
    assert ended.status == 0, ended.said
    for table in TABLES:
        expected = source_rows(database, table)
        # A column that was dropped stays, with the values that it had.
        rows = [{name: row[name] for name in expected[0]} for row in lake_rows(capture, table)]
        assert sorted(rows, key=str) == sorted(expected, key=str)


@pytest.mark.drawn(5, of="a JVM of its own")
def test_they_are_kept(database: Database, tmp_path: Path) -> None:
    columns = ", ".join(f"{identifier(name)} int" for name in KEPT)
    prepare(
        database,
        f'CREATE TABLE names ({columns}, PRIMARY KEY ("Id", id))',
        "INSERT INTO names SELECT i, i + 1, i + 2, i + 3, i + 4, i + 5 FROM generate_series(1, 20) i",
        'CREATE TABLE _doc (_doc int PRIMARY KEY, "_OFFSET" text)',
        "INSERT INTO _doc SELECT i, 'x' || i FROM generate_series(1, 20) i",
        "CREATE TABLE plain (id int PRIMARY KEY, name text)",
        "INSERT INTO plain SELECT i, 'x' || i FROM generate_series(1, 20) i",
    )
    capture = Capture(tmp_path, database, tables=[f"public.{table}" for table in TABLES])
    assert_equal(capture, database)
    schema = DeltaTable(str(capture.lake / "public" / "names" / "current")).schema()
    assert [field.name for field in schema.fields][: len(KEPT)] == list(KEPT.values())
    prepare(
        database,
        'UPDATE names SET "_op" = 0, "a""b" = NULL WHERE "Id" < 5',
        "DELETE FROM names WHERE id = 8",
        'UPDATE names SET id = 100 WHERE "Id" = 9',
        'ALTER TABLE plain ADD "Name" int',
        'ALTER TABLE plain ADD "_before" text',
        """UPDATE plain SET "Name" = id, "_before" = 'y' WHERE id < 9""",
        "DELETE FROM plain WHERE id = 3",
        "DELETE FROM _doc WHERE _doc = 3",
        "INSERT INTO _doc VALUES (30, NULL)",
    )
    assert_equal(capture, database)
    prepare(
        database,
        "ALTER TABLE plain DROP name",
        'ALTER TABLE plain ADD "NAME" int',
        "INSERT INTO plain VALUES (40, 1, 'z', 2)",
        'ALTER TABLE names RENAME "_op" TO "_OP"',
        "INSERT INTO names VALUES (50, 51, 52, 53, 54, 55)",
    )
    assert_equal(capture, database)
