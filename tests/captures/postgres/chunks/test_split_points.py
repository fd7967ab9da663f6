"""Bounds that cut a scan by key into ranges: inside, in order, balanced, and never from reading the table."""

from __future__ import annotations

from contextlib import closing

import pytest

from tests.captures.postgres.chunk_reads import Table, opened
from tests.captures.postgres.log_reading import binding
from tests.captures.source_tables import prepare
from tidemark.backfill.keys import Key, key_from_texts
from tidemark.captures.postgres.chunks.pages import Place
from tidemark.captures.postgres.chunks.split_points import split, split_pages
from tidemark.captures.postgres.server.config import parse_endpoint, parse_resource
from tidemark.captures.postgres.server.session import connect
from tidemark.captures.postgres.source import PostgresSource
from tidemark.testing.servers.postgres import Database

ROWS = "INSERT INTO t SELECT i, i FROM generate_series(1, 10000) i"


def key(*texts: str) -> Key:
    return key_from_texts(texts)


def bounds(
    database: Database, table: Table, parts: int, cursor: Key | None = None, until: Key | None = None, role: str = ""
) -> list[Key]:
    config = parse_endpoint(database.config())
    with connect(config) as session:
        if role:
            session.execute(f"SET ROLE {role}")
        return split(session, table.target, cursor, until, parts)


def sizes(table: Table, cuts: list[Key], cursor: Key | None = None, until: Key | None = None) -> list[int]:
    """Rows in each range, as the server counts them; together they must be the whole."""
    counted = []
    for low, high in zip([cursor, *cuts], [*cuts, until], strict=True):
        query = table.target.scan(low, high, None, None).as_string(table.session)
        row = table.session.execute(f"SELECT count(*) FROM ({query}) r".encode()).fetchone()
        assert row is not None
        counted.append(row[0])
    return counted


def assert_cut(
    database: Database, table: Table, parts: int, cursor: Key | None = None, until: Key | None = None, largest: int = 0
) -> list[Key]:
    cuts = bounds(database, table, parts, cursor, until)
    counted = sizes(table, cuts, cursor, until)
    whole = sizes(table, [], cursor, until)[0]
    assert sum(counted) == whole and len(set(cuts)) == len(cuts) == parts - 1
    assert max(counted) <= (largest or 1.5 * whole / parts), counted
    return cuts


TYPES = {
    "int": "i",
    "bigint": "i * 10000000000::bigint",
    "numeric": "i / 7.0",
    "text": "'k' || i",
    'text COLLATE "C"': "'k' || i",
    "varchar(20)": "'k' || i",
    "char(12)": "'k' || i",
    "uuid": "md5(i::text)::uuid",
    "timestamptz": "'2024-01-01'::timestamptz + i * interval '1 min'",
    "timestamp": "'2024-01-01'::timestamp + i * interval '1 min'",
    "date": "'1999-01-01'::date + i",
    "bytea": "decode(md5(i::text), 'hex')",
    "double precision": "i / 7.0",
    "int[]": "ARRAY[i / 100, i]",
    "inet": "'10.0.0.0'::inet + i",
    '"Odd Type"': "i",
}


@pytest.mark.parametrize(("name", "value"), TYPES.items())
def test_statistics_of_any_type(any_database: Database, name: str, value: str) -> None:
    statements = (
        'CREATE DOMAIN "Odd Type" AS int CHECK (value > 0)',
        'ALTER DOMAIN "Odd Type" SET SCHEMA public',
        f"CREATE TABLE t (k {name} PRIMARY KEY, v int)",
        f"INSERT INTO t SELECT {value}, i FROM generate_series(1, 10000) i",
        "ANALYZE t",
    )
    with opened(any_database, *statements) as table:
        cuts = assert_cut(any_database, table, 4)
        assert_cut(any_database, table, 2, cursor=cuts[0], until=cuts[2])


ARITHMETIC = [
    name for name in TYPES if "int" in name or name in ("numeric", "uuid", "timestamptz", "timestamp", "date")
]


@pytest.mark.parametrize("name", [*(n for n in ARITHMETIC if "[]" not in n), '"Odd Type"'])
def test_without_statistics_between_the_ends(database: Database, name: str) -> None:
    statements = (
        'CREATE DOMAIN "Odd Type" AS int CHECK (value > 0)',
        f"CREATE TABLE t (k {name} PRIMARY KEY, v int) WITH (autovacuum_enabled = off)",
        f"INSERT INTO t SELECT {TYPES[name]}, i FROM generate_series(1, 10000) i",
    )
    with opened(database, *statements) as table:
        cuts = assert_cut(database, table, 4)
        assert_cut(database, table, 3, cursor=cuts[0], until=cuts[1])


def test_what_cannot_be_cut_stays_whole(database: Database) -> None:
    statements = ("CREATE TABLE t (k text PRIMARY KEY, v int) WITH (autovacuum_enabled = off)", ROWS)
    with opened(database, *statements) as table:
        assert bounds(database, table, 4) == []
        assert bounds(database, table, 1) == []
        table.session.execute("TRUNCATE t")
        assert bounds(database, table, 4) == []


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("timestamp", ["-infinity", "infinity", "2024-01-01", "2024-01-02"]),
        ("date", ["-infinity", "infinity", "2024-01-01", "4713-01-01 BC"]),
        ("numeric", ["NaN", "0", "1", "2"]),
        ("numeric", ["-Infinity", "Infinity", "1", "2"]),
        ("bigint", ["-9223372036854775808", "9223372036854775807", "1", "2"]),
        ("date", ["2024-01-01", "2024-01-02"]),
        ("int", ["7"]),
    ],
)
def test_ends_that_nothing_lies_between(database: Database, name: str, values: list[str]) -> None:
    fill = ", ".join(f"('{value}')" for value in values)
    with opened(database, f"CREATE TABLE t (k {name} PRIMARY KEY)", f"INSERT INTO t VALUES {fill}") as table:
        cuts = bounds(database, table, 4)
        assert sum(sizes(table, cuts)) == len(values) and len(cuts) == len(set(cuts)) <= 3


