"""Captures of MariaDB and MySQL whose runtime takes batches of columns."""

from __future__ import annotations

import sys
from typing import Any

from tests.captures.mysql.column_chunks import table_rows
from tests.captures.mysql.table_chunks import run
from tests.captures.session import Session, bindings, session
from tidemark.protocol.batches import ARROW
from tidemark.protocol.environment import BATCHES
from tidemark.testing.servers.mariadb import Database

COMMAND = [sys.executable, "-m", "tidemark.connectors.mysql"]
OFFERED = {BATCHES: ARROW}
USERS = "CREATE TABLE users (id INT PRIMARY KEY, name TEXT)"
FILL = "INSERT INTO users SELECT seq, concat('name ', seq) FROM seq_1_to_1000"


def caught_up(capture: Session, database: Database, query: str = "SELECT id, name FROM users") -> bool:
    """Whether the backfill is over, and everything that was committed came."""
    return capture.done() and capture.rows() == table_rows(database, query)


def test_rows_that_the_log_gave_are_left_out_of_a_batch(binlog_database: Database) -> None:
    """Batch after batch has rows of a key that is updated all the time."""
    database = binlog_database
    run(database, USERS, FILL)
    config = {**database.config(), "backfill": {"chunk_rows": 500}}
    bound = bindings(f"{database.name}.users")
    with (
        session(config, bound, env=OFFERED, command=COMMAND) as capture,
        database.connect() as connection,
        connection.cursor() as cursor,
    ):
        updates = sequence = 0

        def left_out(c: Session) -> bool:
            nonlocal updates, sequence
            updates += 1
            cursor.execute(f"UPDATE users SET name = 'new {updates}' WHERE id IN (1, 2, 700)")
            if c.done() and c.state.get("control", 0) == sequence:
                sequence += 1
                again: Any = {"sequence": sequence, "action": "backfill", "tables": [f"{database.name}.users"]}
                c.send({"control": again})
            return c.batches.left_out > 0

        capture.until(left_out)
        capture.until(lambda c: c.state.get("control", 0) == sequence and caught_up(c, database))


def test_a_capture_that_was_killed_goes_on_with_what_is_left(binlog_database: Database) -> None:
    run(binlog_database, USERS, FILL)
    config = {**binlog_database.config(), "backfill": {"chunk_rows": 50}}
    bound = bindings(f"{binlog_database.name}.users")
    with session(config, bound, env=OFFERED, command=COMMAND) as first:
        first.until(lambda c: len(c.documents) >= 300)
    with session(config, bound, first.state, env=OFFERED, command=COMMAND) as second:
        second.documents[:0] = first.documents
        second.until(Session.done)
        assert second.rows() == table_rows(binlog_database, "SELECT id, name FROM users")
        assert len(second.documents) == 1000


def test_changes_come_as_columns_once_each_over_kills(binlog_database: Database) -> None:
    run(binlog_database, USERS, FILL)
    config, bound = binlog_database.config(), bindings(f"{binlog_database.name}.users")
    with session(config, bound, env=OFFERED, command=COMMAND) as first:
        first.until(Session.done)
    state, of_log, sessions = first.state, 0, 0
    changes: list[dict[str, Any]] = []
    # While nothing captures: how many there are at once is else a matter of how busy the machine is.
    run(
        binlog_database,
        *(f"UPDATE users SET name = repeat('{number}', 700)" for number in range(5)),
        "INSERT INTO users SELECT 1000 + seq, 'more' FROM seq_1_to_500",
        "UPDATE users SET id = -id WHERE id > 1000",
        "DELETE FROM users WHERE id < 0",
        "UPDATE users SET name = 'single' WHERE id = 7",
    )
    while len(changes) < 7001:
        with session(config, bound, state, env=OFFERED, command=COMMAND) as capture:
            # Killed after the first ones that are whole: the next session goes on behind them.
            capture.until(lambda c: c.documents)
            changes += [doc for _, doc in capture.documents]
            state, of_log, sessions = capture.state, of_log + capture.batches.of_log, sessions + 1
    ops = [doc["_meta"]["op"] for doc in changes]
    assert ops == [*"u" * 5000, *"c" * 500, *"dc" * 500, *"d" * 500, "u"]
    places = [doc["_meta"]["source"]["cursor"].split(":") for doc in changes]
    ordered = [(file, int(offset), int(row)) for file, offset, row in places]
    assert ordered == sorted(set(ordered)) and of_log >= 7000 and sessions > 1
    assert [doc["_meta"]["before"]["name"] for doc in changes[1000:2000]] == ["0" * 700] * 1000


def test_columns_that_come_and_go_during_the_scan(binlog_database: Database) -> None:
    database = binlog_database
    run(database, USERS, FILL)
    config = {**database.config(), "backfill": {"chunk_rows": 50, "max_rate": "500 rows"}}
    with session(config, bindings(f"{database.name}.users"), env=OFFERED, command=COMMAND) as capture:
        capture.until(lambda c: len(c.documents) >= 100)
        run(database, "ALTER TABLE users ADD age INT DEFAULT 7", "UPDATE users SET age = 8 WHERE id % 2 = 0")
        capture.until(lambda c: len(c.documents) >= 900)
        run(database, "ALTER TABLE users DROP COLUMN name", "UPDATE users SET age = 9 WHERE id % 3 = 0")

        def same(c: Session) -> bool:
            found = {key: {"id": row["id"], "age": row.get("age")} for key, row in c.rows().items()}
            return c.done() and found == table_rows(database, "SELECT id, age FROM users")

        capture.until(same)
        assert capture.batches.count


def test_a_table_that_has_no_form_in_columns_comes_as_lines_beside_one_that_has(binlog_database: Database) -> None:
    database = binlog_database
    run(
        database,
        USERS,
        FILL,
        "CREATE TABLE places (id INT PRIMARY KEY, at POINT)",
        "INSERT INTO places SELECT seq, ST_GeomFromText('POINT(1 2)') FROM seq_1_to_1000",
        "ANALYZE TABLE users, places",
    )
    bound = bindings(f"{database.name}.users", f"{database.name}.places")
    config = {**database.config(), "backfill": {"chunk_rows": 100}}  # Small tables would be read together.
    with session(config, bound, env=OFFERED, command=COMMAND) as capture:
        capture.until(Session.done)
        assert capture.rows() == table_rows(database, "SELECT id, name FROM users")
        assert len(capture.rows(1)) == 1000
        assert capture.batches.count
