"""Rows of the log whose end is not known: their table is read again, and all others are captured on.

The bytes are changed in the file of a real server's log, which has no checksums meanwhile.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.captures.impatient import impatient
from tests.captures.mysql.captured_log import captured_log
from tests.captures.mysql.log.test_stream import global_setting
from tests.captures.mysql.table_chunks import run
from tests.captures.session import bindings, session
from tidemark.testing.servers.mariadb import Database

MARK = b"abcdefghijklmnopqrstuvwxyz"

TEXT = -1, b"\x1a"
"""Where the text's length stands, from the text on, and what stands there."""
COUNT = -8, b"\x02"
"""The same of the number of the rows' columns, which two bitmaps and the id follow."""


DAMAGES = {"a longer text": (TEXT, b"\xc8"), "a shorter text": (TEXT, b"\x03"), "more columns": (COUNT, b"\x03")}


def damage(database: Database, how: str) -> None:
    """Changes one byte of the row with ``MARK``, in the latest file of the log."""
    with database.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT @@log_bin_basename, @@version")
        found = cursor.fetchone()
        assert found is not None
        cursor.execute("SHOW BINARY LOGS")
        name = str(cursor.fetchall()[-1][0])
    path = Path(str(found[0])).parent / name
    if not path.exists():
        pytest.skip("the server's files are on another machine")
    (place, expected), byte = DAMAGES[how]
    with path.open("r+b") as file:
        # A statement, which the server may have written there too, comes before its rows.
        at = file.read().rindex(MARK) + place
        file.seek(at)
        assert file.read(1) == expected
        file.seek(at)
        file.write(byte)


@pytest.mark.parametrize("how", DAMAGES)
def test_a_row_without_an_end_sets_its_table_aside(binlog_database: Database, how: str) -> None:
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(60))", "CREATE TABLE other LIKE t")
    with global_setting(binlog_database, "binlog_checksum", "NONE"):
        with captured_log(binlog_database, "t", "other") as log:
            log.read()
            state = str(log.log.log_position)
        run(
            binlog_database,
            "INSERT INTO t VALUES (1, 'a')",
            f"INSERT INTO t VALUES (2, '{MARK.decode()}')",
            "INSERT INTO t VALUES (3, 'b')",
            "INSERT INTO other VALUES (4, 'c')",
        )
        damage(binlog_database, how)
        with captured_log(binlog_database, "t", "other", cursor=state) as log:
            log.read()
            assert log.ids() == [("c", 1), ("c", 4)]
            assert {binding: error.code for binding, error in log.set_aside.items()} == {0: "TM-MY-058"}
            assert "abc" not in log.set_aside[0].message


def test_the_table_comes_back_and_is_read_again(binlog_database: Database) -> None:
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(60))", "CREATE TABLE other LIKE t")
    run(binlog_database, "INSERT INTO t VALUES (1, 'a')")
    bound = bindings(f"{binlog_database.name}.t", f"{binlog_database.name}.other")
    command = impatient("tidemark.connectors.mysql")
    with global_setting(binlog_database, "binlog_checksum", "NONE"):
        with session(binlog_database.config(), bound, stop=True, command=command) as first:
            first.finish()
        run(binlog_database, f"INSERT INTO t VALUES (2, '{MARK.decode()}')", "INSERT INTO other VALUES (4, 'c')")
        damage(binlog_database, "a longer text")
        with session(binlog_database.config(), bound, first.state, command=command) as second:
            second.documents[:0] = first.documents
            expected = {(1,): {"id": 1, "v": "a"}, (2,): {"id": 2, "v": MARK.decode()}}
            second.until(lambda c: c.rows(0) == expected and c.rows(1) == {(4,): {"id": 4, "v": "c"}})
            run(binlog_database, "DELETE FROM t WHERE id = 1")
            second.until(lambda c: c.rows(0) == {(2,): {"id": 2, "v": MARK.decode()}})
