"""Statements that change rows without events, while the table is captured: what there is downstream is what it has."""

from __future__ import annotations

import sys
from typing import Any

import pymysql
import pytest

from tests.captures.mysql.captured_log import captured_log
from tests.captures.mysql.log.test_stream import global_setting
from tests.captures.mysql.table_chunks import run
from tests.captures.session import Json, Session, bindings, session
from tidemark.captures.mysql.tables import captured_tables
from tidemark.captures.mysql.tables.bindings import bound_tables
from tidemark.captures.mysql.terms.columns import Table
from tidemark.protocol.messages import COLUMN_ID
from tidemark.testing.servers.mariadb import Database

COMMAND = [sys.executable, "-m", "tidemark.connectors.mysql"]


def _row(**columns: int | str) -> Json:
    return columns


VALUES: dict[str, tuple[list[str], list[Json]]] = {
    "given and converted": (
        ["ALTER TABLE t ADD COLUMN c INT NOT NULL DEFAULT 7, MODIFY a VARCHAR(9)"],
        [_row(id=n, a=str(n), b=-1, c=7) for n in (1, 2)],
    ),
    "cut": (
        ["SET sql_mode = ''", "ALTER TABLE t MODIFY b TINYINT UNSIGNED"],
        [_row(id=n, a=n, b=0) for n in (1, 2)],
    ),
}
"""What follows from definitions: also where the statement is read when the table has been altered once more."""

CASES: dict[str, tuple[list[str], list[Json]]] = {
    **VALUES,
    "names swapped at once": (
        ["ALTER TABLE t CHANGE a b INT, CHANGE b a INT"],
        [_row(id=n, b=n, a=-1) for n in (1, 2)],
    ),
    "names swapped one by one": (
        ["ALTER TABLE t CHANGE a c INT", "ALTER TABLE t CHANGE b a INT", "ALTER TABLE t CHANGE c b INT"],
        [_row(id=n, b=n, a=-1) for n in (1, 2)],
    ),
    "dropped and made again": (
        ["ALTER TABLE t DROP COLUMN a", "ALTER TABLE t ADD COLUMN a INT DEFAULT 5"],
        [_row(id=n, b=-1, a=5) for n in (1, 2)],
    ),
    "rows ignored": (
        ["ALTER IGNORE TABLE t ADD UNIQUE (b)"],
        [_row(id=1, a=1, b=-1)],
    ),
    "a table that is no copy": (
        ["CREATE TABLE _t_new LIKE t", "INSERT INTO _t_new VALUES (7, 7, 7)", "RENAME TABLE t TO _t_old, _t_new TO t"],
        [_row(id=7, a=7, b=7)],
    ),
    "another key": (
        [
            "ALTER TABLE t ADD UNIQUE (a), MODIFY a INT NOT NULL",
            "ALTER TABLE t DROP PRIMARY KEY",
            "DELETE FROM t WHERE a = 2",
        ],
        [_row(id=1, a=1, b=-1)],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_there_is_downstream(binlog_database: Database, case: str) -> None:
    statements, rows = CASES[case]
    if binlog_database.is_mysql and "IGNORE" in statements[0]:
        pytest.skip("only MariaDB has it")
    run(
        binlog_database,
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)",
        "INSERT INTO t VALUES (1, 1, -1), (2, 2, -1)",
    )
    with session(binlog_database.config(), bindings(f"{binlog_database.name}.t"), command=COMMAND) as capture:
        capture.until(Session.done)
        run(binlog_database, *statements)
        expected = {(row["id"],): row for row in rows}
        capture.until(lambda c: c.done() and c.rows(whole=True) == expected)
        emptied = any(document["_meta"]["op"] == "t" for _, document in capture.documents)
        assert emptied == (case in ("rows ignored", "a table that is no copy", "another key"))


@pytest.mark.parametrize("metadata", ["FULL", "NO_LOG"])
@pytest.mark.parametrize("case", VALUES)
def test_what_an_alter_made_while_the_capture_was_away(binlog_database: Database, case: str, metadata: str) -> None:
    statements, rows = VALUES[case]
    with global_setting(binlog_database, "binlog_row_metadata", f"'{metadata}'"):
        run(
            binlog_database,
            "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)",
            "INSERT INTO t VALUES (1, 1, -1), (2, 2, -1)",
        )
        bound = bindings(f"{binlog_database.name}.t")
        with session(binlog_database.config(), bound, stop=True, command=COMMAND) as first:
            assert first.finish() == 0, first.last_words()
        run(binlog_database, *statements)
        with session(binlog_database.config(), bound, first.state, stop=True, command=COMMAND) as second:
            assert second.finish() == 0, second.last_words()
        assert all(document["_meta"]["op"] == "c" for _, document in second.documents)
        assert second.rows() == {(row["id"],): row for row in rows}
        # What changes no value has nothing read again, also when it is not known from the catalog alone.
        run(binlog_database, "ALTER TABLE t ADD COLUMN d INT", "ALTER TABLE t COMMENT 'why'", "CREATE INDEX i ON t (a)")
        with session(binlog_database.config(), bound, second.state, stop=True, command=COMMAND) as third:
            assert third.finish() == 0, third.last_words()
        assert third.documents == []


@pytest.mark.parametrize(
    ("todo", "again"),
    [
        (["ALTER TABLE t ADD COLUMN c INT NOT NULL DEFAULT 7"], False),
        (["ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a"], False),
        (VALUES["cut"][0], True),
    ],
)
def test_an_alter_while_the_catalog_is_asked_after_an_earlier_one(
    binlog_database: Database, monkeypatch: pytest.MonkeyPatch, todo: list[str], again: bool
) -> None:
    """The catalog has it, and the end of the log that was asked before does not."""
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)", "INSERT INTO t VALUES (1, 1, -1)")
    with captured_log(binlog_database, "t") as log:
        run(binlog_database, "CREATE INDEX i ON t (a)")
        asked: list[Any] = []

        def ask_meanwhile(*arguments: Any) -> list[Table | None]:
            if not asked:
                run(binlog_database, *todo)
            asked.append(arguments)
            return bound_tables(*arguments)

        monkeypatch.setattr(captured_tables, "bound_tables", ask_meanwhile)
        log.read()
        log.read()
        assert asked and log.to_read_again == ({0} if again else set())
        names = {name: part[COLUMN_ID] for name, part in log.schemas[-1]["properties"].items() if name != "_meta"}
        if "RENAME" in todo[0]:
            assert names == {"id": "id", "b": "a", "a": "b"}
        else:
            assert names == {name: name for name in ("id", "a", "b", "c")[: 4 - again]}


