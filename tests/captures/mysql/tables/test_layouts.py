"""Columns as the rows of the log have them, while the catalog has them otherwise: for DDL that came meanwhile."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.captures.log_reader import plain
from tests.captures.mysql.captured_log import captured_log
from tests.captures.mysql.table_chunks import run
from tests.captures.session import bindings, session
from tidemark.captures.mysql.tables.bindings import Layout, read_layout
from tidemark.captures.mysql.terms.columns import Column
from tidemark.protocol.errors import ProtocolError
from tidemark.testing.servers.mariadb import Database

COMMAND = [sys.executable, "-m", "tidemark.connectors.mysql"]

COLLATIONS = ["ucs2_bin", "utf16_unicode_ci", "utf32_bin", "latin7_bin", "utf8mb4_croatian_ci"]


@contextmanager
def metadata(database: Database, value: str) -> Iterator[None]:
    """Inside, the log says this much of the columns."""
    with database.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT @@GLOBAL.binlog_row_metadata")
        (before,) = cursor.fetchone()
        cursor.execute(f"SET GLOBAL binlog_row_metadata = {value}")
    try:
        yield
    finally:
        run(database, f"SET GLOBAL binlog_row_metadata = {before}")


def values(rows: dict[tuple[Any, ...], dict[str, Any]], column: str = "v") -> dict[int, Any]:
    return {key[0]: row[column] for key, row in rows.items()}


@pytest.mark.parametrize("amount", ["MINIMAL", "FULL"])
def test_the_character_set_of_a_column_is_changed_while_the_capture_is_away(
    binlog_database: Database, amount: str
) -> None:
    database = binlog_database
    with metadata(database, amount):
        run(
            database,
            "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20) CHARACTER SET latin1, n TINYINT UNSIGNED)",
            "INSERT INTO t VALUES (1, 'ä', 200)",
        )
        with session(database.config(), bindings(f"{database.name}.t"), command=COMMAND) as before:
            before.until(lambda s: s.done())
        run(
            database,
            "INSERT INTO t VALUES (2, 'ö', 201)",
            "ALTER TABLE t MODIFY v VARCHAR(20) CHARACTER SET utf8mb4, MODIFY n SMALLINT",
            "INSERT INTO t VALUES (3, 'ü', -1)",
        )
        with session(database.config(), bindings(f"{database.name}.t"), before.state, command=COMMAND) as after:
            after.until(lambda s: any(document["id"] == 3 for _, document in s.documents))
            before.documents += after.documents
        assert values(before.rows()) == {1: "ä", 2: "ö", 3: "ü"}
        assert values(before.rows(), "n") == {1: 200, 2: 201, 3: -1}
        # One ALTER, of which both sides are known, has nothing read again.
        assert all("snapshot" not in document["_meta"]["source"] for _, document in after.documents)


def test_several_changes_while_the_capture_is_away(binlog_database: Database) -> None:
    """What was between them is not known from the catalog: the table is read again, whatever its rows look like."""
    database = binlog_database
    with metadata(database, "MINIMAL"):
        run(database, "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20) CHARACTER SET utf8mb4)")
        with session(database.config(), bindings(f"{database.name}.t"), command=COMMAND) as before:
            before.until(lambda s: s.done())
        run(
            database,
            "INSERT INTO t VALUES (1, 'ä')",
            "ALTER TABLE t MODIFY v VARCHAR(20) CHARACTER SET latin1",
            "INSERT INTO t VALUES (2, 'ö')",
            "ALTER TABLE t MODIFY v VARCHAR(20) CHARACTER SET utf8mb4",
            "INSERT INTO t VALUES (3, 'ü')",
        )
        with session(database.config(), bindings(f"{database.name}.t"), before.state, command=COMMAND) as after:
            after.until(lambda s: s.done() and len(s.rows()) == 3)
            assert values(after.rows()) == {1: "ä", 2: "ö", 3: "ü"}


def test_a_change_that_is_not_in_the_log_is_seen_when_the_log_is_read(binlog_database: Database) -> None:
    database = binlog_database
    with metadata(database, "MINIMAL"):
        run(database, "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20) CHARACTER SET latin1)")
        with session(database.config(), bindings(f"{database.name}.t"), command=COMMAND) as before:
            before.until(lambda s: s.done())
        run(
            database,
            "SET sql_log_bin = 0",
            "ALTER TABLE t MODIFY v VARCHAR(20) CHARACTER SET utf8mb4",
            "SET sql_log_bin = 1",
        )
        with session(database.config(), bindings(f"{database.name}.t"), before.state, command=COMMAND) as after:
            after.until(lambda s: s.checkpoints >= 2)
            run(database, "INSERT INTO t VALUES (1, 'ä')")
            after.until(lambda s: values(s.rows()) == {1: "ä"})


def test_collations_are_the_servers(binlog_database: Database) -> None:
    """A column of which only the log knows has its character set from there, whatever its collation is."""
    database = binlog_database
    with database.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT collation_name FROM information_schema.collations WHERE collation_name IS NOT NULL")
        there = {name for (name,) in cursor.fetchall()}
    chosen = [name for name in (*COLLATIONS, "utf8mb4_0900_bin", "utf8mb4_de_pb_0900_ai_ci") if name in there]
    columns = [f"c{place} VARCHAR(20) COLLATE {collation}" for place, collation in enumerate(chosen)]
    names = [f"c{place}" for place in range(len(chosen))]
    run(database, f"CREATE TABLE t (id INT PRIMARY KEY, {', '.join(columns)})")
    with metadata(database, "FULL"), captured_log(database, "t") as log:
        run(
            database,
            f"INSERT INTO t VALUES (1{', %s' * len(chosen)})" % tuple(["'kõs'"] * len(chosen)),
            "ALTER TABLE t " + ", ".join(f"DROP {name}" for name in names),
        )
        assert plain(log.read())[0] == ("c", {"id": 1, **dict.fromkeys(names, "kõs")})


def test_columns_that_were_dropped_while_the_capture_was_away(mariadb_database: Database) -> None:
    """MariaDB's own types are bytes in the log."""
    database = mariadb_database
    own = [(name, value) for name, value in OWN if database.has_type(name)]
    columns = ", ".join(f"c{place} {kind}" for place, (kind, _) in enumerate(own))
    run(database, f"CREATE TABLE t (id INT PRIMARY KEY, {columns})")
    with metadata(database, "FULL"):
        with session(database.config(), bindings(f"{database.name}.t"), command=COMMAND) as before:
            before.until(lambda s: s.done())
        run(
            database,
            f"INSERT INTO t VALUES (1, {', '.join(repr(value) for _, value in own)})",
            "ALTER TABLE t ADD x INT",
            f"INSERT INTO t VALUES (2, {', '.join(repr(value) for _, value in own)}, 5)",
            *(f"ALTER TABLE t DROP c{place}" for place in range(len(own))),
        )
        with session(database.config(), bindings(f"{database.name}.t"), before.state, command=COMMAND) as after:
            after.until(lambda s: len(s.documents) == 2)
            expected = {f"c{place}": {"a": [1]} if kind == "JSON" else value for place, (kind, value) in enumerate(own)}
            found = [{name: document.get(name) for name in expected} for _, document in after.documents]
            assert found == [expected, expected]


