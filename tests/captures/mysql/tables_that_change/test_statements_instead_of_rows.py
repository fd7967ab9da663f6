"""Sessions that log statements: which captured tables they touch, and that those are read again."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from tests.captures.log_reader import plain
from tests.captures.mysql.captured_log import CapturedLog, captured_log
from tests.captures.mysql.table_chunks import run
from tests.captures.session import Session, bindings, session
from tidemark.testing.servers.mariadb import Database

COMMAND = [sys.executable, "-m", "tidemark.connectors.mysql"]

TABLES = [
    "CREATE TABLE t (id INT PRIMARY KEY)",
    "CREATE TABLE u (id INT PRIMARY KEY)",
    "CREATE TABLE free (id INT PRIMARY KEY)",
    "CREATE VIEW v AS SELECT * FROM t",
    "CREATE TRIGGER fires AFTER INSERT ON free FOR EACH ROW INSERT INTO t VALUES (NEW.id + 1000)",
    "CREATE TRIGGER goes AFTER DELETE ON free FOR EACH ROW INSERT INTO t VALUES (OLD.id + 2000)",
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
    "INSERT INTO free SELECT id + 1 FROM u": {0, 1},
    "UPDATE u JOIN free ON free.id = u.id SET free.id = 3": {0, 1},
    "UPDATE v SET id = 8 WHERE id = 7": {0, 1},
    "DELETE FROM v": {0, 1},
    "DELETE FROM free": {0, 1},
    "SELECT f(id) FROM u LIMIT 1": {0, 1},
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


def test_a_function_that_a_new_table_is_made_with(mariadb_database: Database) -> None:
    """MySQL lets none of them change rows."""
    run(mariadb_database, *TABLES)
    with captured_log(mariadb_database, "t", "u") as log:
        run(mariadb_database, "CREATE TABLE rows_are_logged SELECT * FROM t")
        log.read()
        assert not log.set_aside
        in_statement_format(mariadb_database, "CREATE TABLE made SELECT f(1) AS x")
        log.read()
        assert log.set_aside.keys() == {0, 1}


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


@pytest.mark.parametrize("how", ["a trigger", "a function", "a view"])
def test_a_database_that_only_the_server_knows_of(mysql_database: Database, how: str) -> None:
    """The statement names another one, and that is its default database; MySQL's log lists those that it uses."""
    elsewhere, name = f"{mysql_database.name}_elsewhere", mysql_database.name
    run(
        mysql_database,
        *TABLES,
        "INSERT INTO t VALUES (7)",
        f"CREATE DATABASE {elsewhere}",
        f"CREATE TABLE {elsewhere}.p (id INT PRIMARY KEY)",
        f"CREATE TRIGGER {elsewhere}.g AFTER INSERT ON {elsewhere}.p FOR EACH ROW INSERT INTO {name}.t VALUES (NEW.id)",
        f"CREATE FUNCTION {elsewhere}.g(x INT) RETURNS INT DETERMINISTIC MODIFIES SQL DATA RETURN {name}.f(x)",
        f"CREATE VIEW {elsewhere}.w AS SELECT * FROM {name}.t",
    )
    try:
        with captured_log(mysql_database, "t", "u") as log:
            statement = {
                "a trigger": "INSERT INTO p VALUES (5)",
                "a function": "SELECT g(5)",
                "a view": "UPDATE w SET id = 8",
            }
            in_statement_format(mysql_database, f"USE {elsewhere}", statement[how])
            log.read()
            assert log.set_aside.keys() == {0, 1}
    finally:
        run(mysql_database, f"DROP DATABASE {elsewhere}")