COMPOSITE = "CREATE TABLE t (a int, b int, v int, PRIMARY KEY (a, b)) WITH (autovacuum_enabled = off)"


def test_skewed_first_columns_are_cut_by_their_common_values(database: Database) -> None:
    """A tenant with half of the rows, and a thousand small ones."""
    fill = "INSERT INTO t SELECT CASE WHEN i <= 5000 THEN 500 ELSE i % 1000 END, i, i FROM generate_series(1, 10000) i"
    with opened(database, COMPOSITE, fill, "ANALYZE t") as table:
        cuts = bounds(database, table, 4)
        counted = sizes(table, cuts)
        assert key("500") in cuts and max(counted) <= 5300 and len(counted) >= 3
        # What was begun inside the large tenant is cut by the second column.
        assert_cut(database, table, 3, cursor=key("500", "20"), until=key("500"), largest=3500)


def test_a_first_column_of_one_value_is_passed_over(database: Database) -> None:
    with opened(database, COMPOSITE, "INSERT INTO t SELECT 7, i, i FROM generate_series(1, 10000) i") as table:
        assert_cut(database, table, 4)
        table.session.execute("ANALYZE t")
        assert_cut(database, table, 4, cursor=key("7", "100"))


def test_partitioned_tables(database: Database) -> None:
    statements = (
        "CREATE TABLE t (k int PRIMARY KEY, v int) PARTITION BY RANGE (k)",
        "CREATE TABLE t_1 PARTITION OF t FOR VALUES FROM (0) TO (3000)",
        "CREATE TABLE t_2 PARTITION OF t FOR VALUES FROM (3000) TO (20000)",
        ROWS,
    )
    with opened(database, *statements) as table:
        assert_cut(database, table, 4)
        table.session.execute("ANALYZE t")
        assert_cut(database, table, 4)


def test_a_role_that_may_not_see_the_statistics(database: Database) -> None:
    role = f"{database.name}_reader"
    statements = (
        "CREATE TABLE t (k int PRIMARY KEY, v int)",
        ROWS,
        "INSERT INTO t SELECT i * 1000, i FROM generate_series(1000, 2000) i",
        "ANALYZE t",
        f"CREATE ROLE {role}",
    )
    try:
        with opened(database, *statements) as table:
            assert bounds(database, table, 4, role=role) == []
            table.session.execute(f"GRANT SELECT (k) ON t TO {role}")
            assert len(bounds(database, table, 4, role=role)) == 3
            table.session.execute(f"DROP OWNED BY {role}")
    finally:
        with database.connect() as admin:
            admin.execute(f"DROP ROLE IF EXISTS {role}")


def test_keys_ordered_by_an_extensions_operators(database: Database) -> None:
    with database.connect() as connection:
        if connection.execute("SELECT FROM pg_available_extensions WHERE name = 'citext'").fetchone() is None:
            pytest.skip("no extension citext here")
    fill = "INSERT INTO t SELECT CASE i % 2 WHEN 0 THEN 'a' ELSE 'B' END || i, i FROM generate_series(1, 10000) i"
    statements = ("CREATE EXTENSION citext", "CREATE TABLE t (k citext PRIMARY KEY, v int)", fill, "ANALYZE t")
    with opened(database, *statements) as table:
        config = parse_endpoint(database.config())
        with connect(config) as session:
            cuts = split(session, table.target, None, None, 4)
        assert len(cuts) == 3 and [c.lower() for c in cuts] == sorted(c.lower() for c in cuts)


@pytest.mark.parametrize("physical", [False, True])
def test_a_table_that_somebody_locks_stays_whole(database: Database, physical: bool) -> None:
    cut = split_pages if physical else split
    with (
        opened(database, "CREATE TABLE t (k int PRIMARY KEY, v int)", ROWS) as table,
        connect(parse_endpoint(database.config())) as asking,
        database.connect(autocommit=False) as locker,
    ):
        locker.execute("LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
        assert cut(asking, table.target, None, None, 4) == []
        locker.rollback()
        assert len(cut(asking, table.target, None, None, 4)) == 3


def test_a_table_that_is_scanned_by_pages_may_have_ranges_by_key(database: Database) -> None:
    prepare(database, "CREATE TABLE t (k int PRIMARY KEY, v int)", ROWS, "ANALYZE t")
    resource = parse_resource({"schema": "public", "table": "t", "scan": "physical"})
    source = PostgresSource(parse_endpoint(database.config()), [binding("t")], [resource])
    with closing(source):
        (middle,) = source.split(0, key("2000"), None, 2)
        assert 5000 < int(middle) < 7000
        (page,) = source.split_pages(0, None, None, 2)
        assert Place.parse(page).page > 0


def test_domains_over_enums(database: Database) -> None:
    """The server has no operators for them."""
    statements = (
        "CREATE TYPE size AS ENUM ('small', 'medium', 'large')",
        "CREATE DOMAIN fit AS size",
        "CREATE TABLE t (k fit, v int, PRIMARY KEY (k, v))",
        "INSERT INTO t SELECT (enum_range(NULL::size))[1 + i % 3], i FROM generate_series(1, 3000) i",
        "ANALYZE t",
    )
    with opened(database, *statements) as table:
        assert_cut(database, table, 2, cursor=key("small", "1500"), largest=2000)
        assert_cut(database, table, 2, until=key("large"), largest=2000)