@pytest.mark.parametrize("amount", ["NO_LOG", "FULL"])
def test_columns_that_came_and_went_while_the_capture_was_away(mariadb_database: Database, amount: str) -> None:
    """Only the statements say that they were of MariaDB's own types."""
    database = mariadb_database
    if not database.has_type("UUID"):
        pytest.skip("it has no UUID")
    own = [(f"c{place}", kind, value) for place, (kind, value) in enumerate(OWN) if database.has_type(kind)]
    values = ", ".join(repr(value) for _, _, value in own)
    run(database, "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(99))")
    with metadata(database, amount):
        with session(database.config(), bindings(f"{database.name}.t"), command=COMMAND) as before:
            before.until(lambda s: s.done())
        run(
            database,
            f"ALTER TABLE t {', '.join(f'ADD COLUMN {name} {kind}' for name, kind, _ in own)}",
            f"INSERT INTO t VALUES (1, NULL, {values})",
            "ALTER TABLE t RENAME COLUMN c0 TO c9, MODIFY v UUID, ADD COLUMN late INET6",
            f"INSERT INTO t VALUES (2, '{OWN[0][1]}', {values}, '::1')",
            "ALTER TABLE t MODIFY v VARCHAR(99)",
            f"ALTER TABLE t {', '.join(f'DROP COLUMN {name}' for name, _, _ in own[1:])}, DROP c9, DROP late",
            "INSERT INTO t VALUES (3, 'three')",
        )
        with session(database.config(), bindings(f"{database.name}.t"), before.state, command=COMMAND) as after:
            after.until(lambda s: s.done() and {(1,), (2,), (3,)} <= s.rows().keys())
            assert {n: row["v"] for (n,), row in after.rows().items()} == {1: None, 2: OWN[0][1], 3: "three"}
            for _, document in after.documents:
                read = {kind: document[name] for name, kind, _ in own if document.get(name) is not None}
                assert all(read[kind] == ({"a": [1]} if kind == "JSON" else dict(OWN)[kind]) for kind in read)
                assert {document.get(name) for name in ("v", "c9")} <= {None, OWN[0][1], "three"}
                assert document.get("late") in (None, "::1")
            shown = set().union(*(document for _, document in after.documents))
            assert (amount == "FULL") == ({"c0", "c9", "late"} <= shown)


OWN = [
    ("UUID", "123e4567-e89b-12d3-a456-426655440000"),
    ("INET4", "10.0.0.1"),
    ("INET6", "2001:db8::ff00:42:8329"),
    ("JSON", '{"a": [1]}'),
]


def test_the_text_of_a_layout() -> None:
    columns = (
        Column("id", "int", nullable=False, unsigned=True),
        Column("v", "enum", charset="utf8mb4", collation="utf8mb4_bin", labels=("ä", "b")),
        Column("u", "uuid"),
        Column("j", "longtext", charset="utf8mb4", json=True),
    )
    for layout in (Layout(columns, True, 7, 9), Layout(columns, True, past=(Column("gone", "inet6"),), follows=True)):
        assert read_layout(layout.text()) == layout
    assert Layout((Column("u", "uuid"),), True, 7, 9).text() == (
        '{"columns":[{"name":"u","data_type":"uuid"}],"complete":true,"as_of":7,"until":9}'
    )
    assert read_layout('{"columns":[],"complete":true,"as_of":7}') == Layout((), True, 7, 7)
    assert read_layout('{"columns":[{"name":"u","data_type":"uuid"}]}') == Layout((Column("u", "uuid"),), False)
    for text in ("", "[]", '{"columns":[{"nam":1}]}', '{"columns":3}'):
        with pytest.raises(ProtocolError, match="TM-PRO-003"):
            read_layout(text)
