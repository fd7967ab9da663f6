"""Tables of every shape: chunk by chunk along any key, and the same rows and keys from the log."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.captures.postgres.captured_table import captured, columns, document, operation
from tests.captures.postgres.random_nested_types import identifier
from tidemark.captures.contract.errors import TableAltered
from tidemark.protocol.errors import SourceError
from tidemark.testing.servers.postgres import Database

KEYS: dict[str, tuple[str, list[str]]] = {
    "enum": ("CREATE TYPE e AS ENUM ('z', 'a', 'M')|e", ["z", "a", "M"]),
    "domain over enum": ("CREATE TYPE e AS ENUM ('z', 'a'); CREATE DOMAIN d AS e|d", ["z", "a"]),
    "uuid": ("|uuid", ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "00000000-0000-0000-0000-000000000000"]),
    "numeric": ("|numeric", ["NaN", "Infinity", "-Infinity", "1.50", "-0.0", "1e30"]),
    "float8": ("|float8", ["NaN", "Infinity", "-0", "0.1"]),
    "bytea": ("|bytea", ["\\x", "\\x00", "\\xff00", "\\x61"]),
    "timestamptz": ("|timestamptz", ["infinity", "0044-03-15 00:00Z BC", "12024-01-01 00:00Z", "2024-01-01 00:00Z"]),
    "interval": ("|interval", ["1 month", "29 days", "-1 year"]),
    "char(n)": ("|char(6)", ["a", "b c", ""]),
    "array": ("|int[]", ["{}", "{NULL}", "[0:1]={1,2}", "{{1},{2}}"]),
    "range": ("|tstzrange", ["empty", "[2024-01-01 00:00+00,)", "(,)"]),
    "inet": ("|inet", ["10.0.0.0/8", "::1"]),
    "composite": ("CREATE TYPE c AS (a int, b text)|c", ["(1,)", '(1,"")', '(,"x,y")']),
    "icu": ("|text COLLATE \"de-x-icu\"", ["ä", "z", "Z", "a b", "a-b", "'", "\\", ""]),
    "nondeterministic": (
        "CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false)|text COLLATE ci",
        ["abc", "ABD", "ä", "Z", ""],
    ),
}  # fmt: skip


ICU = "SELECT FROM pg_collation WHERE collname = 'de-x-icu'"


@pytest.mark.parametrize("kind", KEYS)
def test_keys_of_a_type(any_database: Database, kind: str) -> None:
    """Each row once in chunks of one, found again by its key, and with the same key from the log."""
    (makes, _, type_name), values = KEYS[kind][0].partition("|"), KEYS[kind][1]
    with any_database.connect() as session:
        if "icu" in makes + type_name and session.execute(ICU).fetchone() is None:
            pytest.skip(f"PostgreSQL {any_database.version} here was built without ICU")
        session.execute(makes)
        session.execute(f"CREATE TABLE t (k {type_name}, part int, n int, PRIMARY KEY (k, part))")
        with captured(any_database, "public", "t", on_bad_value={"k": "text"}) as table:
            for value in values:
                session.execute("INSERT INTO t VALUES (%s, 1, 0), (%s, 2, 0)", [value, value])
            rows = table.chunks(1)
            assert len(rows) == 2 * len(values)
            assert sorted(map(columns, table.log())) == sorted(rows.values())
            assert table.again(list(rows)) == rows
            session.execute("DELETE FROM t")
            deleted = [(json.loads(columns(line)), operation(line)) for line in table.log()]
    expected = [json.loads(row) for row in rows.values()]
    assert sorted(deleted, key=str) == sorted(
        (({"k": row["k"], "part": row["part"]}, "d") for row in expected), key=str
    )


def test_keys_that_are_equal_and_written_otherwise(any_database: Database) -> None:
    """To the server nothing changes in the key; to whoever reads its text, one row goes and another comes."""
    with any_database.connect() as session:
        session.execute("CREATE TABLE t (k numeric PRIMARY KEY)")
        with captured(any_database, "public", "t") as table:
            session.execute("INSERT INTO t VALUES (1.0)")
            session.execute("UPDATE t SET k = 1.00")
            assert [(operation(line), columns(line)) for line in table.log()] == [
                ("c", b'{"k":"1.0"}'),
                ("d", b'{"k":"1.0"}'),
                ("c", b'{"k":"1.00"}'),
            ]
            assert list(table.chunks()) == [b"1.00"]


def test_a_unique_index_instead_of_a_primary_key(any_database: Database) -> None:
    with any_database.connect() as session:
        session.execute("CREATE TABLE t (a text NOT NULL, b int NOT NULL, c int, UNIQUE (b, a))")
        session.execute("ALTER TABLE t REPLICA IDENTITY USING INDEX t_b_a_key")
        session.execute("INSERT INTO t SELECT chr(64 + n), n % 3, n FROM generate_series(1, 10) n")
        with captured(any_database, "public", "t") as table:
            assert table.source.tables[0].key == ("b", "a")
            assert len(table.chunks(2)) == 10
            session.execute("DELETE FROM t WHERE c = 3")
            session.execute("UPDATE t SET a = 'z' WHERE c = 4")
            assert [(operation(line), columns(line)) for line in table.log()] == [
                ("d", b'{"a":"C","b":0}'),
                ("d", b'{"a":"D","b":1}'),
                ("c", b'{"a":"z","b":1,"c":4}'),
            ]


def test_a_parent_has_only_its_own_rows(any_database: Database) -> None:
    with any_database.connect() as session:
        session.execute("CREATE TABLE parent (id int PRIMARY KEY); CREATE TABLE child (more int) INHERITS (parent)")
        session.execute("INSERT INTO parent VALUES (1); INSERT INTO child VALUES (2, 0)")
        with captured(any_database, "public", "parent") as table:
            assert list(table.chunks()) == [b"1"]
            session.execute("INSERT INTO parent VALUES (3); INSERT INTO child VALUES (4, 0)")
            session.execute("DELETE FROM parent WHERE id IN (1, 2)")
            assert [(operation(line), columns(line)) for line in table.log()] == [
                ("c", b'{"id":3}'),
                ("d", b'{"id":1}'),
            ]


AWKWARD = ['a "b" c', "a.b", "Upper", "日本語", "é" * 31, "x" * 63, "{0}%s$1", "select", "back\\slash", "'\"", "  "]


@pytest.mark.parametrize("name", AWKWARD)
def test_identifiers(database: Database, name: str) -> None:
    """Of a schema, a table, a type and a column."""
    quoted = identifier(name)
    with database.connect() as session:
        session.execute(f"CREATE SCHEMA {quoted}; CREATE TYPE {quoted}.v AS ENUM ('v')")
        session.execute(f"CREATE DOMAIN {quoted}.{identifier(name[:-1])} AS {quoted}.v")
        session.execute(f"CREATE TABLE {quoted}.{quoted} ({quoted} {quoted}.{identifier(name[:-1])} PRIMARY KEY)")
        with captured(database, name, name) as table:
            session.execute(f"INSERT INTO {quoted}.{quoted} VALUES ('v')")
            rows = table.chunks()
            (line,) = table.log()
            assert table.again(list(rows)) == rows
    assert json.loads(columns(line)) == {name: "v"}
    assert list(rows.values()) == [columns(line)]
    source = json.loads(bytes(document(line)["_meta"]))["source"]
    assert (source["schema"], source["table"]) == (name, name)


@pytest.mark.heavy
def test_1600_columns(database: Database) -> None:
    """As many as a table can have, some of each kind, most of them null in some rows."""
    kinds = ["int", "text", "bool", "timestamptz", "numeric", "float8", "date", "jsonb"]
    values = ["7", "'x'", "true", "now()", "1.50", "'NaN'", "current_date", "'[1]'"]
    made = ", ".join(f"c{n} {kinds[n % 8]}" for n in range(1599))
    with database.connect() as session:
        session.execute(f"CREATE TABLE t (id int PRIMARY KEY, {made})")
        with captured(database, "public", "t") as table:
            some = ", ".join(values[n % 8] for n in range(500))
            session.execute(f"INSERT INTO t VALUES (1, {some}), (2, {some.replace('7', '8')})")
            session.execute("INSERT INTO t VALUES (3)")
            rows = table.chunks()
            assert len(rows) == 3
            assert list(map(columns, table.log())) == list(rows.values())
    row: dict[str, Any] = json.loads(rows[b"2"])
    assert len(row) == 1600 and row["c0"] == 8 and row["c1598"] is None


@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["text", "bytea"])
def test_values_of_16_megabytes_and_of_none(database: Database, kind: str) -> None:
    value = "repeat('é\"\\', 4194304)" if kind == "text" else "decode(repeat('74006e00', 4194304), 'hex')"
    with database.connect() as session:
        session.execute(f"CREATE TABLE t (id int PRIMARY KEY, empty {kind}, big {kind})")
        with captured(database, "public", "t") as table:
            session.execute(f"INSERT INTO t VALUES (1, '', {value})")
            (row,) = table.chunks().values()
            (line,) = table.log()
    assert columns(line) == row
    read = json.loads(row)
    assert read["empty"] == ""
    assert len(read["big"]) == (3 * 2**22 if kind == "text" else -(-(2**24) // 3) * 4)


def test_a_label_that_is_added_to_an_enum(any_database: Database) -> None:
    with any_database.connect() as session:
        session.execute("CREATE TYPE mood AS ENUM ('sad'); CREATE TABLE t (m mood PRIMARY KEY, more mood[])")
        with captured(any_database, "public", "t") as table:
            session.execute("ALTER TYPE mood ADD VALUE 'glad' BEFORE 'sad'")
            session.execute("INSERT INTO t VALUES ('sad', '{glad}'), ('glad', '{sad,glad}')")
            with pytest.raises(TableAltered):
                table.chunks(1)  # It waits for whoever looks at the catalogs.
            lines = sorted(map(columns, table.log()))
        with captured(any_database, "public", "t", slot=f"{any_database.name}_one"[-60:]) as again:
            assert sorted(again.chunks(1).values()) == lines
    assert lines == [b'{"m":"glad","more":["sad","glad"]}', b'{"m":"sad","more":["glad"]}']


@pytest.mark.heavy
def test_a_row_that_no_line_can_hold(database: Database) -> None:
    """A few megabytes of characters that JSON writes with six."""
    with database.connect() as session:
        session.execute("CREATE TABLE t (id int PRIMARY KEY, less text, most text)")
        with captured(database, "public", "t") as table:
            session.execute("INSERT INTO t VALUES (1, 'x', repeat(E'\\x01', 12 * 1024 * 1024))")
            for read in (table.chunks, table.log):
                with pytest.raises(SourceError, match=r"TM-CAP-020.*public\.t: column most: ") as raised:
                    read()
                assert "most: quarantine" in raised.value.remedy