def test_a_default_database_that_is_not_used(mysql_database: Database) -> None:
    """MySQL's log says so, unless a foreign key refers to the table."""
    elsewhere = f"{mysql_database.name}_elsewhere"
    run(
        mysql_database,
        *TABLES,
        f"CREATE DATABASE {elsewhere}",
        f"CREATE TABLE {elsewhere}.p (id INT PRIMARY KEY)",
        f"CREATE TABLE {elsewhere}.referred (id INT PRIMARY KEY)",
        f"CREATE TABLE {elsewhere}.child (p INT, FOREIGN KEY (p) REFERENCES {elsewhere}.referred (id))",
    )
    try:
        with captured_log(mysql_database, "t", "u") as log:
            in_statement_format(mysql_database, f"INSERT INTO {elsewhere}.p VALUES (5)")
            log.read()
            assert not log.set_aside
            in_statement_format(mysql_database, f"INSERT INTO {elsewhere}.referred VALUES (5)")
            log.read()
            assert log.set_aside.keys() == {0, 1}
    finally:
        run(mysql_database, f"DROP DATABASE {elsewhere}")


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


@pytest.mark.parametrize("others", [[], ["CREATE TEMPORARY TABLE another (id INT)"]])
@pytest.mark.parametrize("statement", ["TRUNCATE TABLE t", "DELETE FROM t", "DROP TABLE t", "ALTER TABLE t RENAME x"])
def test_a_temporary_table_of_before_the_capture(binlog_database: Database, statement: str, others: list[str]) -> None:
    """The log only hints at it: to read the table again is right in any case, to empty it would not be."""
    run(binlog_database, *TABLES)
    with binlog_database.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET binlog_format = STATEMENT")
        cursor.execute("CREATE TEMPORARY TABLE t (id INT PRIMARY KEY)")
        with captured_log(binlog_database, "t", "u") as log:
            for each in (*others, statement):
                cursor.execute(each)
            assert log.read() == [] and not log.away
            if statement.startswith("DELETE"):
                assert log.set_aside.keys() == {0} and not log.restarted
            elif statement.startswith("DROP"):
                assert not log.restarted  # The server says that it was a temporary one.
            else:
                assert log.restarted == {0} and not log.set_aside


def test_what_is_created_is_no_temporary_table(binlog_database: Database) -> None:
    """Whatever hides its name."""
    run(binlog_database, *TABLES, "DROP TABLE u")
    with captured_log(binlog_database, "t") as log:
        run(binlog_database, "DROP TABLE t")
        log.read()
        assert log.away.keys() == {0}
        in_statement_format(
            binlog_database,
            "CREATE TEMPORARY TABLE t (id INT)",
            "CREATE TABLE IF NOT EXISTS t (id INT PRIMARY KEY)",
        )
        log.read()
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


def without_xa_recover(database: Database) -> dict[str, str]:
    """An account that may not see prepared transactions."""
    if not database.is_mysql or database.version.startswith("5."):
        pytest.skip("MySQL asks for XA_RECOVER_ADMIN since 8.0")
    user, password = f"{database.name[-20:]}_xa", "a password"
    run(
        database,
        f"CREATE USER {user}@'%' IDENTIFIED BY '{password}'",
        f"GRANT REPLICATION SLAVE, REPLICATION CLIENT, SELECT ON *.* TO {user}@'%'",
    )
    return {"user": user, "password": password}


def told(capture: Session) -> int:
    """How often it was said that there is a statement."""
    return sum(line.get("fields", {}).get("code") == "TM-MY-045" for line in capture.logs)


@pytest.fixture
def without_prepared(binlog_database: Database) -> Iterator[None]:
    """Rolls back what a test that fails has left: the database could not be dropped."""
    yield
    with binlog_database.connect() as connection, connection.cursor() as cursor:
        cursor.execute("XA RECOVER")
        for _ in cursor.fetchall():
            cursor.execute("XA ROLLBACK 'a'")


