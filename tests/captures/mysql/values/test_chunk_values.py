"""Rows of unusual tables from chunks: generated columns, names that need quotes, many columns, and megabytes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.captures.mysql.table_chunks import run, table_chunks
from tidemark.protocol.errors import SourceError
from tidemark.testing.servers.mariadb import Database


def test_tinyint1_is_boolean_where_that_is_wanted(binlog_database: Database) -> None:
    run(
        binlog_database,
        "CREATE TABLE t (id INT PRIMARY KEY, a TINYINT(1), b TINYINT(2), c TINYINT(1) UNSIGNED)",
        "INSERT INTO t VALUES (1, 0, 0, 0), (2, 1, 1, 1), (3, -7, 7, 7), (4, NULL, NULL, NULL)",
    )
    with table_chunks(binlog_database, "t") as chunks:
        chunks.binding = replace(chunks.binding, tinyint1_as_bool=True)
        _, rows = chunks.scan(10)
    assert [row["a"] for row in rows] == [False, True, True, None]
    assert [row["b"] for row in rows] == [0, 1, 7, None]
    # MySQL has forgotten the widths of integers since 8.0.19, but of a TINYINT(1) that has a sign.
    forgotten = binlog_database.is_mysql and not binlog_database.version.startswith("5.")
    assert [row["c"] for row in rows] == ([0, 1, 7, None] if forgotten else [False, True, True, None])


def test_generated_and_invisible_columns_and_names_that_need_quotes(binlog_database: Database) -> None:
    hidden = "INVISIBLE" if not binlog_database.is_mysql else ""
    run(
        binlog_database,
        'CREATE TABLE `ta``b"le` (`i``d"ü` INT PRIMARY KEY, a INT AS (`i``d"ü` + 1) VIRTUAL, b INT AS (a * 2) STORED,'
        f" `{{c}}` INT DEFAULT 7 {hidden}, `e\\\\%s` VARCHAR(9))",
        "INSERT INTO `ta``b\"le` (`i``d\"ü`, `e\\\\%s`) VALUES (5, '%s{}')",
    )
    with table_chunks(binlog_database, 'ta`b"le') as chunks:
        keys, rows = chunks.scan(1)
    assert keys == [b"5"]
    assert rows == [{'i`d"ü': 5, "a": 6, "b": 12, "{c}": 7, "e\\\\%s": "%s{}"}]


def test_excluded_columns_are_not_read(binlog_database: Database) -> None:
    run(
        binlog_database,
        "CREATE TABLE t (id INT PRIMARY KEY, secret VARCHAR(9), v INT)",
        "INSERT INTO t VALUES (1, 's', 2)",
    )
    with table_chunks(binlog_database, "t", exclude=["secret"]) as chunks:
        assert "secret" not in chunks.target.scan(None, None, None, 1)
        assert chunks.scan(5)[1] == [{"id": 1, "v": 2}]


def test_a_text_that_is_not_json_is_an_error_that_names_the_column(binlog_database: Database) -> None:
    if binlog_database.is_mysql:
        pytest.skip("MySQL checks its JSON type always")
    run(
        binlog_database,
        "CREATE TABLE t (id INT PRIMARY KEY, v JSON)",
        "SET check_constraint_checks = 0",
        "INSERT INTO t VALUES (1, 'secret {')",
    )
    with table_chunks(binlog_database, "t") as chunks, pytest.raises(SourceError) as caught:
        chunks.read()
    assert caught.value.code == "TM-CAP-020"
    assert "column v" in caught.value.message and "secret" not in str(caught.value)


def test_a_row_of_many_columns_and_megabytes(binlog_database: Database) -> None:
    columns = ", ".join(f"c{place} TINYINT" for place in range(1000))
    text = "repeat('ä', 7 * 1024 * 1024)"
    run(
        binlog_database,
        f"CREATE TABLE t (id INT PRIMARY KEY, {columns}, one LONGTEXT, two LONGTEXT)",
        f"INSERT INTO t (id, c7, c999, one, two) VALUES (1, 7, 99, {text}, {text}), (2, 8, NULL, 'x', NULL)",
    )
    with table_chunks(binlog_database, "t") as chunks:
        keys, rows = chunks.scan(10)
    assert keys == [b"1", b"2"]
    # More than a packet of the protocol holds.
    assert rows[0]["one"] == rows[0]["two"] == "ä" * (7 * 1024 * 1024)
    assert (rows[0]["c7"], rows[0]["c999"], rows[0]["c8"]) == (7, 99, None)
    assert (rows[1]["c7"], rows[1]["c999"], rows[1]["one"], rows[1]["two"]) == (8, None, "x", None)
