"""``on_partition_gone: warn``: of a partition that is exchanged only the rows that came are read."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import pytest

from tests.captures.mysql.captured_log import captured_log
from tests.captures.mysql.table_chunks import run
from tests.captures.session import Session, bindings, session
from tests.conformance.test_rereads import causes
from tests.conformance.test_rereads import kept as noted
from tidemark.captures.mysql.server.session import connect
from tidemark.captures.mysql.tables.catalog import Partitions, conditions, read_tables
from tidemark.captures.mysql.tables.table_changes import PARTITION_EXCHANGED, ROWS_WITHOUT_EVENTS
from tidemark.captures.mysql.terms.config import parse_endpoint
from tidemark.testing.servers.mariadb import Database

COMMAND = [sys.executable, "-m", "tidemark.connectors.mysql"]

TABLES = (
    "CREATE TABLE t (id INT PRIMARY KEY, a INT) PARTITION BY RANGE (id) "
    "(PARTITION p0 VALUES LESS THAN (10), PARTITION P1 VALUES LESS THAN (20), PARTITION p2 VALUES LESS THAN (30))",
    "CREATE TABLE x (id INT PRIMARY KEY, a INT)",
    "INSERT INTO t VALUES (1, 1), (11, 11), (12, 12), (21, 21)",
    "INSERT INTO x VALUES (12, 0), (13, 0)",
)
EXCHANGE = "ALTER TABLE t EXCHANGE PARTITION P1 WITH TABLE x"
WARN = {"on_partition_gone": "warn"}


def test_only_the_rows_that_came_are_read(binlog_database: Database) -> None:
    run(binlog_database, *TABLES)
    config = {**binlog_database.config(), **WARN}
    with session(config, bindings(f"{binlog_database.name}.t"), command=COMMAND) as capture:
        capture.until(Session.done)
        run(binlog_database, EXCHANGE, "UPDATE t SET a = 2 WHERE id = 13", "DELETE FROM t WHERE id = 1")
        expected = {11: 11, 12: 0, 13: 2, 21: 21}
        capture.until(lambda c: {key[0]: row["a"] for key, row in c.rows().items()} == expected)
        capture.until(lambda c: c.done() and bool(noted(c, "t").get("ended")))
        assert causes(noted(capture, "t")) == {PARTITION_EXCHANGED.name: ["P1"]}
        assert capture.read() in (4 + 1, 4 + 2)  # The log may have row 13 before it is read.


@pytest.mark.parametrize(
    ("statements", "alone"),
    [
        ([EXCHANGE], True),
        (["ALTER TABLE t REORGANIZE PARTITION p0 INTO (PARTITION p0 VALUES LESS THAN (10))", EXCHANGE], False),
        ([EXCHANGE, "ALTER TABLE t DROP PARTITION p2"], True),
        ([EXCHANGE, EXCHANGE], False),
    ],
    ids=["alone", "after another", "before another", "and back"],
)
def test_what_is_known_of_the_partition(binlog_database: Database, statements: Sequence[str], alone: bool) -> None:
    """The log lags: the catalog is that of after all statements, once one of them has it read again."""
    run(binlog_database, *TABLES)
    with captured_log(binlog_database, "t", **WARN) as log:
        run(binlog_database, *statements)
        log.read()
        assert log.restarted == (set() if alone else {0})
        assert set(log.causes) == {PARTITION_EXCHANGED.name} if alone else ROWS_WITHOUT_EVENTS.name in log.causes


def test_a_partition_that_is_exchanged_while_the_capture_is_stopped(binlog_database: Database) -> None:
    """What the partition was for is not known: the catalog is read when the capture opens."""
    run(binlog_database, *TABLES)
    with captured_log(binlog_database, "t", **WARN) as log:
        before: dict[str, Any] = {"cursor": str(log.log.log_position), "identity": log.source.identity()}
    run(binlog_database, EXCHANGE)
    with captured_log(binlog_database, "t", **before, **WARN) as log:
        log.read()
        assert log.restarted == {0} and log.causes == [ROWS_WITHOUT_EVENTS.name]


def test_a_condition_counts_from_where_it_was_read_on() -> None:
    """The servers ignore the case of a partition's name."""
    known = Partitions({"P1": "TRUE"}, until=10)
    assert [known.condition("p1", position) for position in (9, 10, 11)] == ["", "", "TRUE"]
    assert known.condition("p2", 11) == ""


PARTITIONED = {
    "m MEDIUMINT": ("RANGE (m)", "LESS THAN (-1)", "LESS THAN (7)", "LESS THAN MAXVALUE"),
    "i INT": ("RANGE COLUMNS (i)", "LESS THAN (0)", "LESS THAN (7)"),
    "u BIGINT UNSIGNED": ("RANGE (u)", "LESS THAN (3)", "LESS THAN (18446744073709551610)"),
    "`a``b` DATE": ("RANGE COLUMNS (`A``B`)", "LESS THAN ('2026-01-01')", "LESS THAN (MAXVALUE)"),
    "d DATETIME(3)": ("RANGE COLUMNS (d)", "LESS THAN ('2026-01-01 10:00:00.5')", "LESS THAN (MAXVALUE)"),
    "v VARCHAR(9)": ("LIST COLUMNS (v)", "IN ('A', '7', NULL)", "IN ('é', '?', '-1')"),
    "s SMALLINT": ("LIST (s)", "IN (-1, NULL)", "IN (0, 3, 7)"),
    "e INT": ("RANGE (e + 1)", "LESS THAN (3)", "LESS THAN MAXVALUE"),
}
UNKNOWN = {"u BIGINT UNSIGNED": {"p1"}, "v VARCHAR(9)": {"p1"}, "e INT": {"p0", "p1"}}
"""The catalog does not show what they are for, or it is no condition on a column."""

VALUES = (
    *("NULL", "-1", "0", "3", "7", "18446744073709551614", "'a'", "'é'", "'?'"),
    *("'2025-12-31'", "'2026-01-01 10:00:00.5'"),
)


@pytest.mark.parametrize("column", PARTITIONED)
def test_a_condition_selects_the_rows_of_the_partition(binlog_database: Database, column: str) -> None:
    by, *bounds = PARTITIONED[column]
    parts = ", ".join(f"PARTITION p{number} VALUES {bound}" for number, bound in enumerate(bounds))
    run(binlog_database, f"CREATE TABLE t ({column}) PARTITION BY {by} ({parts})")
    run(binlog_database, "SET sql_mode = ''", *(f"INSERT IGNORE INTO t VALUES ({value})" for value in VALUES))
    with closing(connect(parse_endpoint(binlog_database.config()))) as server:
        (table,) = read_tables(server, [(binlog_database.name, "t")])
        found = conditions(server, table)
        assert {f"p{number}" for number in range(len(bounds))} - found.keys() == UNKNOWN.get(column, set())
        rows = f"SELECT * FROM {binlog_database.name}.t"
        for name, condition in found.items():
            there = server.rows(f"{rows} PARTITION ({name})")
            assert there and sorted(map(str, server.rows(f"{rows} WHERE ({condition})"))) == sorted(map(str, there))
