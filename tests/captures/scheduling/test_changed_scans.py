"""A table's scan that is configured otherwise between two sessions."""

from __future__ import annotations

from tests.captures.session import Json, bindings, session
from tests.captures.session import apply as applied
from tests.captures.source_tables import BOUND, FILL, USERS, endpoint, prepare, table_rows
from tidemark.testing.servers.postgres import Database

LOG_ONLY = bindings("public.users", scan="none")


def finished(config: Json, bound: list[Json], state: Json) -> tuple[list[Json], Json]:
    """The documents of a session that ends when it is caught up, and its state."""
    with session(config, bound, state, stop=True) as capture:
        assert capture.finish() == 0
    return [document for _, document in capture.documents], capture.state


def begun(database: Database, *statements: str) -> tuple[Json, Json]:
    """Configuration and state of a backfill that was broken off."""
    prepare(database, *statements)
    config = endpoint(database, backfill={"chunk_rows": 50, "max_rate": "300 rows"})
    applied(config, BOUND)
    with session(config, BOUND) as capture:
        capture.until(lambda c: len(c.documents) >= 100)
        assert not capture.done()
    return config, capture.state


def test_a_table_that_is_not_to_be_scanned_any_more(database: Database) -> None:
    config, state = begun(database, USERS, FILL)
    documents, state = finished(config, LOG_ONLY, state)
    assert documents == []
    prepare(database, "INSERT INTO users VALUES (5000, 'followed')")
    documents, state = finished(config, LOG_ONLY, state)
    assert [document["id"] for document in documents] == [5000]


def test_a_table_without_a_key_that_is_not_to_be_scanned_any_more(database: Database) -> None:
    statements = ("CREATE TABLE users (id int, name text)", "ALTER TABLE users REPLICA IDENTITY FULL", FILL)
    config, state = begun(database, *statements)
    assert finished(config, LOG_ONLY, state)[0] == []


def test_a_table_that_is_to_be_scanned_after_all(database: Database) -> None:
    prepare(database, USERS, FILL)
    config = endpoint(database)
    applied(config, BOUND)
    documents, state = finished(config, LOG_ONLY, {})
    assert documents == []
    with session(config, BOUND, state, stop=True) as capture:
        assert capture.finish() == 0
        assert capture.rows() == table_rows(database)


def test_a_table_without_a_key_that_is_to_be_scanned_after_all_is_emptied_first(database: Database) -> None:
    prepare(database, "CREATE TABLE users (id int, name text)", "ALTER TABLE users REPLICA IDENTITY FULL", FILL)
    config = endpoint(database)
    applied(config, BOUND)
    prepare(database, "INSERT INTO users VALUES (1001, 'followed')")
    documents, state = finished(config, LOG_ONLY, {})
    assert [document["id"] for document in documents] == [1001]
    documents, _ = finished(config, BOUND, state)
    assert [document["_meta"]["op"] for document in documents] == ["t", *["c"] * 1001]