@pytest.mark.parametrize("engine", ["InnoDB", "MyISAM"])
@pytest.mark.parametrize(
    ("kind", "value", "to"),
    [
        ("INT", "NULL", "INT NOT NULL"),
        ("INT", "NULL", "INT NOT NULL DEFAULT 5"),
        ("INT", "-1", "INT UNSIGNED"),
        ("INT", "70000", "SMALLINT"),
        ("DECIMAL(10, 2)", "12345.67", "DECIMAL(4, 2)"),
        ("BIT(9)", "300", "BIT(2)"),
        ("TINYTEXT CHARACTER SET latin1", "REPEAT('ä', 200)", "TINYTEXT CHARACTER SET utf8mb4"),
    ],
)
def test_what_a_strict_session_is_refused(
    binlog_database: Database, engine: str, kind: str, value: str, to: str
) -> None:
    """So that such an ALTER that is in the log has changed no value."""
    run(
        binlog_database,
        f"CREATE TABLE t (id INT PRIMARY KEY, a {kind}) ENGINE = {engine}",
        f"INSERT INTO t VALUES (1, {value})",
    )
    for mode in ("STRICT_TRANS_TABLES", "STRICT_ALL_TABLES"):
        with pytest.raises(pymysql.Error):
            run(binlog_database, f"SET sql_mode = '{mode}'", f"ALTER TABLE t MODIFY a {to}")


def test_a_sign_that_is_changed_unlogged(mariadb_database: Database) -> None:
    """Neither the statement nor the sign is in the log: a number beyond the old range would be a negative one."""
    with global_setting(mariadb_database, "binlog_row_metadata", "'NO_LOG'"):
        run(mariadb_database, "CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1)")
        with session(mariadb_database.config(), bindings(f"{mariadb_database.name}.t"), command=COMMAND) as capture:
            capture.until(Session.done)
            run(mariadb_database, "INSERT INTO t VALUES (2, 2)")
            capture.until(lambda c: (2,) in c.rows())
            run(
                mariadb_database,
                "SET sql_log_bin = 0",
                "ALTER TABLE t MODIFY v INT UNSIGNED",
                "SET sql_log_bin = 1",
                "INSERT INTO t VALUES (3, 4000000000)",
            )
            expected = {(1,): 1, (2,): 2, (3,): 4_000_000_000}
            capture.until(lambda c: c.done() and {key: row["v"] for key, row in c.rows().items()} == expected)
