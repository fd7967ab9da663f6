"""Sessions that log statements: which captured tables they touch, and that those are read again."""

from __future__ import annotations

import sys

import pytest

from tests.captures.log_reader import plain
from tests.captures.mysql.captured_log import CapturedLog, captured_log
from tests.captures.mysql.table_chunks import run
from tests.captures.session import Session, bindings, session
from tests.servers.mariadb import Database

COMMAND = [sys.executable, "-m", "connectors.mysql"]

TABLES = [
    "CREATE TABLE t (id INT PRIMARY KEY)",
    "CREATE TABLE u (id INT PRIMARY KEY)",
    "CREATE TABLE free (id INT PRIMARY KEY)",
    "CREATE VIEW v AS SELECT * FROM t",
    "CREATE TRIGGER fires AFTER INSERT ON free FOR EACH ROW INSERT INTO t VALUES (NEW.id + 1000)",
    "CREATE FUNCTION f(x INT) RETURNS INT DETERMINISTIC MODIFIES SQL DATA "
    "BEGIN INSERT INTO t VALUES (x); RETURN 1; END",
    "CREATE PROCEDURE p(x INT) MODIFIES SQL DATA INSERT INTO t VALUES (x)",
]

STATEMENTS = {
    "INSERT INTO t VALUES (1)": {0},
    "INSERT INTO t SELECT id + 1 FROM u": {0, 1},
    "UPDATE t JOIN u ON t.id = u.id + 7 SET t.id = 3": {0, 1},
    "CALL p(1)": {0},
    "SELECT f(1)": {0, 1},
    "DO f(1)": {0, 1},
    "SET @x = f(1)": {0, 1},
    "INSERT INTO free VALUES (1)": {0, 1},
    "UPDATE v SET id = 8 WHERE id = 7": {0, 1},
}
"""And the bindings of t and u that they may have changed."""


def in_statement_format(database: Database, *statements: str) -> None:
    run(database, "SET binlog_format = STATEMENT", *statements)


@pytest.mark.parametrize("statement", STATEMENTS)
def test_what_a_statement_may_have_changed_is_set_aside(binlog_database: Database, statement: str) -> None:
    run(binlog_database, *TABLES, "INSERT INTO t VALUES (7)", "INSERT INTO u VALUES (0), (77)")
    with captured_log(binlog_database, "t", "u") as log:
        in_statement_format(binlog_database, statement)
        assert log.read() == []
        assert log.set_aside.keys() == STATEMENTS[statement]
        error = next(iter(log.set_aside.values()))
        assert error.code == "TM-MY-045" and f"{binlog_database.name}." in error.message
        assert "VALUES" not in error.message  # Values of rows, perhaps.


def test_a_database_that_is_named(binlog_database: Database) -> None:
    """From another default database."""
    run(binlog_database, *TABLES)
    with captured_log(binlog_database, "t", "u") as log:
        in_statement_format(binlog_database, "USE mysql", f"SELECT {binlog_database.name}.f(1)")
        log.read()
        assert log.set_aside.keys() == {0, 1}
    with captured_log(binlog_database, "t", "u") as log:
        in_statement_format(binlog_database, "USE mysql", f"INSERT INTO {binlog_database.name}.u VALUES (5)")
        log.read()
        assert log.set_aside.keys() == {1}


def test_a_warning_and_nothing_else(binlog_database: Database, caplog: pytest.LogCaptureFixture) -> None:
    run(binlog_database, *TABLES)
    with captured_log(binlog_database, "t", on_statement="warn") as log:
        in_statement_format(
            binlog_database, "INSERT INTO t VALUES (1)", "SET binlog_format = ROW", "INSERT INTO t VALUES (2)"
        )
        assert plain(log.read()) == [("c", {"id": 2})]
        assert not log.set_aside and not log.restarted
    assert [record.code for record in caplog.records if hasattr(record, "code")] == ["TM-MY-045"]


