"""Chunks of columns: the log gets from them what it gets from documents; what does not fit comes as documents."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest

from tests.captures.mysql.chunks.test_reader import keys_of
from tests.captures.mysql.column_chunks import alike, both
from tests.captures.mysql.random_rows import random_table
from tests.captures.mysql.table_chunks import run
from tests.conformance.mysql_literals import cases_of
from tidemark.captures.contract.chunk_rows import ColumnRows, Rows
from tidemark.captures.contract.errors import TableAltered, TableAway
from tidemark.captures.mysql.values.arrow_forms import arrow_form
from tidemark.captures.tables.bad_values import BadValues
from tidemark.protocol.errors import SourceError
from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.mariadb import Database

LEFT_OUT = ("POINT", "GEOMETRY", "MULTI", "VECTOR")
"""How the types without a form in Arrow begin."""

STORES_ANYTHING = "SET sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'"


def fill(database: Database, *statements: str) -> None:
    """Runs statements that may store bad values."""
    run(database, STORES_ANYTHING, *statements)


def test_a_value_of_each_type_becomes_the_same_in_the_log(binlog_database: Database) -> None:
    values: dict[str, list[str]] = {}
    for of, value, expected in cases_of(binlog_database):
        if not (isinstance(expected, str) and expected.startswith(("0000-", "2024-00"))):
            values.setdefault(of, []).append(value)
    count = max(map(len, values.values())) + 1
    columns = [f"c{place} {of}" for place, of in enumerate(values)]
    rows = [
        ", ".join(cases[number] if number < len(cases) else "NULL" for cases in values.values())
        for number in range(count)
    ]
    inserts = [f"INSERT INTO t VALUES ({number}, {row})" for number, row in enumerate(rows)]
    fill(binlog_database, f"CREATE TABLE t (id INT PRIMARY KEY, {', '.join(columns)})", *inserts)
    exclude = [f"c{place}" for place, of in enumerate(values) if of.startswith(LEFT_OUT)]
    for as_bool in (False, True):
        with both(binlog_database, exclude=exclude, tinyint1_as_bool=as_bool) as (by_columns, documents):
            assert isinstance(alike(by_columns, documents).rows, ColumnRows)
    with both(binlog_database) as (by_columns, documents):
        assert isinstance(alike(by_columns, documents).rows, Rows)
        target = by_columns.target
    assert exclude == [column.name for column in target.columns if arrow_form(column, tinyint1_as_bool=False) is None]


def test_keys_are_those_of_documents(binlog_database: Database) -> None:
    for place, (of, values) in enumerate(keys_of(binlog_database)):
        good = [value for value in values if not value.startswith(("'0000", "'2024-00", "'2024-02-31", "'2024-01-00"))]
        rows = ", ".join(f"({value}, {number})" for number, value in enumerate(good))
        made = [f"CREATE TABLE t{place} (k {of}, n INT, PRIMARY KEY (k, n))", f"INSERT INTO t{place} VALUES {rows}"]
        alone = [f"CREATE TABLE a{place} (k {of} PRIMARY KEY)", f"INSERT INTO a{place} SELECT DISTINCT k FROM t{place}"]
        fill(binlog_database, *made, *alone)
        for table in (f"t{place}", f"a{place}"):
            with both(binlog_database, table) as (columns, documents):
                chunk = alike(columns, documents)
                assert isinstance(chunk.rows, ColumnRows), of
                assert len(chunk.rows), of
                alike(columns, documents, cursor=chunk.rows.keys[0])


@pytest.mark.parametrize("seed", range(3))
def test_random_rows_become_the_same_in_the_log(binlog_database: Database, seed: int) -> None:
    random_table(binlog_database, Random(seed), rows=300)
    with both(binlog_database) as (columns, documents):
        assert isinstance(alike(columns, documents).rows, ColumnRows)


@pytest.mark.parametrize(
    ("of", "value"),
    [
        ("DATE", "'0000-00-00'"),
        ("DATE", "'2024-00-10'"),
        ("DATE", "'2024-02-00'"),
        ("DATE", "'2023-02-29'"),
        ("DATE", "'2024-04-31'"),
        ("DATETIME", "'0000-00-00'"),
        ("DATETIME(6)", "'2023-02-29 10:00:00.5'"),
        ("TIMESTAMP NULL", "'0000-00-00'"),
        ("TIMESTAMP(3) NULL", "'0000-00-00'"),
        ("VARCHAR(9) CHARACTER SET ucs2", "_ucs2 x'0061d800'"),
    ],
)
def test_values_that_documents_cannot_have_are_told_as_documents_tell_them(
    binlog_database: Database, of: str, value: str
) -> None:
    made = [f"CREATE TABLE t (id INT PRIMARY KEY, v {of})", f"INSERT INTO t VALUES (1, NULL), (2, {value})"]
    fill(binlog_database, *made)
    with both(binlog_database) as (columns, documents):
        with pytest.raises(BadValues) as expected:
            documents.read()
        with pytest.raises(BadValues) as found:
            columns.read()
        assert str(found.value) == str(expected.value)
        chunk = alike(columns, documents, limit=1)
        assert isinstance(chunk.rows, ColumnRows) and list(chunk.rows.keys) == [b"1"]
    with both(binlog_database, on_bad_value="null") as (columns, documents):
        assert isinstance(alike(columns, documents).rows, Rows)


def test_a_text_that_is_no_json_is_told_as_documents_tell_it(mariadb_database: Database) -> None:
    made = "CREATE TABLE t (id INT PRIMARY KEY, v JSON)"
    nested = "concat(repeat('[', 501), repeat(']', 501))"
    for values in (["'{'"], ["'\"a'", "'b\"'"], ["'1,2'"], ["'[1'", "'2]'"], [nested]):
        rows = ", ".join(f"({number}, {value})" for number, value in enumerate(values))
        fill(mariadb_database, made, "SET check_constraint_checks = OFF", f"INSERT INTO t VALUES {rows}")
        with both(mariadb_database) as (columns, _), pytest.raises(BadValues):
            columns.read()
        run(mariadb_database, "DROP TABLE t")


@pytest.mark.parametrize(
    ("of", "values"),
    [
        ("DATE", ["'0001-01-01'", "'9999-12-31'", "'2000-02-29'"]),
        ("DATETIME(6)", ["'0001-01-01'", "'9999-12-31 23:59:59.999999'"]),
        ("JSON", ["' {\"a\" :\\r\\n\\t null} '", "'\\t null\\n'", "'null'", "'[1, 2]'", "' 1'"]),
        ("JSON", ["concat(repeat('[', 30), repeat(']', 30))", "concat('\"', repeat('x', 2000), '\"')"]),
        ("JSON", ["'\"\\\\ud83d\\\\ude00\"'", "'1.50'", "'1e400'"]),
        ("DOUBLE", ["-1.2345678901234567e-14", "-0e0", "1.7976931348623157e308", "5e-324"]),
        ("DECIMAL(28,28)", ["-0.1234567890123456789012345678", "0"]),
        ("DECIMAL(29,29)", ["-0.12345678901234567890123456789", "0"]),
        ("TIME(6)", ["'-838:59:59'", "'00:00:00.000001'"]),
        ("LONGTEXT", ["repeat('x', 250)", "repeat('x', 251)", "repeat('é', 40000)", "repeat('x', 8000000)"]),
        ("LONGBLOB", ["repeat(x'ff', 65536)", "''"]),
    ],
)
def test_values_at_the_edge_come_as_columns(binlog_database: Database, of: str, values: list[str]) -> None:
    if binlog_database.is_mysql and "'1e400'" in values:
        values = values[:-1]
    rows = ", ".join(f"({number}, {value})" for number, value in enumerate(values))
    fill(
        binlog_database,
        f"CREATE TABLE t (id INT PRIMARY KEY, v {of})",
        f"INSERT INTO t VALUES {rows}",
        "INSERT INTO t VALUES (-1, NULL)",
    )
    with both(binlog_database) as (columns, documents):
        assert isinstance(alike(columns, documents).rows, ColumnRows)


def test_a_row_that_may_be_too_large_for_a_line_comes_as_a_document(binlog_database: Database) -> None:
    run(
        binlog_database,
        "CREATE TABLE t (id INT PRIMARY KEY, v LONGTEXT)",
        "INSERT INTO t VALUES (1, repeat('x', 9000000)), (2, 'x'), (3, repeat('y', 9000000))",
    )
    with both(binlog_database) as (columns, documents):
        for cursor in (None, b"1", b"2"):
            chunk = alike(columns, documents, limit=1, cursor=cursor)
            assert isinstance(chunk.rows, ColumnRows if cursor == b"1" else Rows)


def test_columns_that_are_hashed_come_as_documents(binlog_database: Database) -> None:
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY, v TEXT)", "INSERT INTO t VALUES (1, 'x')")
    with both(binlog_database, hash=["v"], salt="salt") as (columns, documents):
        assert isinstance(alike(columns, documents).rows, Rows)


def test_a_chunk_of_many_bytes_ends_early(binlog_database: Database) -> None:
    run(
        binlog_database,
        "CREATE TABLE t (id INT PRIMARY KEY, v TEXT)",
        "INSERT INTO t SELECT seq, repeat('x', 1000) FROM seq_1_to_2000",
    )
    with both(binlog_database, chunk_bytes=64 * 1024) as (columns, _):
        keys: list[bytes] = []
        chunks = list(columns.chunks(2000))
        if not len(chunks[-1].rows):
            chunks.pop()  # The one before ended with the last row, and could not know it.
        for chunk in chunks:
            assert isinstance(chunk.rows, ColumnRows) and chunk.rows.size < 512 * 1024
            keys += chunk.rows.keys
        assert len(chunks) > 4 and keys == [b"%d" % number for number in range(1, 2001)]


def test_a_chunk_has_all_its_record_batches(binlog_database: Database) -> None:
    run(
        binlog_database,
        "CREATE TABLE t (id INT PRIMARY KEY, v TEXT, n INT)",
        "INSERT INTO t SELECT seq, repeat('é', 1000 + seq), nullif(seq, seq DIV 2 * 2) FROM seq_1_to_2000",
    )
    with both(binlog_database) as (columns, documents):
        chunk = alike(columns, documents, limit=2000)
        assert isinstance(chunk.rows, ColumnRows) and chunk.rows.size > 3 * 1024 * 1024


def test_a_scan_of_several_chunks_ends(binlog_database: Database) -> None:
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t SELECT seq FROM seq_1_to_20")
    with both(binlog_database) as (columns, documents):
        cursor = None
        for _ in range(3):
            chunk = alike(columns, documents, limit=10, cursor=cursor)
            cursor = chunk.rows.keys[-1] if len(chunk.rows) else cursor
        assert chunk.end and not len(chunk.rows)


def test_what_is_not_a_scan_by_key_comes_as_documents(binlog_database: Database) -> None:
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t SELECT seq FROM seq_1_to_20")
    with both(binlog_database) as (columns, documents):
        for request in ({"where": "id < 7"}, {"rereads": (b"3",)}):
            assert isinstance(alike(columns, documents, **request).rows, Rows)
    with both(binlog_database, where="id > 5") as (columns, documents):
        assert isinstance(alike(columns, documents).rows, Rows)


def test_a_table_that_was_altered_is_not_read(binlog_database: Database) -> None:
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1)")
    with both(binlog_database) as (columns, _):
        columns.read()
        run(binlog_database, "ALTER TABLE t MODIFY v BIGINT")
        with pytest.raises(TableAltered):
            columns.read()
    with both(binlog_database) as (columns, _):
        run(binlog_database, "DROP TABLE t")
        with pytest.raises(TableAway):
            columns.read()


def test_a_read_is_canceled_from_another_thread(binlog_database: Database) -> None:
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY, v TEXT)", "INSERT INTO t VALUES (1, 'x')")
    with both(binlog_database) as (columns, _), binlog_database.connect() as admin, ThreadPoolExecutor(1) as pool:
        columns.read()
        with admin.cursor() as cursor:
            cursor.execute("LOCK TABLES t WRITE")
            reading = pool.submit(columns.read)
            waits = "SELECT 1 FROM information_schema.processlist WHERE state LIKE '%metadata lock%'"
            wait_until(lambda: bool(cursor.execute(waits)), 20, "the reader waits for the table")
            columns.reader.cancel()
            with pytest.raises(SourceError):
                reading.result(timeout=60)
            cursor.execute("UNLOCK TABLES")
        columns.reader.close()
