"""Every type's JSON form, from chunks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from protocol.errors import SourceError
from tests.captures.mysql.table_chunks import run, table_chunks
from tests.servers.mariadb import Database

VALUES: list[tuple[str, str, Any]] = [
    ("TINYINT", "-128", -128),
    ("TINYINT(1)", "5", 5),
    ("INT(6) UNSIGNED ZEROFILL", "42", 42),
    ("BIGINT UNSIGNED", "18446744073709551615", 18446744073709551615),
    ("BIGINT", "-9223372036854775808", -9223372036854775808),
    ("YEAR", "0", 0),
    ("YEAR", "2155", 2155),
    ("BIT(1)", "b'1'", True),
    ("BIT(64)", "18446744073709551615", 18446744073709551615),
    ("BIT(9)", "b'100000000'", 256),
    ("DECIMAL(20,5)", "-123.4", "-123.40000"),
    ("DECIMAL(10,2) UNSIGNED ZEROFILL", "1.5", "1.50"),
    ("DECIMAL(65,30)", "9" * 35 + ".123456789012345678901234567890", "9" * 35 + ".123456789012345678901234567890"),
    ("FLOAT", "0.1", 0.1),
    ("FLOAT", "16777217", 16777216.0),
    ("FLOAT", "3.4028234e38", 3.4028235e38),
    ("FLOAT(7,2)", "12345.678", 12345.68),
    ("DOUBLE", "0.1", 0.1),
    ("DOUBLE", "1.7976931348623157e308", 1.7976931348623157e308),
    ("DOUBLE", "5e-324", 5e-324),
    ("DOUBLE(20,3)", "123456789.4566", 123456789.457),
    ("CHAR(5)", "'ab  '", "ab"),
    ("VARCHAR(20)", "'ab  '", "ab  "),
    ("VARCHAR(20) CHARACTER SET latin1", "'€é'", "€é"),
    ("VARCHAR(20) CHARACTER SET utf16", "'ü😀'", "ü😀"),
    ("TEXT", r"'quote \" back \\ tab \t nul \0 ü 😀'", 'quote " back \\ tab \t nul \0 ü 😀'),
    ("TINYTEXT", "''", ""),
    ("LONGTEXT", "repeat('x', 70000)", "x" * 70000),
    ("ENUM('a','it''s','ü','b\\\\c')", "'it''s'", "it's"),
    ("ENUM('a','it''s','ü','b\\\\c')", "4", "b\\c"),
    ("SET('a','b','c')", "'c,a'", "a,c"),
    ("SET('a','b','c')", "''", ""),
    ("BINARY(4)", "'ab'", "YWIAAA=="),
    ("VARBINARY(10)", "x'00ff'", "AP8="),
    ("BLOB", "''", ""),
    ("LONGBLOB", "repeat('\\0', 300)", "A" * 400),
    ("DATE", "'2024-02-29'", "2024-02-29"),
    ("DATE", "'0000-00-00'", "0000-00-00"),
    ("DATE", "'2024-00-31'", "2024-00-31"),
    ("DATETIME", "'9999-12-31 23:59:59'", "9999-12-31T23:59:59"),
    ("DATETIME(6)", "'2024-01-15 14:30:00.123456'", "2024-01-15T14:30:00.123456"),
    ("DATETIME(3)", "'0000-00-00'", "0000-00-00T00:00:00.000"),
    ("TIMESTAMP NULL", "'0000-00-00'", "0000-00-00T00:00:00Z"),
    ("TIME", "'-838:59:59'", "-838:59:59"),
    ("TIME(6)", "'01:02:03.000004'", "01:02:03.000004"),
    ("JSON", """'{"a": [1, 2.50, null],\\n"b": "\\\\u00e9"}'""", {"a": [1, 2.5, None], "b": "é"}),
    ("POINT", "ST_GeomFromText('POINT(1 -2.5)')", "POINT(1 -2.5)"),
    ("GEOMETRY", "ST_GeomFromText('LINESTRING(0 0,1e30 1)')", "LINESTRING(0 0,1e+30 1)"),
    ("POINT", "ST_GeomFromText('POINT(7 7)', 4326)", "POINT(7 7)"),
    (
        "GEOMETRY",
        "ST_GeomFromText('POLYGON((0 0,4 0,4 4,0 0),(1 1,2 1,2 2,1 1))')",
        "POLYGON((0 0,4 0,4 4,0 0),(1 1,2 1,2 2,1 1))",
    ),
    ("MULTIPOINT", "ST_GeomFromText('MULTIPOINT(0 0,20 20)')", "MULTIPOINT((0 0),(20 20))"),
    (
        "GEOMETRYCOLLECTION",
        "ST_GeomFromText('GEOMETRYCOLLECTION(POINT(1 1),MULTIPOLYGON(((0 0,1 0,1 1,0 0))))')",
        "GEOMETRYCOLLECTION(POINT(1 1),MULTIPOLYGON(((0 0,1 0,1 1,0 0))))",
    ),
]
"""A type, SQL of a value, and its JSON."""

MARIADB_VALUES = [
    ("UUID", "'123E4567-e89b-12d3-a456-426655440000'", "123e4567-e89b-12d3-a456-426655440000"),
    ("INET6", "'2001:DB8::1'", "2001:db8::1"),
    ("INET4", "'192.0.2.1'", "192.0.2.1"),
    ("VECTOR(3)", "VEC_FromText('[1,-2.5,1e-30]')", [1, -2.5, 1e-30]),
]


def values_of(database: Database) -> list[tuple[str, str, Any]]:
    """The cases of types that the server has."""
    # The first second is no timestamp of MySQL's: it stores zeros for it.
    first = "0000-00-00T00:00:00.00Z" if database.is_mysql else "1970-01-01T00:00:00.25Z"
    cases = [*VALUES, *MARIADB_VALUES, ("TIMESTAMP(2) NULL", "from_unixtime(0.25)", first)]
    return [case for case in cases if database.has_type(case[0])]


def zeros_as_text(cases: Sequence[tuple[Any, ...]]) -> dict[str, str]:
    """``on_bad_value`` of the columns ``c0``, ``c1``, … where zero dates are among the cases."""
    return {f"c{place}": "text" for place, (of, *_) in enumerate(cases) if of.startswith(("DATE", "TIMESTAMP"))}


def test_a_value_of_each_type(binlog_database: Database) -> None:
    cases = values_of(binlog_database)
    columns = ", ".join(f"c{place} {of}" for place, (of, _, _) in enumerate(cases))
    values = ", ".join(value for _, value, _ in cases)
    with binlog_database.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_mode = '', time_zone = '+00:00'")
        cursor.execute(f"CREATE TABLE t (id INT PRIMARY KEY, {columns})")
        cursor.execute(f"INSERT INTO t VALUES (1, {values})")
        cursor.execute("INSERT INTO t (id) VALUES (2)")
    with table_chunks(binlog_database, "t", on_bad_value=zeros_as_text(cases)) as chunks:
        full, empty = chunks.scan(10)[1]
    for place, (of, _, expected) in enumerate(cases):
        assert (of, full[f"c{place}"]) == (of, expected)
    assert empty == {"id": 2, **{f"c{place}": None for place in range(len(cases))}}


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
