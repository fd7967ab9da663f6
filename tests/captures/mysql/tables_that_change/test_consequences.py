"""The list of docs/mysql.md: what follows from each change of a table, on both servers, with and without names."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from logging import LogRecord
from pathlib import Path
from typing import Any

import pytest

from tests.captures.changes_page import kept, markdown
from tests.captures.mysql.captured_log import CapturedLog, captured_log
from tests.captures.mysql.chunks import test_keyless_tables, test_xa_backfill
from tests.captures.mysql.log import test_damaged_rows, test_mysql_log
from tests.captures.mysql.log.test_stream import global_setting
from tests.captures.mysql.table_chunks import run
from tests.captures.session import bindings, session
from tests.conformance.test_rereads import causes as causes_of
from tests.conformance.test_rereads import kept as noted
from tidemark.captures.contract import causes
from tidemark.captures.contract.table_changes import Cause, Consequence, TableChange
from tidemark.captures.mysql.statements.keeping_clauses import KEEPING
from tidemark.captures.mysql.tables import table_changes
from tidemark.captures.mysql.tables.table_changes import CHANGES
from tidemark.protocol.environment import RUNTIME
from tidemark.testing.servers.mariadb import Database

COMMAND = [sys.executable, "-m", "tidemark.connectors.mysql"]

TABLE = (
    "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, u INT NOT NULL, secret INT, v VARCHAR(20) CHARACTER SET latin1, "
    "e ENUM('x', 'y'), g INT AS (b + 1) VIRTUAL, pad CHAR(9))"
)
PARTITIONED = (
    f"{TABLE} PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (99))"
)
EXCHANGED = [
    PARTITIONED,
    "CREATE TABLE x LIKE t",
    "ALTER TABLE x REMOVE PARTITIONING",
    "ALTER TABLE t EXCHANGE PARTITION p0 WITH TABLE x",
]
COMPARED = f"{TABLE.removesuffix(')')}, same INT AS (v = 'X') STORED)"
SWAP = ["CREATE TABLE other LIKE t", "RENAME TABLE t TO old, other TO t"]

EXAMPLES: dict[TableChange, list[list[str]]] = {
    table_changes.COLUMNS: [
        ["ALTER TABLE t ADD COLUMN c INT"],
        ["ALTER TABLE t DROP COLUMN a"],
        ["ALTER TABLE t MODIFY a BIGINT FIRST"],
        ["ALTER TABLE t ADD (c TEXT, d INT DEFAULT NULL)"],
        ["ALTER TABLE t ADD COLUMN c INT DEFAULT NULL CHECK (c IS NOT NULL)"],
        ["ALTER TABLE t MODIFY v VARCHAR(30) CHARACTER SET utf8mb4 COMMENT 'longer'", "ALTER TABLE t MODIFY v TEXT"],
        ["ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4"],
        ["ALTER TABLE t MODIFY e ENUM('z', 'y', 'x')"],
        ["ALTER TABLE t MODIFY a INT NOT NULL", "ALTER TABLE t MODIFY a SMALLINT"],
        ["ALTER TABLE t MODIFY g INT AS (b + 1) VIRTUAL COMMENT 'the same'"],
    ],
    table_changes.NO_VALUES: [
        ["CREATE INDEX i ON t (a)", "ALTER TABLE t ADD INDEX j (b), COMMENT 'ADD c INT', FORCE", "DROP INDEX i ON t"],
        ["ALTER TABLE t ALTER a SET DEFAULT 7, ALTER b DROP DEFAULT", "ALTER TABLE t MODIFY a INT COMMENT 'why'"],
        [PARTITIONED, "ALTER TABLE t ADD PARTITION (PARTITION p2 VALUES LESS THAN (200))"],
    ],
    table_changes.EXCLUDED_DROPPED: [["ALTER TABLE t DROP COLUMN secret"]],
    table_changes.COLUMN_CONSTANT: [
        ["INSERT INTO t (id, u) VALUES (1, 1)", "ALTER TABLE t ADD COLUMN c INT DEFAULT 7"],
        ["ALTER TABLE t ADD COLUMN c INT NOT NULL"],
    ],
    table_changes.COLUMN_FOLLOWED: [
        ["ALTER TABLE t CHANGE a secret INT, CHANGE secret a INT"],
        ["ALTER TABLE t CHANGE a c INT"],
        ["ALTER TABLE t DROP COLUMN a, ADD COLUMN a INT"],
        ["ALTER TABLE t DROP COLUMN a", "ALTER TABLE t ADD COLUMN a INT"],
    ],
    table_changes.COLUMN_VALUES: [
        ["ALTER TABLE t ADD COLUMN c DATETIME DEFAULT CURRENT_TIMESTAMP"],
        ["ALTER TABLE t MODIFY a VARCHAR(20)"],
        ["ALTER TABLE t ADD COLUMN c INT AS (a + 1) STORED"],
        ["ALTER TABLE t MODIFY g INT AS (b + 2) VIRTUAL"],
        ["SET sql_mode = ''", "ALTER TABLE t MODIFY a INT NOT NULL"],
        ["SET sql_mode = ''", "ALTER TABLE t MODIFY a SMALLINT"],
        ["SET sql_mode = ''", "ALTER TABLE t MODIFY v VARCHAR(5) CHARACTER SET latin1"],
        ["ALTER TABLE t CONVERT TO CHARACTER SET ascii"],
        ["ALTER TABLE t MODIFY e ENUM('x', 'renamed')"],
        ["ALTER TABLE t ADD COLUMN s SERIAL"],
        ["ALTER TABLE t ADD UNIQUE (u)", "ALTER TABLE t MODIFY u INT NOT NULL AUTO_INCREMENT"],
        ["ALTER TABLE t ADD COLUMN ts TIMESTAMP NULL", "ALTER TABLE t MODIFY ts TIMESTAMP NOT NULL DEFAULT now()"],
        ["SET sql_mode = 'STRICT_ALL_TABLES,PAD_CHAR_TO_FULL_LENGTH'", "ALTER TABLE t MODIFY pad VARCHAR(9)"],
        [COMPARED, "ALTER TABLE t MODIFY v VARCHAR(20) CHARACTER SET latin1 COLLATE latin1_bin"],
        ["ALTER TABLE t MODIFY b BIGINT"],
    ],
    table_changes.KEY_VALUES: [
        ["ALTER TABLE t DROP PRIMARY KEY, DROP id, ADD id INT NOT NULL AUTO_INCREMENT, ADD PRIMARY KEY (id)"],
        ["ALTER TABLE t MODIFY id INT AUTO_INCREMENT"],
        ["ALTER TABLE t CHANGE id u INT NOT NULL, CHANGE u id INT NOT NULL, DROP PRIMARY KEY, ADD PRIMARY KEY (id)"],
    ],
    table_changes.NOT_UNDERSTOOD: [
        ["ALTER TABLE t INSERT_METHOD = NO"],
        ["ALTER TABLE t ADD dx DATE NOT NULL, ADD dy DATE NOT NULL", "ALTER TABLE t ADD PERIOD FOR p (dx, dy)"],
    ],
    table_changes.INCLUDED: [["SELECT 1"]],
    table_changes.KEY: [
        ["ALTER TABLE t MODIFY id BIGINT"],
        ["ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (u)"],
        ["CREATE UNIQUE INDEX i ON t (u)", "ALTER TABLE t DROP PRIMARY KEY"],
    ],
    table_changes.ROWS_WITHOUT_EVENTS: [
        ["ALTER IGNORE TABLE t ADD UNIQUE (a)"],
        ["REPAIR TABLE t"],
        [PARTITIONED, "ALTER TABLE t TRUNCATE PARTITION p0"],
        EXCHANGED,
    ],
    table_changes.PARTITION_REMOVED: [
        [PARTITIONED, "ALTER TABLE t DROP PARTITION p0"],
        [PARTITIONED, "ALTER TABLE t --\nDROP PARTITION p0"],
    ],
    table_changes.PARTITION_GONE: [[PARTITIONED, "ALTER TABLE t DROP PARTITION p0"]],
    table_changes.PARTITION_EXCHANGED: [EXCHANGED],
    table_changes.MADE_AGAIN: [
        SWAP,
        ["CREATE TABLE _t_gho LIKE t", "RENAME TABLE t TO _t_del, _t_gho TO t"],
        ["DROP TABLE t", TABLE],
        ["CREATE TABLE other LIKE t", "ALTER TABLE t RENAME old", "ALTER TABLE other RENAME t"],
        ["CREATE OR REPLACE TABLE t (id INT PRIMARY KEY, u INT NOT NULL)"],
    ],
    table_changes.WITHOUT_A_STATEMENT: [
        [
            "INSERT INTO t (id, u) VALUES (1, 1)",
            "SET sql_log_bin = 0",
            "ALTER TABLE t MODIFY a INT UNSIGNED",
            "SET sql_log_bin = 1",
            "INSERT INTO t (id, u) VALUES (2, 2)",
        ]
    ],
    table_changes.UNKNOWN_ROWS: [["ALTER TABLE t MODIFY a BIGINT", "ALTER TABLE t MODIFY a INT"]],
    table_changes.TRUNCATED: [["TRUNCATE TABLE t"]],
    table_changes.TEMPORARY: [
        [
            "SET binlog_format = STATEMENT",
            "CREATE TEMPORARY TABLE t (id INT PRIMARY KEY)",
            "INSERT INTO t VALUES (1)",
            "UPDATE t SET id = 2",
            "DELETE FROM t",
            "TRUNCATE TABLE t",
            "ALTER TABLE t CHANGE id a INT",
            "DROP TABLE t",
            "SET binlog_format = ROW",
        ],
    ],
    table_changes.ABSENT: [
        ["DROP TABLE t"],
        ["RENAME TABLE t TO elsewhere"],
        ["DROP DATABASE {database}", "CREATE DATABASE {database}"],
    ],
    table_changes.STORAGE: [["ALTER TABLE t ADD SYSTEM VERSIONING"]],
    table_changes.NO_KEY: [["ALTER TABLE t DROP PRIMARY KEY"]],
    table_changes.RESERVED_NAME: [["ALTER TABLE t ADD COLUMN _meta INT"]],
    table_changes.STATEMENT_WITHOUT_ROWS: [["SET binlog_format = STATEMENT", "INSERT INTO t (id, u) VALUES (1, 1)"]],
    table_changes.ROW_WITHOUT_KEY: [["SET binlog_row_image = MINIMAL", "UPDATE t SET b = 1"]],
}

OPTIONS: dict[TableChange, dict[str, Any]] = {
    table_changes.EXCLUDED_DROPPED: {"exclude": ["secret"]},
    table_changes.PARTITION_GONE: {"on_partition_gone": "warn"},
    table_changes.PARTITION_EXCHANGED: {"on_partition_gone": "warn"},
    table_changes.ROW_WITHOUT_KEY: {"key": ["u"]},
}

TOGETHER = (table_changes.MADE_AGAIN, table_changes.UNKNOWN_ROWS)
"""What is read once all of it has happened."""

WITHOUT_NAMES = (table_changes.UNKNOWN_ROWS,)
"""What only happens where the log does not name columns."""

ONLY_MARIADB = ("ALTER IGNORE", "CREATE OR REPLACE", "ADD SYSTEM VERSIONING", "PERIOD FOR")


def followed(log: CapturedLog, logged: Iterable[LogRecord]) -> tuple[Consequence, str]:
    """The greatest of what follows, and the code of the error or warning."""
    if log.set_aside:
        return Consequence.SET_ASIDE, log.set_aside[0].code
    if log.restarted:  # Perhaps after it was away for a moment.
        return Consequence.EMPTIED, ""
    if log.away:
        return Consequence.SET_ASIDE, log.away[0].code
    if log.to_read_again or log.source.tables[0].captured_otherwise:
        return Consequence.READ_AGAIN, ""
    codes = [code for record in logged if (code := getattr(record, "code", ""))]
    if log.causes:
        return Consequence.PART_READ, codes[0]
    return (Consequence.WARNED, codes[0]) if codes else (Consequence.NOTHING, "")


def test_every_row_has_a_test() -> None:
    assert EXAMPLES.keys() | ELSEWHERE.keys() == set(CHANGES)
    assert len({change.name for change in CHANGES}) == len(CHANGES)


def test_each_reread_has_a_way_to_avoid_it() -> None:
    reread = [change for change in CHANGES if Consequence.WARNED < change.consequence < Consequence.SET_ASIDE]
    assert [change.name for change in reread if not change.avoid.endswith(".")] == [] and len(reread) > 10
    # What has one name here and in the list that databases share is one thing.
    shared = {cause.name: cause for cause in vars(causes).values() if isinstance(cause, Cause)}
    both = [(change.cause(), shared[change.name]) for change in reread if change.name in shared]
    assert [(one, other) for one, other in both if one != other] == [] and len(both) > 4


def test_the_page_shows_the_list() -> None:
    page = Path("docs/mysql.md").read_text()
    assert markdown(CHANGES) in page and kept(KEEPING) in page


@pytest.mark.drawn(30)
@pytest.mark.parametrize("metadata", ["FULL", "NO_LOG"])
@pytest.mark.parametrize("change", EXAMPLES, ids=[change.name for change in EXAMPLES])
def test_what_follows(
    binlog_database: Database, change: TableChange, metadata: str, caplog: pytest.LogCaptureFixture
) -> None:
    database = binlog_database
    if metadata == "FULL" and change in WITHOUT_NAMES:
        pytest.skip("it only happens where the log does not name columns")
    with global_setting(database, "binlog_row_metadata", f"'{metadata}'"):
        ran = False
        for example in EXAMPLES[change]:
            statements = [statement.format(database=database.name) for statement in example]
            if database.is_mysql and any(part in statement for part in ONLY_MARIADB for statement in statements):
                continue
            made = statements.pop(0) if statements[0] in (PARTITIONED, COMPARED) else TABLE
            run(database, "DROP TABLE IF EXISTS t, other, old, elsewhere, x, _t_gho, _t_del", made)
            if change is table_changes.ROW_WITHOUT_KEY:
                # Its key is not the primary key, and MySQL logs no more than that.
                run(database, "CREATE UNIQUE INDEX i ON t (u)", "INSERT INTO t (id, u) VALUES (1, 1)")
            before: dict[str, Any] = {}
            if change is table_changes.INCLUDED:
                with captured_log(database, "t", exclude=["a"]) as log:
                    before = {"cursor": str(log.log.log_position), "identity": log.source.identity()}
            with captured_log(database, "t", **OPTIONS.get(change, {}), **before) as log:
                caplog.clear()
                with database.connect() as connection, connection.cursor() as cursor:
                    for statement in statements:
                        cursor.execute(statement)
                        if change not in TOGETHER:
                            log.read()
                log.read()
                log.read_once()
                ran = True
                assert followed(log, caplog.records) == (change.consequence, change.code), example
                if log.causes:
                    assert change.name in log.causes, (example, log.causes)
        if not ran:
            pytest.skip("only MariaDB has it")


@pytest.mark.parametrize(
    "change",
    [table_changes.COLUMN_CONSTANT, table_changes.COLUMN_FOLLOWED],
    ids=lambda change: change.name,
)
def test_what_follows_under_another_runtime(
    binlog_database: Database, change: TableChange, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It knows nothing of constants and identities."""
    monkeypatch.delenv(RUNTIME)
    for example in EXAMPLES[change]:
        run(binlog_database, "DROP TABLE IF EXISTS t", TABLE)
        with captured_log(binlog_database, "t") as log:
            for statement in example:
                run(binlog_database, statement)
                log.read()
            assert followed(log, ()) == (Consequence.READ_AGAIN, ""), example
            assert set(log.causes) == {table_changes.COLUMN_VALUES.name}


