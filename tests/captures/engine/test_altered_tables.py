"""Tables that are altered, renamed, made again, hidden in part, published no more, or have keys of unusual types."""

from __future__ import annotations

from typing import Any

import pytest

from tests.captures.session import Session, apply, bindings, session, unary
from tests.captures.source_tables import BOUND, FILL, USERS, end_of_log, endpoint, prepare, table_rows
from tidemark.captures.postgres.server.positions import parse_lsn
from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.postgres import Database


def _until_the_log_is_read(capture: Session, database: Database) -> None:
    end = end_of_log(database)
    capture.until(lambda c: c.done() and parse_lsn(c.state["cursor"]) >= end)


def _altered_before_the_first_chunk(capture: Session, database: Database, blocker: Any, alter: str) -> None:
    """Lets the first chunk begin, once ``blocker`` ends, while an uncommitted ``alter`` holds the table."""
    waiting = (
        "SELECT FROM pg_stat_activity WHERE application_name = 'tidemark' AND wait_event_type = 'Lock'"
        " AND datname = current_database()"
    )
    capture.until(lambda c: c.checkpoints >= 1)
    with database.connect(autocommit=False) as altering, database.connect() as admin:
        altering.execute(alter)
        blocker.commit()
        wait_until(lambda: admin.execute(waiting).fetchone() is not None, 20, "a chunk waits for the table")
        altering.commit()


@pytest.mark.usefixtures("both_forms")
def test_a_table_that_is_rewritten_before_a_chunk_reads_it_is_not_empty(database: Database) -> None:
    """To a snapshot older than the rewrite it is."""
    prepare(database, USERS, FILL)
    config = endpoint(database)
    apply(config, BOUND)
    with database.connect(autocommit=False) as blocker:
        blocker.execute("SELECT pg_current_xact_id()")
        with session(config, BOUND) as capture:
            alter = "ALTER TABLE users ALTER name TYPE text USING upper(name)"
            _altered_before_the_first_chunk(capture, database, blocker, alter)
            capture.until(Session.done)
            assert capture.rows() == table_rows(database)


@pytest.mark.usefixtures("both_forms")
def test_a_column_that_changes_its_type_before_a_chunk_reads_it(database: Database) -> None:
    """What the chunk would read as the old type, the log shows later: such a chunk is read again."""
    prepare(database, "CREATE TABLE users (id int PRIMARY KEY, name int)", "INSERT INTO users VALUES (1, 1), (2, 2)")
    config = endpoint(database)
    apply(config, BOUND)
    with database.connect(autocommit=False) as blocker:
        blocker.execute("SELECT pg_current_xact_id()")
        with session(config, BOUND) as capture:
            alter = "ALTER TABLE users ALTER name TYPE text USING 'not a number'"
            _altered_before_the_first_chunk(capture, database, blocker, alter)
            capture.until(lambda c: any(line.get("fields", {}).get("code") == "TM-PG-030" for line in c.logs))
            assert capture.documents == []
            prepare(database, "UPDATE users SET id = 3 WHERE id = 2")
            capture.until(Session.done)
            assert capture.rows() == table_rows(database)


def test_rows_of_tables_that_inherit_are_their_own(database: Database) -> None:
    prepare(
        database, USERS, FILL, "CREATE TABLE clients () INHERITS (users)", "INSERT INTO clients VALUES (-1, 'client')"
    )
    config = endpoint(database)
    apply(config, BOUND)
    with session(config, BOUND) as capture:
        capture.until(Session.done)
        prepare(
            database, "UPDATE users SET name = 'changed' WHERE id < 10"
        )  # The child has no key, and is not published.
        _until_the_log_is_read(capture, database)
        assert capture.rows() == table_rows(database)


