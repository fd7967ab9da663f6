"""ALTER TABLE in a session with ``sql_log_bin = 0``: what there is downstream becomes what the table has.

While the capture runs and while it is away, whether or not the log says of its rows what their columns are.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from tests.captures.mysql.log.test_stream import global_setting
from tests.captures.mysql.table_chunks import run
from tests.captures.session import Json, Session, bindings, session
from tidemark.testing.servers.mariadb import Database

COMMAND = [sys.executable, "-m", "tidemark.connectors.mysql"]


def _row(**columns: int | str) -> Json:
    return columns


CASES: dict[str, tuple[list[str], Json]] = {
    "another_sign": (["SET sql_mode = ''", "ALTER TABLE {t} MODIFY b INT UNSIGNED"], _row(id=1, a=1, b=0, v="ä")),
    "cut": (["SET sql_mode = ''", "ALTER TABLE {t} MODIFY a SMALLINT, MODIFY v CHAR(0)"], _row(id=1, a=1, b=-1, v="")),
    "converted": (["ALTER TABLE {t} MODIFY b VARCHAR(9)"], _row(id=1, a=1, b="-1", v="ä")),
    "given": (["ALTER TABLE {t} ADD COLUMN c INT NOT NULL DEFAULT 7"], _row(id=1, a=1, b=-1, v="ä", c=7)),
    "names_swapped": (["ALTER TABLE {t} CHANGE a b INT, CHANGE b a INT"], _row(id=1, b=1, a=-1, v="ä")),
    "another_one_logged_after_it": (
        [
            "SET sql_mode = ''",
            "ALTER TABLE {t} MODIFY b INT UNSIGNED",
            "SET sql_log_bin = 1",
            "ALTER TABLE {t} ADD d INT",
        ],
        _row(id=1, a=1, b=0, v="ä"),
    ),
    "one_that_is_logged_before_and_after_it": (
        [
            "SET sql_log_bin = 1",
            "ALTER TABLE {t} ADD d INT",
            "SET sql_log_bin = 0",
            "ALTER TABLE {t} ADD c INT DEFAULT 7",
            "SET sql_log_bin = 1",
            "ALTER TABLE {t} DROP d",
        ],
        _row(id=1, a=1, b=-1, v="ä", c=7),
    ),
}
"""What happens to the table of that name, and what its row is after it."""


@pytest.fixture(params=["FULL", "NO_LOG"])
def database(request: pytest.FixtureRequest, binlog_database: Database) -> Iterator[Database]:
    with global_setting(binlog_database, "binlog_row_metadata", f"'{request.param}'"):
        yield binlog_database


def make(database: Database, *tables: str) -> None:
    for table in tables:
        run(
            database,
            f"CREATE TABLE {table} (id INT PRIMARY KEY, a INT, b INT, v VARCHAR(9) CHARACTER SET latin1)",
            f"INSERT INTO {table} VALUES (1, 1, -1, 'ä')",
        )


def alter(database: Database) -> None:
    for table, (statements, _) in CASES.items():
        altered = [statement.format(t=table) for statement in statements]
        inserted = f"INSERT INTO {table} (id, a) VALUES (2, 2)"
        run(database, "SET sql_log_bin = 0", *altered, "SET sql_log_bin = 1", inserted)


def rows(capture: Session) -> dict[str, Json]:
    """The first row of each table, and the number that the second one has; nulls are left out."""
    found: dict[str, Json] = {}
    for binding, table in enumerate(CASES):
        there = capture.rows(binding)
        found[table] = {name: value for name, value in there.get((1,), {}).items() if value is not None}
        found[table]["second"] = there.get((2,), {}).get("a")
    return found


EXPECTED = {table: {**row, "second": 2} for table, (_, row) in CASES.items()}


def until_equal(capture: Session) -> None:
    try:
        capture.until(lambda c: c.done() and rows(c) == EXPECTED)
    except AssertionError:
        assert rows(capture) == EXPECTED
        raise


def until_read(capture: Session, row: int) -> None:
    capture.until(lambda c: c.done() and (row,) in c.rows())


def test_while_they_are_captured(database: Database) -> None:
    make(database, *CASES)
    with session(database.config(), bindings(*(f"{database.name}.{t}" for t in CASES)), command=COMMAND) as capture:
        capture.until(Session.done)
        for table in CASES:
            run(database, f"INSERT INTO {table} (id) VALUES (3)")
        capture.until(lambda c: all((3,) in c.rows(binding) for binding in range(len(CASES))))
        alter(database)
        until_equal(capture)


def test_while_the_capture_is_away(database: Database) -> None:
    make(database, *CASES)
    bound = bindings(*(f"{database.name}.{table}" for table in CASES))
    with session(database.config(), bound, stop=True, command=COMMAND) as first:
        assert first.finish() == 0, first.last_words()
    alter(database)
    with session(database.config(), bound, first.state, command=COMMAND) as second:
        until_equal(second)


def test_another_key_of_the_same_columns(binlog_database: Database) -> None:
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY, b INT NOT NULL)", "INSERT INTO t VALUES (1, 1)")
    with session(binlog_database.config(), bindings(f"{binlog_database.name}.t"), command=COMMAND) as capture:
        capture.until(Session.done)
        run(binlog_database, "INSERT INTO t VALUES (2, 2)")
        until_read(capture, 2)
        alter_key = "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (b)"
        run(binlog_database, "SET sql_log_bin = 0", alter_key, "SET sql_log_bin = 1", "UPDATE t SET b = 3 WHERE id = 2")
        capture.until(lambda c: c.done() and c.rows(key=["b"]) == {(1,): _row(id=1, b=1), (3,): _row(id=2, b=3)})


def test_that_a_chunk_finds(database: Database) -> None:
    """Rows that were emitted before it did have the values of before."""
    make(database, "t")
    run(database, "INSERT INTO t SELECT seq + 1, seq, -1, 'x' FROM seq_1_to_399")
    config = {**database.config(), "backfill": {"chunk_rows": 5, "max_rate": "200 rows"}}
    with session(config, bindings(f"{database.name}.t"), command=COMMAND) as capture:
        capture.until(lambda c: len(c.documents) >= 20)
        run(database, "SET sql_log_bin = 0", "SET sql_mode = ''", "ALTER TABLE t MODIFY b INT UNSIGNED")
        assert not capture.done()
        capture.until(lambda c: c.done() and [row["b"] for row in c.rows().values()] == [0] * 400)


def test_alterations_of_the_log_have_nothing_read_again(database: Database) -> None:
    """They explain what the catalog says, also together with a key's NOT NULL and with names in another case."""
    statements = [
        "ALTER TABLE t ADD COLUMN c INT, MODIFY b BIGINT FIRST",
        "ALTER TABLE t MODIFY V VARCHAR(30) CHARACTER SET utf8mb4",
        "ALTER TABLE t DROP COLUMN a, ADD COLUMN a TEXT",
        "ALTER TABLE t ADD COLUMN d TEXT AFTER id, ADD INDEX (b)",
        "ALTER TABLE t CONVERT TO CHARACTER SET utf16",
    ]
    make(database, "t")
    with session(database.config(), bindings(f"{database.name}.t"), command=COMMAND) as capture:
        capture.until(Session.done)
        for row, statement in enumerate(statements, 2):
            run(database, statement, f"INSERT INTO t (id) VALUES ({row})")
            until_read(capture, row)
        run(database, "ALTER TABLE t ADD n INT", "INSERT INTO t (id) VALUES (9)")
        until_read(capture, 9)
        assert len(capture.rows()) == len(statements) + 2
        assert all(document["_meta"]["op"] != "t" for _, document in capture.documents)


def test_alterations_of_the_log_that_come_together(binlog_database: Database) -> None:
    with global_setting(binlog_database, "binlog_row_metadata", "'FULL'"):
        run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY, a INT)", "INSERT INTO t VALUES (1, 1)")
        bound = bindings(f"{binlog_database.name}.t")
        with session(binlog_database.config(), bound, stop=True, command=COMMAND) as first:
            assert first.finish() == 0, first.last_words()
        together = [f"ALTER TABLE t ADD COLUMN n{number} INT" for number in range(9)]
        run(binlog_database, *together, "INSERT INTO t (id, n8) VALUES (2, 2)", "ALTER TABLE t DROP COLUMN n8")
        with session(binlog_database.config(), bound, first.state, command=COMMAND) as second:
            second.until(lambda c: (2,) in c.rows())
            run(binlog_database, *together[8:], "INSERT INTO t (id, n8) VALUES (3, 3)", "ALTER TABLE t DROP n0")
            run(binlog_database, "INSERT INTO t (id, n8) VALUES (4, 4)")
            second.until(lambda c: c.done() and (4,) in c.rows() and c.checkpoints > 1)
            assert all(document["_meta"]["op"] != "t" for _, document in second.documents)
