"""What a connector holds in memory while the log has transactions and rows that are large."""

from __future__ import annotations

import os
import sys

import pytest

from tests.captures.mysql.captured_log import captured_log
from tests.captures.mysql.log.test_stream import global_setting
from tests.captures.mysql.table_chunks import run, table_chunks
from tests.captures.readers.test_memory import watched
from tests.captures.session import bindings, cold, session
from tidemark.captures.tables.bad_values import BadValues
from tidemark.testing.servers.mariadb import Database

COMMAND = [sys.executable, "-m", "tidemark.connectors.mysql"]
MIB = 1024 * 1024

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the C library decides what stays")


def held_while(database: Database, table: str, *statements: tuple[str, list[bytes]]) -> int:
    """The most that a connector holds while it reads one transaction of these statements.

    Some 150 MB of it are there without them: pages that its processes share count once for each.
    """
    with session(database.config(), bindings(f"{database.name}.{table}"), command=cold(COMMAND)) as capture:
        capture.until(lambda s: s.done())
        with watched(capture) as held:
            with database.connect(autocommit=False) as connection, connection.cursor() as cursor:
                if database.is_mysql:
                    cursor.execute("SET binlog_transaction_compression = ON")
                for statement, values in statements:
                    cursor.execute(statement, values)
                connection.commit()
            skimmed = capture.skim(b'"id":0,')
        assert skimmed.documents >= len(statements) - 1
    return max(held)


def test_a_compressed_transaction(mysql_database: Database) -> None:
    """Of 100 MB after its compression: it is decompressed as it arrives, and never held as a whole."""
    run(mysql_database, "CREATE TABLE t (id INT PRIMARY KEY, b LONGBLOB)")
    rows = [(f"INSERT INTO t VALUES ({number}, %s)", [os.urandom(MIB)]) for number in range(99, -1, -1)]
    assert held_while(mysql_database, "t", *rows) < 210 * MIB


def test_a_row_of_thirty_mebibytes(binlog_database: Database) -> None:
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY, b LONGTEXT CHARACTER SET latin1)")
    with global_setting(binlog_database, "max_allowed_packet", str(256 * MIB)):
        held = held_while(
            binlog_database,
            "t",
            (f"INSERT INTO t VALUES (1, REPEAT(%s, {3 * MIB}))", [b"0123456789"]),
            ("INSERT INTO t VALUES (0, 'x')", []),
        )
    assert held < 290 * MIB


def test_a_row_that_is_too_large_is_named(binlog_database: Database) -> None:
    """A blob of 50 MiB is more than a line holds, in base64."""
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY, b LONGBLOB)")
    with global_setting(binlog_database, "max_allowed_packet", str(256 * MIB)):
        with captured_log(binlog_database, "t") as log:
            run(binlog_database, f"INSERT INTO t VALUES (7, REPEAT('x', {50 * MIB}))")
            log.read()
            logged = log.set_aside[0]
        with table_chunks(binlog_database, "t") as chunks, pytest.raises(BadValues) as caught:
            chunks.read()
    for error in (logged, caught.value):
        assert error.code == "TM-CAP-020" and f"{binlog_database.name}.t: column b" in error.message
        assert "the row with key 7" in error.message
