"""Captures of MariaDB and MySQL whose runtime takes batches of columns."""

from __future__ import annotations

import sys
import threading
from random import Random
from typing import Any

from tests.captures.mysql.column_chunks import table_rows
from tests.captures.mysql.table_chunks import run
from tests.captures.session import Session, bindings, session
from tests.servers.mariadb import Database
from tidemark.protocol.batches import ARROW
from tidemark.protocol.environment import BATCHES

COMMAND = [sys.executable, "-m", "tidemark.connectors.mysql"]
OFFERED = {BATCHES: ARROW}
USERS = "CREATE TABLE users (id INT PRIMARY KEY, name TEXT)"
FILL = "INSERT INTO users SELECT seq, concat('name ', seq) FROM seq_1_to_1000"


def caught_up(capture: Session, database: Database, query: str = "SELECT id, name FROM users") -> bool:
    """Whether the backfill is over, and everything that was committed came."""
    return capture.done() and capture.rows() == table_rows(database, query)


def test_rows_that_change_while_they_are_read(binlog_database: Database) -> None:
    database = binlog_database
    run(database, USERS, FILL)
    stop = threading.Event()

    def write() -> None:
        random = Random(1)
        with database.connect(autocommit=False) as connection, connection.cursor() as cursor:
            for number in range(1001, 4001):
                old, some = random.randint(1, number), random.randint(1, number)
                cursor.execute(f"UPDATE users SET name = 'n {number}' WHERE id BETWEEN {some} AND {some + 5}")
                cursor.execute(f"DELETE FROM users WHERE id = {old}")
                cursor.execute(f"UPDATE users SET id = {-number} WHERE id = {some}")
                cursor.execute(f"INSERT INTO users VALUES ({number}, 'new'), ({old}, 'again')")
                connection.commit()
                if stop.is_set():
                    return

    writer = threading.Thread(target=write)
    config = {**database.config(), "backfill": {"chunk_rows": 10}}
    try:
        with session(config, bindings(f"{database.name}.users"), env=OFFERED, command=COMMAND) as capture:
            capture.until(lambda c: len(c.documents) > 10)
            writer.start()
            capture.until(Session.done)
            stop.set()
            writer.join()
            capture.until(lambda c: caught_up(c, database))
            assert capture.batches.count > 50
    finally:
        stop.set()
        if writer.is_alive():
            writer.join()


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
