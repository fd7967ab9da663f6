"""Chunks of columns: the log gets from them what it gets from documents; what does not fit comes as documents."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

import pytest

from tests.captures.postgres.chunk_reads import opened
from tests.captures.postgres.column_chunks import alike, both
from tests.conformance.postgres_literals import cases_of, expression
from tidemark.captures.contract.chunk_rows import ColumnRows, Rows
from tidemark.captures.contract.errors import TableAltered, TableAway
from tidemark.captures.postgres.chunks.column_reader import ColumnChunkReader
from tidemark.captures.postgres.chunks.copy_rows import ChunkLimits
from tidemark.captures.postgres.server.config import parse_endpoint
from tidemark.captures.postgres.server.session import ReaderEndpoint
from tidemark.captures.postgres.values.arrow_forms import arrow_form
from tidemark.captures.tables.bad_values import BadValues
from tidemark.protocol.errors import SourceError
from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.postgres import Connection, Database


def literals(session: Connection) -> dict[str, list[str]]:
    """By type, SQL of those that have a place in documents, and of NULL."""
    found = {}
    for of, cases in cases_of(session).items():
        texts = [text for text, _ in cases if text is None or not _is_bad(of, text)]
        found[of] = [expression(of, text) for text in dict.fromkeys([*texts, None])]
    return found


def _is_bad(of: str, text: str) -> bool:
    if of.startswith("numeric("):
        return "NaN" in text
    endless = "infinity" in text or "BC" in text or text.find("-") > 4 or "10000-" in text
    return endless and of.startswith(("date", "timestamp", "public.spans")) and "range" not in of


def left_out(of: str) -> bool:
    """Whether columns of a type have no form in Arrow."""
    arrays = of.endswith("[]") or of in ("public.grid", "public.square")
    composites = of in ("public.inner_type", "public.outer_type", "public.none", "public.spans")
    temporal = of.startswith(("daterange", "tsrange", "tstz")) or "moments" in of
    return arrays or composites or temporal or of.startswith(("ext.hstore", "ext.vector", "ext.halfvec"))


def test_a_value_of_each_type_becomes_the_same_in_the_log(database: Database) -> None:
    with database.connect() as session:
        values = literals(session)
    count = max(map(len, values.values()))
    columns = [f"c{number} {of}" for number, of in enumerate(values)]
    rows = [[cases[n] if n < len(cases) else cases[-1] for cases in values.values()] for n in range(count)]
    made = [
        f"CREATE TABLE t (id int PRIMARY KEY, {', '.join(columns)})",
        *(f"INSERT INTO t VALUES ({n}, {', '.join(row)})" for n, row in enumerate(rows)),
    ]
    exclude = [f"c{number}" for number, of in enumerate(values) if left_out(of)]
    with both(database, *made, exclude=exclude) as (by_columns, documents):
        assert isinstance(alike(by_columns, documents).rows, ColumnRows)
    with opened(database) as table:
        without = [column.name for column in table.target.columns if arrow_form(column) is None]
    assert without == exclude


def test_keys_are_those_of_the_log(database: Database) -> None:
    types = {
        "bool": "false",
        "int2": "-7",
        "int8": "9007199254740993",
        "oid": "4294967295",
        "float8": "0.1",
        "float4": "1e-7",
        "numeric": "1.50",
        "text": "'é\t'",
        "char(4)": "'ab'",
        "name": "'n'",
        '"char"': "'x'",
        "bytea": "'\\x00ff'",
        "date": "'2024-02-29'",
        "timestamp": "'2024-01-01 00:00:00.5'",
        "timestamptz": "'2024-01-01 00:00:00+05:30'",
        "time": "'24:00'",
        "interval": "'1 day 2 hours'",
        "uuid": "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'",
        "inet": "'10.0.0.1'",
        "bit(3)": "'101'",
        "int4range": "'[1,5)'",
        "mood": "'so so'",
        "moody": "'so so'",
    }
    names = [f"k{number}" for number in range(len(types))]
    columns = ", ".join(map(" ".join, zip(names, types, strict=True)))
    made = [
        "CREATE TYPE mood AS ENUM ('so so', 'fine')",
        "CREATE DOMAIN moody AS mood",
        f"CREATE TABLE t ({columns}, PRIMARY KEY ({', '.join(names)}))",
        f"INSERT INTO t VALUES ({', '.join(types.values())})",
    ]
    with both(database, *made) as (all_of_them, documents):
        assert isinstance(alike(all_of_them, documents).rows, ColumnRows)
        for number, of in enumerate(types):
            alone = [
                f"CREATE TABLE k{number} AS SELECT k{number} FROM t",
                f"ALTER TABLE k{number} ADD PRIMARY KEY (k{number})",
            ]
            with both(database, *alone, table=f"k{number}") as (one, other):
                assert isinstance(alike(one, other).rows, ColumnRows), of


@pytest.mark.parametrize(
    ("of", "value"),
    [
        ("date", "'infinity'"),
        ("date", "'-infinity'"),
        ("date", "'0001-12-31 BC'"),
        ("date", "'10000-01-01'"),
        ("timestamp", "'infinity'"),
        ("timestamp", "'0001-12-31 23:59:59.999999 BC'"),
        ("timestamp", "'10000-01-01'"),
        ("timestamptz", "'-infinity'"),
        ("timestamptz", "'294276-12-31 23:59:59.999999+00'"),
        ("numeric(5,2)", "'NaN'"),
        ("json", "'[\"\\ud800\"]'"),
        ("json", "(repeat('[', 501) || repeat(']', 501))"),
        ("jsonb", "(repeat('[', 501) || repeat(']', 501))::jsonb"),
    ],
)
def test_values_that_documents_cannot_have_are_told_as_documents_tell_them(
    database: Database, of: str, value: str
) -> None:
    made = [f"CREATE TABLE t (id int PRIMARY KEY, v {of})", f"INSERT INTO t VALUES (1, NULL), (2, {value}::{of})"]
    with both(database, *made) as (columns, _):
        with pytest.raises(BadValues):
            columns.chunk()
        chunk = columns.chunk(1)
        assert isinstance(chunk.rows, ColumnRows) and list(chunk.rows.keys) == [b"1"]


@pytest.mark.parametrize(
    ("of", "value"),
    [
        ("date", "'0001-01-01'"),
        ("timestamp", "'9999-12-31 23:59:59.999999'"),
        ("numeric(5,2)", "99.9"),
        ("numeric", "'NaN'"),
        ("json", "'[\"\\ud83d\\ude00\"]'"),
        ("json", "' {\"a\" :\r\n\t null} '"),
        ("json", "E'\t null\n'"),
        ("jsonb", "(repeat('[', 500) || repeat(']', 500))::jsonb"),
        ("text", "repeat('x', 8000000)"),
    ],
)
def test_values_at_the_edge_come_as_columns(database: Database, of: str, value: str) -> None:
    made = [f"CREATE TABLE t (id int PRIMARY KEY, v {of})", f"INSERT INTO t VALUES (1, NULL), (2, {value}::{of})"]
    with both(database, *made) as (columns, documents):
        assert isinstance(alike(columns, documents).rows, ColumnRows)


def test_a_row_that_may_be_too_large_for_a_line_comes_as_a_document(database: Database) -> None:
    made = ["CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t VALUES (1, repeat('x', 9000000))"]
    with both(database, *made) as (columns, documents):
        assert isinstance(alike(columns, documents).rows, Rows)


def test_a_chunk_of_many_bytes_ends_early(database: Database) -> None:
    made = [
        "CREATE TABLE t (id int PRIMARY KEY, v text)",
        "INSERT INTO t SELECT n, repeat('x', 1000) FROM generate_series(1, 500) n",
    ]
    with both(database, *made, limits=ChunkLimits(chunk_bytes=64 * 1024)) as (columns, _):
        keys: list[bytes] = []
        for chunk in columns.chunks(10_000):
            assert isinstance(chunk.rows, ColumnRows) and (chunk.end or chunk.rows.size > 32 * 1024)
            assert chunk.rows.size < 80 * 1024
            keys += chunk.rows.keys
        assert keys == [b"%d" % number for number in range(1, 501)]


def test_a_scan_of_several_chunks_ends(database: Database) -> None:
    made = ["CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t SELECT generate_series(1, 20)"]
    with both(database, *made) as (columns, documents):
        cursor = None
        for _ in range(3):
            chunk = alike(columns, documents, limit=10, cursor=cursor)
            cursor = chunk.rows.keys[-1] if len(chunk.rows) else cursor
        assert chunk.end and not len(chunk.rows)


def test_what_is_not_a_scan_by_key_comes_as_documents(database: Database) -> None:
    made = ["CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t SELECT generate_series(1, 20)"]
    with both(database, *made) as (columns, documents):
        for plan in ({"where": "id < 7"}, {"rereads": (b"3",)}, {"physical": True}):
            assert isinstance(alike(columns, documents, **plan).rows, Rows)


def test_a_table_that_was_altered_is_not_read(database: Database) -> None:
    made = ["CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t VALUES (1, 1)"]
    with both(database, *made) as (columns, _):
        columns.chunk()
        columns.session.execute("ALTER TABLE t ALTER v TYPE bigint")
        with pytest.raises(TableAltered):
            columns.chunk()
        columns.session.execute("DROP TABLE t")
        with pytest.raises(TableAway):
            columns.chunk()


def test_a_read_is_canceled_from_another_thread(database: Database) -> None:
    slow = "CREATE FUNCTION slow() RETURNS int VOLATILE LANGUAGE sql AS 'SELECT 1 FROM pg_sleep(0.05)'"
    made = ["CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t SELECT generate_series(1, 5000), 'x'"]
    with both(database, slow, *made) as (columns, _), database.connect() as admin:
        columns.chunk()
        admin.execute("BEGIN")
        admin.execute("LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
        with ThreadPoolExecutor(1) as pool:
            reading = pool.submit(columns.chunk)
            waits = "SELECT FROM pg_locks WHERE NOT granted"
            wait_until(lambda: admin.execute(waits).fetchone() is not None, 20, "the reader waits for the table")
            columns.reader.cancel()
            with pytest.raises(SourceError, match="TM-PG-019"):
                reading.result(timeout=60)
        admin.execute("ROLLBACK")
        assert isinstance(columns.chunk().rows, ColumnRows)


def test_where_no_further_connection_is_let_in_rows_come_as_documents(database: Database) -> None:
    made = ["CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t VALUES (1, 'x')"]
    role = f"{database.name}_limited"
    with opened(database, *made) as table:
        table.session.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'limited' CONNECTION LIMIT 2")
        table.session.execute(f"GRANT SELECT ON t TO {role}")
        try:
            endpoint = ReaderEndpoint.of(parse_endpoint({**database.config(), "user": role, "password": "limited"}))
            with closing(ColumnChunkReader(endpoint)) as reader:
                assert isinstance(replace(table, reader=reader).chunk().rows, Rows)
        finally:
            table.session.execute(f"DROP OWNED BY {role}")
            table.session.execute(f"DROP ROLE {role}")


def test_a_connection_that_broke_is_made_again(database: Database) -> None:
    made = ["CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t VALUES (1, 'x')"]
    with both(database, *made) as (columns, documents):
        columns.chunk()
        columns.session.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tidemark'"
            " AND datname = current_database() AND query = 'ROLLBACK'"
        )
        with pytest.raises(SourceError, match="TM-PG-020"):
            columns.chunk()
        assert isinstance(alike(columns, documents).rows, ColumnRows)
