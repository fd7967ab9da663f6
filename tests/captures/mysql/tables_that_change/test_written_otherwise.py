"""Statements that change rows without events, written in ways that a session's mode or the server's dialect allows.

What there is downstream is what a capture that begins afterwards reads.
"""

from __future__ import annotations

import sys

from tests.captures.mysql.table_chunks import run
from tests.captures.session import Json, Rows, Session, bindings, session
from tidemark.testing.servers.mariadb import Database

COMMAND = [sys.executable, "-m", "tidemark.connectors.mysql"]

BOTH: dict[str, list[str]] = {
    "no_backslash_escapes": [
        "SET sql_mode = 'NO_BACKSLASH_ESCAPES'",
        r"ALTER TABLE {t} COMMENT 'c:\', ADD COLUMN c INT DEFAULT 7",
    ],
    "no_backslash_escapes_in_a_name": [
        "SET sql_mode = 'NO_BACKSLASH_ESCAPES'",
        r"ALTER TABLE {t} MODIFY v VARCHAR(20) COMMENT '\', MODIFY a VARCHAR(20) COMMENT '\'",
    ],
    "ansi_quotes": ["SET sql_mode = 'ANSI_QUOTES'", 'ALTER TABLE "{t}" CHANGE "a" "b" INT, CHANGE "b" "a" INT'],
    "ansi_quotes_renames": [
        "SET sql_mode = 'ANSI_QUOTES'",
        'CREATE TABLE "{t}_n" LIKE "{t}"',
        "INSERT INTO {t}_n VALUES (9, 9, 9, 'n')",
        'RENAME TABLE "{t}" TO "{t}_o", "{t}_n" TO "{t}"',
    ],
    "executable_comment": ["ALTER TABLE {t} /*!50100 ADD COLUMN c INT */ /*!50100 DEFAULT 7 */"],
    "executable_comment_around_all": ["/*!50100 ALTER TABLE {t} ADD COLUMN c INT DEFAULT 7 */"],
    "comments_between": ["ALTER /* a */ TABLE -- the table\n {t} # it\n ADD c INT /* null */ DEFAULT 7"],
    "partition_behind_a_comment": [
        "ALTER TABLE {t} PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (2), PARTITION q VALUES LESS THAN (9))",
        "--\nALTER TABLE {t} --\nDROP PARTITION p",
    ],
    "truncated_behind_a_comment": ["--\n--\nTRUNCATE TABLE {t}"],
    "renamed_behind_a_comment": [
        "CREATE TABLE {t}_n LIKE {t}",
        "INSERT INTO {t}_n VALUES (9, 9, 9, 'n')",
        "--\t\nRENAME TABLE {t} TO {t}_o, --\n{t}_n TO {t}",
    ],
    "added_behind_a_comment": ["--\r\nALTER TABLE {t} --\r\nADD c INT NOT NULL --\r\nDEFAULT 7"],
    "quoted_backtick": ["ALTER TABLE `{t}` ADD COLUMN `c``d` INT DEFAULT 7"],
    "expression_default": ["ALTER TABLE {t} ADD COLUMN c INT DEFAULT (3 + 4)"],
    "a_timestamp_now": ["ALTER TABLE {t} ADD COLUMN c TIMESTAMP DEFAULT CURRENT_TIMESTAMP"],
    "exchanged": [
        "ALTER TABLE {t} PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10))",
        "CREATE TABLE {t}_x LIKE {t}",
        "ALTER TABLE {t}_x REMOVE PARTITIONING",
        "INSERT INTO {t}_x VALUES (8, 8, 8, 'x')",
        "ALTER TABLE {t} EXCHANGE PARTITION p0 WITH TABLE {t}_x",
    ],
    "a_join": ["SET binlog_format = STATEMENT", "UPDATE {t} AS one JOIN {t} AS two USING (id) SET one.a = two.a + 70"],
    "called": [
        "CREATE PROCEDURE {t}_p() UPDATE {t} SET a = 71",
        "SET binlog_format = STATEMENT",
        "CALL {t}_p()",
    ],
    "truncated_without_table": ["TRUNCATE {t}"],
    "dropped_in_plural": [
        "DROP TABLES {t}",
        "CREATE TABLE {t} (id INT PRIMARY KEY, a INT)",
        "INSERT INTO {t} VALUES (5, 5)",
    ],
}
MARIADB: dict[str, list[str]] = {
    "mariadbs_comment": ["ALTER TABLE {t} /*M!100000 ADD COLUMN c INT DEFAULT 7 */"],
    "set_statement": ["SET STATEMENT binlog_format = 'STATEMENT' FOR UPDATE {t} SET a = 70"],
    "unless_it_is_there": ["ALTER TABLE IF EXISTS {t} ADD COLUMN IF NOT EXISTS c INT DEFAULT 7"],
    "renames_that_wait": [
        "CREATE TABLE {t}_n LIKE {t}",
        "INSERT INTO {t}_n VALUES (9, 9, 9, 'n')",
        "RENAME TABLE IF EXISTS {t} WAIT 5 TO {t}_o, {t}_n NOWAIT TO {t}",
    ],
    "replaced_by_a_select": ["CREATE OR REPLACE TABLE {t} (PRIMARY KEY (id)) SELECT 5 AS id, 5 AS a"],
    "oracles_mode": ["SET sql_mode = 'ORACLE'", "ALTER TABLE \"{t}\" ADD COLUMN c VARCHAR2(9) DEFAULT '7'"],
    "executed": ["EXECUTE IMMEDIATE 'ALTER TABLE {t} ADD COLUMN c INT DEFAULT 7'"],
}


