"""Captures whose runtime takes batches of columns."""

from __future__ import annotations

from tests.captures.postgres.chunks.test_chunk_emission import WALSENDER, command, let_it_work, wait_for_a_chunk
from tests.captures.session import Session, bindings, session
from tests.captures.source_tables import BOUND, FILL, end_of_log, endpoint, prepare, table_rows
from tidemark.captures.postgres.server.positions import parse_lsn
from tidemark.protocol.batches import ARROW
from tidemark.protocol.environment import BATCHES
from tidemark.testing.halted import halted
from tidemark.testing.servers.postgres import Database

OFFERED = {BATCHES: ARROW}
USERS = "CREATE TABLE users (id int PRIMARY KEY, name text)"


def test_rows_that_the_log_gave_are_left_out_of_a_batch(database: Database) -> None:
    prepare(database, USERS, FILL)
    with database.connect() as admin, session(endpoint(database), BOUND, env=OFFERED) as capture:
        capture.until(lambda c: c.done() and len(c.documents) == 1000)
        before = capture.batches.count
        with halted(database, WALSENDER):
            prepare(database, "UPDATE users SET name = 'new' WHERE id IN (1, 2, 500, 1000)")
            wait_for_a_chunk(admin, lambda: command(capture, "backfill"))
            let_it_work(capture)
        end = end_of_log(database)
        capture.until(lambda c: c.done() and parse_lsn(c.state["cursor"]) >= end)
        assert capture.rows() == table_rows(database)
        assert before and capture.batches.count > before and capture.batches.left_out == 4
        assert len(capture.documents) == 1000 + 996 + 4


def test_a_capture_that_was_killed_goes_on_with_what_is_left(database: Database) -> None:
    prepare(database, USERS, FILL)
    config = endpoint(database, backfill={"chunk_rows": 50})
    with session(config, BOUND, env=OFFERED) as first:
        first.until(lambda c: len(c.documents) >= 300)
    with session(config, BOUND, first.state, env=OFFERED) as second:
        second.documents[:0] = first.documents
        second.until(Session.done)
        assert second.rows() == table_rows(database) and len(second.documents) == 1000


def catch_up(capture: Session, database: Database) -> None:
    end = end_of_log(database)
    capture.until(lambda c: parse_lsn(c.state["cursor"]) >= end)


def test_changes_come_as_columns_while_there_are_many(database: Database) -> None:
    prepare(database, USERS, FILL)
    with session(endpoint(database), BOUND, env=OFFERED) as first:
        first.until(Session.done)
    state = first.state
    for number in range(2):
        # While nothing captures: how many there are at once is else a matter of how busy the machine is.
        prepare(
            database,
            f"UPDATE users SET name = 'new {number}'",
            "INSERT INTO users SELECT i, 'more' FROM generate_series(1001, 1500) i",
            "DELETE FROM users WHERE id > 1000",
            "UPDATE users SET name = 'single' WHERE id = 7",
        )
        with session(endpoint(database), BOUND, state, env=OFFERED) as capture:
            catch_up(capture, database)
            changes = [doc for _, doc in capture.documents if "snapshot" not in doc["_meta"]["source"]]
            places = [doc["_meta"]["source"]["loc"] for doc in changes]
            assert [doc["_meta"]["op"] for doc in changes] == [*"u" * 1000, *"c" * 500, *"d" * 500, "u"]
            assert places == sorted(places) and capture.batches.of_log >= 1900
            assert {doc["name"] for doc in changes[:1000]} == {f"new {number}"}
            state = capture.state


def test_columns_that_come_and_go_during_the_scan(database: Database) -> None:
    prepare(database, USERS, FILL)
    config = endpoint(database, backfill={"chunk_rows": 50, "max_rate": "500 rows"})
    with session(config, BOUND, env=OFFERED) as capture:
        capture.until(lambda c: len(c.documents) >= 100)
        prepare(database, "ALTER TABLE users ADD age int DEFAULT 7", "UPDATE users SET age = 8 WHERE id % 2 = 0")
        capture.until(lambda c: len(c.documents) >= 900)
        prepare(database, "ALTER TABLE users DROP COLUMN name", "UPDATE users SET age = 9 WHERE id % 3 = 0")
        end = end_of_log(database)
        capture.until(lambda c: c.done() and parse_lsn(c.state["cursor"]) >= end)
        expected = table_rows(database, "SELECT id, age FROM users")
        found = {key: {"id": row["id"], "age": row.get("age")} for key, row in capture.rows().items()}
        assert found == expected and capture.batches.count


def test_a_table_that_has_no_form_in_columns_comes_as_lines_beside_one_that_has(database: Database) -> None:
    prepare(
        database,
        USERS,
        FILL,
        "CREATE TABLE listed (id int PRIMARY KEY, of int[])",
        "INSERT INTO listed SELECT n, ARRAY[n] FROM generate_series(1, 2000) n",
        "ANALYZE",
    )
    with session(endpoint(database), bindings("public.users", "public.listed"), env=OFFERED) as capture:
        capture.until(Session.done)
        assert capture.rows() == table_rows(database)
        assert capture.rows(1) == table_rows(database, 'SELECT id, "of" FROM listed')
        assert capture.batches.count
