"""A key column gets another type: rows are told apart by other texts then, and those of before must not stay."""

from __future__ import annotations

import sys

import pytest

from tests.captures.mysql.log.test_stream import global_setting
from tests.captures.mysql.table_chunks import run
from tests.captures.session import Json, Rows, Session, bindings, session
from tidemark.testing.servers.mariadb import Database

COMMAND = [sys.executable, "-m", "tidemark.connectors.mysql"]

CHANGES = [
    ("DATETIME", "DATETIME(3)", "'2024-01-0{}'"),
    ("DATETIME(6)", "DATETIME", "'2024-01-0{}'"),
    ("TIMESTAMP NOT NULL DEFAULT '2020-01-01'", "TIMESTAMP(2) NOT NULL DEFAULT '2020-01-01'", "'2024-01-0{}'"),
    ("TIME", "TIME(4)", "'10:00:0{}'"),
    ("DATETIME", "DATE", "'2024-01-0{}'"),
    ("DECIMAL(10, 2)", "DECIMAL(10, 3)", "{}"),
    ("INT", "DECIMAL(10, 1)", "{}"),
    ("INT", "BIGINT", "{}"),
    ("INT", "VARCHAR(10)", "{}"),
    ("INT", "DOUBLE", "{}"),
    ("BINARY(2)", "BINARY(4)", "'{}'"),
    ("BINARY(2)", "VARBINARY(2)", "'{}'"),
    ("BIT(1)", "BIT(2)", "{} % 2"),
    ("ENUM('1', '2', '3', '4')", "VARCHAR(3)", "'{}'"),
    ("YEAR", "INT", "200{}"),
    ("VARCHAR(10)", "INT", "'0{}'"),
]


def _make(database: Database) -> list[Json]:
    for number, (before, _, value) in enumerate(CHANGES):
        rows = (2, 3) if before == "BIT(1)" else (1, 2, 3)
        values = ", ".join(f"({value.format(n)}, 0)" for n in rows)
        run(
            database,
            f"CREATE TABLE t{number} (id {before}, v INT, PRIMARY KEY (id))",
            f"INSERT INTO t{number} VALUES {values}",
        )
    return bindings(*(f"{database.name}.t{number}" for number in range(len(CHANGES))))


def _change(database: Database, number: int) -> None:
    _, now, value = CHANGES[number]
    run(
        database,
        f"UPDATE t{number} SET v = 1 WHERE id = {value.format(2)}",
        f"ALTER TABLE t{number} MODIFY id {now}",
        f"UPDATE t{number} SET v = v + 2 WHERE id = {value.format(3)}",
    )


def _all_rows(capture: Session) -> list[Rows]:
    return [capture.rows(number) for number in range(len(CHANGES))]


def _captured_now(database: Database, bound: list[Json]) -> list[Rows]:
    """By a capture that begins now."""
    with session({**database.config(), "server_id": 4711}, bound, stop=True, command=COMMAND) as fresh:
        assert fresh.finish() == 0, fresh.last_words()
        return _all_rows(fresh)


@pytest.mark.parametrize("metadata", ["FULL", "NO_LOG"])
def test_while_it_is_captured(binlog_database: Database, metadata: str) -> None:
    with global_setting(binlog_database, "binlog_row_metadata", f"'{metadata}'"):
        bound = _make(binlog_database)
        with session(binlog_database.config(), bound, command=COMMAND) as capture:
            capture.until(Session.done)
            for number in range(len(CHANGES)):
                _change(binlog_database, number)
            expected = _captured_now(binlog_database, bound)
            capture.until(lambda c: c.done() and _all_rows(c) == expected)


@pytest.mark.parametrize("metadata", ["FULL", "NO_LOG"])
def test_while_nobody_listens(binlog_database: Database, metadata: str) -> None:
    """The log has rows of before, too."""
    with global_setting(binlog_database, "binlog_row_metadata", f"'{metadata}'"):
        bound = _make(binlog_database)
        with session(binlog_database.config(), bound, stop=True, command=COMMAND) as first:
            assert first.finish() == 0
        for number in range(len(CHANGES)):
            _change(binlog_database, number)
        with session(binlog_database.config(), bound, first.state, stop=True, command=COMMAND) as second:
            assert second.finish() == 0, second.last_words()
            second.documents[:0] = first.documents
            assert _all_rows(second) == _captured_now(binlog_database, bound)


def test_states_of_before_the_types_were_kept(binlog_database: Database) -> None:
    """Nothing is read again because of the upgrade."""
    run(binlog_database, "CREATE TABLE t (id VARCHAR(9) COLLATE utf8mb4_bin PRIMARY KEY)", "INSERT INTO t VALUES ('a')")
    bound = bindings(f"{binlog_database.name}.t")
    with session(binlog_database.config(), bound, stop=True, command=COMMAND) as first:
        assert first.finish() == 0
    (state,) = first.state["bindings"].values()
    assert state["identity"] == "id varchar(9) utf8mb4_bin"
    state["identity"] = "id utf8mb4_bin"
    with session(binlog_database.config(), bound, first.state, stop=True, command=COMMAND) as second:
        assert second.finish() == 0
        assert second.documents == []
        (state,) = second.state["bindings"].values()
        assert state["identity"] == "id varchar(9) utf8mb4_bin"