def test_a_table_that_is_captured_from_its_log_only(
    binlog_database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """Its rows cannot be read again, and that is said."""
    run(binlog_database, TABLE)
    with captured_log(binlog_database, "t", scan="none") as log:
        run(binlog_database, "ALTER TABLE t ADD c INT NULL, ADD d INT DEFAULT 5")
        log.read()
    (warned,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert "t was altered at" in warned and "the values of d." in warned


def test_a_table_that_is_taken_out_of_the_capture_and_put_back(binlog_database: Database) -> None:
    """What happened to it meanwhile was passed over."""
    for table in ("t", "other"):
        run(binlog_database, f"CREATE TABLE {table} (id INT PRIMARY KEY)", f"INSERT INTO {table} VALUES (1), (2)")
    names = f"{binlog_database.name}.other", f"{binlog_database.name}.t"
    state: dict[str, Any] = {}
    documents = []
    for bound in (names, names[:1], names):
        with session(binlog_database.config(), bindings(*bound), state or None, stop=True, command=COMMAND) as capture:
            assert capture.finish() == 0, capture.last_words()
        state = capture.state
        documents += capture.documents
        run(binlog_database, "DELETE FROM t WHERE id = 1")
    capture.documents = documents
    assert capture.rows(0) == {(n,): {"id": n} for n in (1, 2)} and capture.rows(1) == {(2,): {"id": 2}}
    assert "taken_out" not in state and causes_of(noted(capture, "t")).keys() == {table_changes.PUT_BACK.name}


ELSEWHERE = {
    table_changes.PUT_BACK: test_a_table_that_is_taken_out_of_the_capture_and_put_back,
    table_changes.ROLLED_BACK: (
        test_mysql_log.test_a_transaction_that_the_server_did_not_finish_is_replaced_by_a_backfill
    ),
    table_changes.PREPARED_BEFORE: (
        test_xa_backfill.test_a_user_who_may_not_see_prepared_transactions_reads_the_table_again
    ),
    table_changes.ROW_UNREADABLE: test_damaged_rows.test_a_row_without_an_end_sets_its_table_aside,
    table_changes.COUNTED_ROWS: test_keyless_tables.test_what_a_snapshot_has_of_the_log,
}