def _temporary(log: CapturedLog, database: Database, *statements: str) -> None:
    in_statement_format(database, "CREATE TEMPORARY TABLE t (id INT PRIMARY KEY, x INT)", *statements)
    assert log.read() == []
    assert not log.set_aside and not log.restarted and not log.changed and not log.away


def test_temporary_tables_touch_none(binlog_database: Database) -> None:
    run(binlog_database, *TABLES, "INSERT INTO t VALUES (7)")
    with captured_log(binlog_database, "t", "u") as log:
        _temporary(log, binlog_database, "INSERT INTO t VALUES (1, 1)", "UPDATE t SET x = 2", "DELETE FROM t")
        _temporary(log, binlog_database, "TRUNCATE TABLE t")
        _temporary(log, binlog_database, "ALTER TABLE t DROP COLUMN x, DROP PRIMARY KEY", "DROP TABLE t")
        _temporary(log, binlog_database, "INSERT INTO t SELECT id, id FROM u")
        # Their names end with their sessions, and with them.
        run(binlog_database, "INSERT INTO t VALUES (2)")
        assert plain(log.read()) == [("c", {"id": 2})]
        in_statement_format(binlog_database, "CREATE TEMPORARY TABLE t (id INT)", "DROP TABLE t", "TRUNCATE TABLE t")
        assert plain(log.read()) == [("t", {})]


def test_a_temporary_table_of_before_the_capture(binlog_database: Database) -> None:
    """The log only hints at it: to read the table again is right in any case, to empty it would not be."""
    run(binlog_database, *TABLES)
    with binlog_database.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET binlog_format = STATEMENT")
        cursor.execute("CREATE TEMPORARY TABLE t (id INT PRIMARY KEY)")
        with captured_log(binlog_database, "t") as log:
            cursor.execute("TRUNCATE TABLE t")
            assert log.read() == []
            assert log.restarted == {0}


def test_the_table_comes_back_as_it_is(binlog_database: Database) -> None:
    """And the rest of the capture goes on meanwhile; nobody has to do anything."""
    run(binlog_database, *TABLES, "INSERT INTO t VALUES (1), (2)", "INSERT INTO u VALUES (1)")
    bound = bindings(f"{binlog_database.name}.t", f"{binlog_database.name}.u")
    with session(binlog_database.config(), bound, command=COMMAND) as capture:
        capture.until(Session.done)
        in_statement_format(binlog_database, "INSERT INTO t VALUES (3)", "DELETE FROM t WHERE id = 1")
        run(binlog_database, "INSERT INTO u VALUES (2)")
        capture.until(lambda c: c.done() and c.rows(0).keys() == {(2,), (3,)} and (2,) in c.rows(1))
        assert [line["fields"]["code"] for line in capture.logs if "code" in line.get("fields", {})].count("TM-MY-045")
        run(binlog_database, "INSERT INTO t VALUES (4)")
        capture.until(lambda c: (4,) in c.rows(0))


def test_a_row_without_its_key(binlog_database: Database) -> None:
    """What ``binlog_row_image`` leaves in an event is the primary key, and the capture's is another."""
    run(
        binlog_database,
        "CREATE TABLE t (id INT PRIMARY KEY, k INT NOT NULL UNIQUE, v INT)",
        "INSERT INTO t VALUES (1, 1, 1)",
    )
    bound = bindings(f"{binlog_database.name}.t", key=["k"])
    with session(binlog_database.config(), bound, command=COMMAND) as capture:
        capture.until(Session.done)
        run(binlog_database, "SET binlog_row_image = MINIMAL", "UPDATE t SET v = 2")
        capture.until(lambda c: c.done() and c.rows(key=["k"]) == {(1,): {"id": 1, "k": 1, "v": 2}})
        run(binlog_database, "UPDATE t SET v = 3")
        capture.until(lambda c: c.rows(key=["k"]) == {(1,): {"id": 1, "k": 1, "v": 3}})