@pytest.mark.usefixtures("without_prepared")
@pytest.mark.parametrize("how", ["here", "away", "XA COMMIT ONE PHASE", "unseen"])
def test_statements_of_an_xa_transaction(binlog_database: Database, how: str) -> None:
    """What they changed is visible after XA COMMIT, of which the log says no more than the name."""
    run(binlog_database, *TABLES, "INSERT INTO t VALUES (1)")
    bound = bindings(f"{binlog_database.name}.t", f"{binlog_database.name}.u")
    config = binlog_database.config()
    statements = ["XA START 'a'", "INSERT INTO t VALUES (3)", "XA END 'a'"]
    if how == "unseen":
        config |= without_xa_recover(binlog_database)
    with session(config, bound, command=COMMAND) as capture:
        capture.until(Session.done)
        if how != "away":
            if how == "XA COMMIT ONE PHASE":
                in_statement_format(binlog_database, *statements, "XA COMMIT 'a' ONE PHASE")
            else:
                in_statement_format(binlog_database, *statements, "XA PREPARE 'a'")
                run(binlog_database, "INSERT INTO u VALUES (2)")
                capture.until(lambda c: c.done() and (2,) in c.rows(1))
                assert not told(capture)
                run(binlog_database, "XA COMMIT 'a'")
            capture.until(lambda c: c.done() and c.rows(0).keys() == {(1,), (3,)})
            assert told(capture) == 1
            return
        in_statement_format(binlog_database, *statements, "XA PREPARE 'a'")
        run(binlog_database, "INSERT INTO u VALUES (2)")
        capture.until(lambda c: c.done() and (2,) in c.rows(1))
    run(binlog_database, "XA COMMIT 'a'")
    with session(config, bound, capture.state, command=COMMAND) as again:
        again.documents[:0] = capture.documents
        again.until(lambda c: c.done() and c.rows(0).keys() == {(1,), (3,)})


@pytest.mark.usefixtures("without_prepared")
def test_statements_of_an_xa_transaction_that_is_rolled_back(binlog_database: Database) -> None:
    run(binlog_database, *TABLES)
    with captured_log(binlog_database, "t") as log:
        statements = ["XA START 'a'", "INSERT INTO t VALUES (3)", "XA END 'a'", "XA PREPARE 'a'"]
        in_statement_format(binlog_database, *statements)
        run(binlog_database, "XA ROLLBACK 'a'", "INSERT INTO t VALUES (4)")
        assert plain(log.read()) == [("c", {"id": 4})] and not log.set_aside


@pytest.mark.usefixtures("without_prepared")
def test_a_table_that_an_xa_transaction_empties(binlog_database: Database) -> None:
    run(binlog_database, *TABLES, "INSERT INTO t VALUES (1)")
    with captured_log(binlog_database, "t") as log:
        in_statement_format(binlog_database, "XA START 'a'", "DELETE FROM t", "XA END 'a'", "XA PREPARE 'a'")
        assert log.read() == []
        run(binlog_database, "XA COMMIT 'a'", "INSERT INTO t VALUES (4)")
        assert plain(log.read()) == [("t", {}), ("c", {"id": 4})] and not log.set_aside


def test_statements_while_the_capture_is_away(binlog_database: Database) -> None:
    run(binlog_database, *TABLES, "INSERT INTO t VALUES (1), (2)", "INSERT INTO u VALUES (1)")
    bound = bindings(f"{binlog_database.name}.t", f"{binlog_database.name}.u")
    with session(binlog_database.config(), bound, command=COMMAND) as first:
        first.until(Session.done)
    in_statement_format(
        binlog_database, "UPDATE t SET id = 9 WHERE id = 1", "CREATE TEMPORARY TABLE u (id INT)", "DELETE FROM u"
    )
    with session(binlog_database.config(), bound, first.state, command=COMMAND) as second:
        second.documents[:0] = first.documents
        second.until(lambda c: c.done() and c.rows(0).keys() == {(2,), (9,)})
        assert second.rows(1).keys() == {(1,)} and told(second) == 1


def test_statements_during_a_backfill(binlog_database: Database) -> None:
    rows = 2000
    run(binlog_database, *TABLES, f"INSERT INTO t SELECT seq FROM seq_1_to_{rows}")
    config = {**binlog_database.config(), "backfill": {"chunk_rows": 100}}
    with session(config, bindings(f"{binlog_database.name}.t"), command=COMMAND) as capture:
        capture.until(lambda c: len(c.documents) > 300)
        assert not capture.done()
        in_statement_format(
            binlog_database, "DELETE FROM t WHERE id <= 10", f"UPDATE t SET id = -id WHERE id > {rows - 10}"
        )
        expected = {(n,) for n in range(11, rows - 9)} | {(-n,) for n in range(rows - 9, rows + 1)}
        capture.until(lambda c: c.done() and told(c) and c.rows().keys() == expected)


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