MYSQL: dict[str, list[str]] = {
    "with_before_update": [
        "SET binlog_format = STATEMENT",
        "WITH x AS (SELECT 1 AS n) UPDATE {t} SET a = 70 WHERE id IN (SELECT n FROM x)",
    ],
    "engine_without_rows": ["ALTER TABLE {t} ENGINE = BLACKHOLE", "ALTER TABLE {t} ENGINE = InnoDB"],
    "engine_among_options": ["ALTER TABLE {t} COMMENT 'a' ENGINE BLACKHOLE", "ALTER TABLE {t} ENGINE = InnoDB"],
}


def written(database: Database) -> dict[str, list[str]]:
    return {**BOTH, **(MYSQL if database.is_mysql else MARIADB)}


def make(database: Database) -> list[Json]:
    cases = written(database)
    for table in cases:
        run(
            database,
            f"CREATE TABLE {table} (id INT PRIMARY KEY, a INT, b INT, v VARCHAR(9))",
            f"INSERT INTO {table} VALUES (1, 1, -1, 'v'), (2, 2, -2, 'v')",
        )
    return bindings(*(f"{database.name}.{table}" for table in cases))


def change(database: Database) -> None:
    for table, statements in written(database).items():
        run(database, *(statement.format(t=table) for statement in statements))


def rows(capture: Session, tables: int) -> list[Rows]:
    """What documents have of the columns that there are: one that is gone stays in rows that no event came of."""
    return [capture.rows(binding) for binding in range(tables)]


def until_as_a_new_capture(capture: Session, database: Database, bound: list[Json]) -> None:
    with session({**database.config(), "server_id": 4711}, bound, stop=True, command=COMMAND) as fresh:
        assert fresh.finish() == 0, fresh.last_words()
        expected = rows(fresh, len(bound))
    try:
        capture.until(lambda c: c.done() and rows(c, len(bound)) == expected, 60)
    except AssertionError:
        found = dict(zip(written(database), zip(rows(capture, len(bound)), expected, strict=True), strict=True))
        assert {table: both for table, both in found.items() if both[0] != both[1]} == {}
        raise


def test_while_they_are_captured(binlog_database: Database) -> None:
    bound = make(binlog_database)
    with session(binlog_database.config(), bound, command=COMMAND) as capture:
        capture.until(Session.done)
        change(binlog_database)
        until_as_a_new_capture(capture, binlog_database, bound)


def test_while_the_capture_is_away(binlog_database: Database) -> None:
    bound = make(binlog_database)
    with session(binlog_database.config(), bound, stop=True, command=COMMAND) as first:
        assert first.finish() == 0, first.last_words()
    change(binlog_database)
    with session(binlog_database.config(), bound, first.state, command=COMMAND) as second:
        second.documents = first.documents + second.documents
        until_as_a_new_capture(second, binlog_database, bound)
