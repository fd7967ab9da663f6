"""The constants that fill rows from before a column was added: as documents have them, or not known."""

from __future__ import annotations

import re
from typing import Any

import pymysql
import pytest

from tests.captures.mysql.captured_log import CapturedLog, captured_log
from tests.captures.mysql.table_chunks import run, table_chunks
from tests.conformance import mysql_literals
from tidemark.protocol.messages import COLUMN_FILL
from tidemark.testing.servers.mariadb import Database

UNKNOWN = object()
"""Rows are read again."""

NOT_KNOWN = re.compile(r"JSON|POINT|GEOMETRY|MULTI|VECTOR")
"""Types of which no constant is known, but for simple JSON."""


def _added(log: CapturedLog, definition: str, *before: str, **options: Any) -> tuple[Any, Any]:
    """The fill of a column that is added so, and then dropped, and the value that a row from before it has.

    Args:
        options: Of the table's binding.
    """
    run(log.database, *(before or ["SET sql_mode = ''"]), f"ALTER TABLE t ADD COLUMN c {definition}")
    log.to_read_again.clear()
    log.schemas.clear()
    log.read()
    (column,) = [schema["properties"]["c"] for schema in log.schemas]
    fill = column.get(COLUMN_FILL, UNKNOWN)
    assert bool(log.to_read_again) == (fill is UNKNOWN)
    value = None
    if fill is not UNKNOWN:
        with table_chunks(log.database, "t", **options) as chunks:
            _, (row,) = chunks.scan(10)
        value = row["c"]
    run(log.database, "ALTER TABLE t DROP COLUMN c")
    log.read()
    return fill, value


def _table(database: Database) -> None:
    run(database, "CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")


def test_defaults_of_all_types(binlog_database: Database) -> None:
    _table(binlog_database)
    filled = refused = 0
    with captured_log(binlog_database, "t") as log:
        for kind, value, expected in mysql_literals.cases_of(binlog_database):
            bad = isinstance(expected, str) and re.match(r"0000-|\d{4}-00|\d{4}-\d\d-00", expected)
            literal = re.fullmatch(r"""-?[\d.e+-]+|'.*'|b'.*'|x'.*'""", value, re.DOTALL)
            try:
                fill, in_row = _added(log, f"{kind} DEFAULT {value}")
            except pymysql.Error:
                refused += 1  # A text of MySQL's has no default that is no expression.
                continue
            if NOT_KNOWN.search(kind) or bad or not literal:
                assert fill is UNKNOWN, (kind, value)
            elif fill is UNKNOWN:
                # MySQL lets go of an empty default, and MariaDB prints some bytes as an expression.
                assert re.search("TEXT|BLOB", kind), (kind, value)
            else:
                assert fill == in_row == expected, (kind, value)
                assert type(fill) is type(in_row), (kind, value)
                filled += 1
    assert filled > 40 and refused < 50


def test_columns_that_are_not_null(binlog_database: Database) -> None:
    """The value depends on the type alone, where there is no default."""
    _table(binlog_database)
    kinds = {kind.replace(" NULL", "") for kind, _, _ in mysql_literals.cases_of(binlog_database)}
    known = 0
    with captured_log(binlog_database, "t") as log:
        for kind in sorted(kinds):
            try:
                fill, in_row = _added(log, f"{kind} NOT NULL")
            except pymysql.Error:
                assert NOT_KNOWN.search(kind), kind  # Nothing is an empty JSON or shape.
                continue
            if NOT_KNOWN.search(kind) or re.match("DATE|TIMESTAMP|UUID|INET", kind):
                assert fill is UNKNOWN, kind
            else:
                assert fill == in_row and type(fill) is type(in_row), kind
                known += 1
    assert known > 40


@pytest.mark.parametrize(
    ("definition", "expected"),
    [
        ("DATETIME DEFAULT CURRENT_TIMESTAMP", UNKNOWN),
        ("TIMESTAMP DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP", UNKNOWN),
        ("TIMESTAMP DEFAULT '2024-01-15 14:30:00' ON UPDATE CURRENT_TIMESTAMP", "2024-01-15T09:30:00Z"),
        ("DATETIME(3) DEFAULT '2024-01-15'", "2024-01-15T00:00:00.000"),
        ("INT DEFAULT (1 + 1)", UNKNOWN),
        ("INT AS (id + 1) STORED", UNKNOWN),
        ("INT NOT NULL AUTO_INCREMENT UNIQUE", UNKNOWN),
        ("VARCHAR(9) DEFAULT 'it''s\\n\\\\%s'", "it's\n\\%s"),
        ("DECIMAL(5, 2) DEFAULT 1.239", "1.24"),
        ("INT DEFAULT '12'", 12),
        ("BOOLEAN DEFAULT TRUE", 1),
        ("BIT(9) NOT NULL DEFAULT b'101'", 5),
        ("BINARY(4) DEFAULT 'ab'", "YWIAAA=="),
        ("ENUM('b', 'a') NOT NULL", "b"),
        ("SET('b', 'a') NOT NULL", ""),
        ("INT NULL UNIQUE DEFAULT 7", 7),
    ],
)
def test_definitions(binlog_database: Database, definition: str, expected: Any) -> None:
    _table(binlog_database)
    with captured_log(binlog_database, "t") as log:
        fill, in_row = _added(log, definition, "SET time_zone = '+05:00', sql_mode = ''")
    assert fill == expected and in_row == (None if expected is UNKNOWN else expected)


@pytest.mark.parametrize(
    ("definition", "expected"),
    [
        ('JSON DEFAULT \'{"a": [true, "x"]}\'', {"a": [True, "x"]}),
        ("JSON DEFAULT '[1.50]'", UNKNOWN),
        ("JSON DEFAULT '[12345678901234567890123]'", UNKNOWN),
        ("VARCHAR(36) DEFAULT (UUID())", UNKNOWN),
        ("TEXT NOT NULL DEFAULT 'x'", "x"),
        ("BLOB DEFAULT 'x'", "eA=="),
    ],
)
def test_definitions_of_mariadb(mariadb_database: Database, definition: str, expected: Any) -> None:
    _table(mariadb_database)
    with captured_log(mariadb_database, "t") as log:
        fill, in_row = _added(log, definition)
    assert fill == expected and in_row == (None if expected is UNKNOWN else expected)


def test_policies(binlog_database: Database) -> None:
    """A constant that is no good value is known only where the column is text."""
    _table(binlog_database)
    for policy, expected in {"text": "0000-00-00", "null": UNKNOWN, "clamp": UNKNOWN}.items():
        with captured_log(binlog_database, "t", on_bad_value=policy) as log:
            assert _added(log, "DATE DEFAULT '0000-00-00'", on_bad_value=policy)[0] == expected, policy
    with captured_log(binlog_database, "t", tinyint1_as_bool=True) as log:
        assert _added(log, "TINYINT(1) DEFAULT 1")[0] is True


def test_a_table_without_rows(binlog_database: Database) -> None:
    """Its default cannot be read, and nothing has to be."""
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY)")
    with captured_log(binlog_database, "t") as log:
        assert _added(log, "INT DEFAULT 7") == (UNKNOWN, None)
