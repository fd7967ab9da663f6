"""A publication that is dropped: what to do is said to the letter, and works; with a backfill it is done."""

from __future__ import annotations

import re

import pytest

from tests.captures.session import Json, Message, Session, apply, session, unary
from tests.captures.source_tables import BOUND, FILL, USERS, endpoint, prepare, table_rows
from tidemark.testing.servers.postgres import Database

BACKFILL = {"on_lost_position": "backfill"}


def captured(database: Database, config: Json) -> Json:
    """The state of a capture that is done."""
    prepare(database, USERS, FILL)
    apply(config, BOUND)
    with session(config, BOUND, stop=True) as capture:
        assert capture.finish() == 0
    return capture.state


def drop(database: Database) -> None:
    """Drops the publication, and changes rows while there is none."""
    with database.connect() as admin:
        (name,) = admin.execute("SELECT pubname FROM pg_publication").fetchone() or ("",)
        admin.execute(f'DROP PUBLICATION "{name}"')
    prepare(database, "UPDATE users SET name = 'unpublished' WHERE id % 3 = 0", "DELETE FROM users WHERE id % 7 = 0")


def refused(logs: list[Message]) -> list[str]:
    """The statements that the error says to run."""
    assert logs[-1]["fields"]["code"] == "TM-PG-011"
    remedy = str(logs[-1]["fields"]["remedy"])
    assert "on_lost_position: backfill" in remedy
    statements = re.findall(r"(?:CREATE|SELECT) [^;]*;", remedy)
    assert [statement.split()[0] for statement in statements] == ["CREATE", "SELECT"]
    return statements


def read_anew(database: Database, config: Json, state: Json) -> None:
    prepare(database, "INSERT INTO users VALUES (5000, 'after')")
    with session({**config, **BACKFILL}, BOUND, state) as capture:
        capture.until(lambda c: c.rows() == table_rows(database))
        prepare(database, "UPDATE users SET name = 'followed' WHERE id = 1")
        capture.until(lambda c: c.rows() == table_rows(database))


def test_dropped_while_it_is_captured(any_database: Database) -> None:
    config = endpoint(any_database)
    state = captured(any_database, config)
    with session(config, BOUND, state) as capture:
        capture.until(lambda c: c.checkpoints > 0)
        drop(any_database)
        assert capture.finish() == 1
        statements = refused(capture.logs)
    prepare(any_database, *statements)
    read_anew(any_database, config, capture.state)


def test_dropped_while_it_is_captured_with_a_backfill(any_database: Database) -> None:
    config = endpoint(any_database, **BACKFILL)
    state = captured(any_database, config)
    with session(config, BOUND, state) as capture:
        capture.until(lambda c: c.checkpoints > 0)
        drop(any_database)
        capture.until(lambda c: c.rows() == table_rows(any_database))
        prepare(any_database, "UPDATE users SET name = 'followed' WHERE id = 1")
        capture.until(lambda c: c.rows() == table_rows(any_database))


@pytest.mark.parametrize("again", [False, True], ids=["gone", "made again"])
def test_dropped_between_two_sessions(any_database: Database, again: bool) -> None:
    config = endpoint(any_database)
    state = captured(any_database, config)
    drop(any_database)
    with session(config, BOUND, state) as capture:
        assert capture.finish() == 1
        statements = refused(capture.logs)
    status, _, logs = unary({"validate": {"name": "test", "config": config, "bindings": BOUND}})
    assert status == 1, "the check sees what the capture saw"
    assert refused(logs) == statements
    status, _, logs = unary({"validate": {"name": "test", "config": {**config, **BACKFILL}, "bindings": BOUND}})
    assert status == 0, logs
    if again:  # That alone is no help, and what is left to do is said again.
        prepare(any_database, statements[0])
        with session(config, BOUND, state) as capture:
            assert capture.finish() == 1
            assert refused(capture.logs) == statements
    read_anew(any_database, config, state)


def test_a_new_change_log_begins_with_a_slot_that_can_be_read(any_database: Database) -> None:
    config = endpoint(any_database)
    captured(any_database, config)
    drop(any_database)
    with session(config, BOUND) as capture:
        assert capture.finish() == 1
        statements = refused(capture.logs)
    prepare(any_database, *statements)
    with session(config, BOUND) as capture:
        capture.until(lambda c: c.done() and c.rows() == table_rows(any_database))


def test_dropped_and_made_again_while_nothing_was_changed(any_database: Database) -> None:
    config = endpoint(any_database)
    state = captured(any_database, config)
    with any_database.connect() as admin:
        (name,) = admin.execute("SELECT pubname FROM pg_publication").fetchone() or ("",)
        admin.execute(f'DROP PUBLICATION "{name}"')
        admin.execute(f'CREATE PUBLICATION "{name}" FOR TABLE users')
    prepare(any_database, "UPDATE users SET name = 'after' WHERE id = 1")
    with session(config, BOUND, state) as capture:
        capture.until(Session.done)
        capture.until(lambda c: c.rows() == table_rows(any_database))