def test_rows_that_a_policy_hides_are_not_left_out_in_silence(database: Database) -> None:
    role = f"{database.name}_cdc"
    prepare(
        database,
        USERS,
        FILL,
        f"CREATE ROLE {role} LOGIN REPLICATION PASSWORD 'x'",
        f"GRANT SELECT ON users TO {role}",
        "CREATE PUBLICATION tidemark FOR TABLE users",
        "ALTER TABLE users ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY few ON users USING (id < 10)",
    )
    try:
        config = endpoint(database, user=role, password="x")
        status, _, logs = unary({"validate": {"config": config, "bindings": BOUND}})
        assert status == 1
        assert logs[-1]["fields"]["code"] == "TM-PG-008"
        assert "BYPASSRLS" in logs[-1]["fields"]["remedy"]
        apply(config, BOUND)
        with session(config, BOUND, stop=True) as capture:
            assert capture.finish() == 1
            assert capture.logs[-1]["fields"]["code"] == "TM-CAP-003"
            assert "TM-PG-008" in capture.logs[-1]["message"]
            assert capture.documents == []
    finally:
        prepare(database, f"DROP OWNED BY {role}", f"DROP ROLE {role}")


def test_a_table_that_is_made_again_while_it_is_captured(database: Database) -> None:
    prepare(database, USERS, FILL, "CREATE PUBLICATION tidemark FOR ALL TABLES")
    config = endpoint(database)
    apply(config, BOUND)
    with session(config, BOUND) as capture:
        capture.until(Session.done)
        before = capture.state["bindings"]["public%2Fusers"]["identity"]
        prepare(
            database, "UPDATE users SET name = 'old'", "DROP TABLE users", USERS, "INSERT INTO users VALUES (1, 'new')"
        )
        capture.until(lambda c: c.done() and c.state["bindings"]["public%2Fusers"]["identity"] != before)
        _until_the_log_is_read(capture, database)
        assert capture.rows() == table_rows(database) == {(1,): {"id": 1, "name": "new"}}


def test_a_publication_that_is_dropped_ends_the_capture(any_database: Database) -> None:
    prepare(any_database, USERS, FILL)
    config = endpoint(any_database)
    apply(config, BOUND)
    with session(config, BOUND) as capture:
        capture.until(Session.done)
        position = capture.state["cursor"]
        prepare(any_database, "DROP PUBLICATION tidemark", "UPDATE users SET name = 'unpublished'")
        assert capture.finish() == 1
        assert capture.logs[-1]["fields"]["code"] == "TM-PG-011"
    with session(config, BOUND, capture.state) as again:
        assert again.finish() == 1
        assert again.logs[-1]["fields"]["code"] == "TM-PG-011"
        assert parse_lsn(again.state["cursor"]) >= parse_lsn(position)


def test_keys_of_a_type_whose_operators_an_extension_brought(any_database: Database) -> None:
    with any_database.connect() as connection:
        if connection.execute("SELECT FROM pg_available_extensions WHERE name = 'citext'").fetchone() is None:
            pytest.skip(f"{any_database.version} here has no extension citext")
    prepare(
        any_database,
        "CREATE EXTENSION citext",
        "CREATE TABLE users (id citext PRIMARY KEY, name text)",
        "INSERT INTO users SELECT CASE i % 2 WHEN 0 THEN 'a' ELSE 'B' END || i, 'x' FROM generate_series(1, 100) i",
    )
    config = endpoint(any_database, backfill={"chunk_rows": 7})
    apply(config, BOUND)
    with session(config, BOUND, stop=True) as capture:
        assert capture.finish() == 0
        assert capture.rows() == table_rows(any_database)


def test_a_table_that_is_added_waits_for_the_transaction_that_began_last(database: Database) -> None:
    """What it wrote before the table was published is in no log, and no snapshot's xmax is above its id."""
    prepare(database, USERS, FILL, "CREATE TABLE other (id int PRIMARY KEY)")
    config = endpoint(database)
    apply(config, bindings("public.other"))
    both = bindings("public.other", "public.users")
    apply(config, both)
    with database.connect(autocommit=False) as writer:
        writer.execute("INSERT INTO other VALUES (1)")
        # Nothing is written when it opens, which would take a later id.
        with session({**config, "create": False}, both) as capture:
            capture.until(lambda c: any("waits for transactions" in line["message"] for line in c.logs))
            assert capture.documents == []
            writer.commit()
            capture.until(Session.done)
            assert capture.rows(1) == table_rows(database)
