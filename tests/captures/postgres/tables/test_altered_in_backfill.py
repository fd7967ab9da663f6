"""Tables that are altered while they are backfilled, and in which no row changes afterwards: no log shows it."""

from __future__ import annotations

import pytest

from tests.captures.session import Session, apply, session
from tests.captures.source_tables import BOUND, end_of_log, endpoint, prepare, table_rows
from tidemark.captures.postgres.server.positions import parse_lsn
from tidemark.testing.servers.postgres import Database

pytestmark = pytest.mark.heavy

SECONDS = 60


def _fill(count: int) -> str:
    return f"INSERT INTO users SELECT i, i FROM generate_series(1, {count}) i"


def _columns(capture: Session) -> set[str]:
    return set(capture.schemas[-1][1]["properties"]) - {"_meta"}


def test_a_column_of_another_type(any_database: Database) -> None:
    prepare(any_database, "CREATE TABLE users (id int PRIMARY KEY, name int)", _fill(3000))
    config = endpoint(any_database, backfill={"chunk_rows": 20})
    apply(config, BOUND)
    with session(config, BOUND) as capture:
        capture.until(lambda c: len(c.documents) >= 100)
        prepare(any_database, "ALTER TABLE users ALTER name TYPE text USING 'number ' || name")
        capture.until(Session.done, SECONDS)
        name = capture.schemas[-1][1]["properties"]["name"]["type"]
        assert "string" in name
        last = [doc for _, doc in capture.documents if doc["id"] == 3000]
        assert last[-1]["name"] == "number 3000"
        # What was read before stays as it was read: an ALTER makes no events. A change of a row brings it.
        prepare(any_database, "UPDATE users SET name = name")
        end = end_of_log(any_database)
        capture.until(lambda c: parse_lsn(c.state["cursor"]) >= end)
        assert capture.rows() == table_rows(any_database)


def test_a_column_that_is_dropped_and_one_that_is_added(database: Database) -> None:
    prepare(database, "CREATE TABLE users (id int PRIMARY KEY, name int)", _fill(3000))
    config = endpoint(database, backfill={"chunk_rows": 20})
    apply(config, BOUND)
    with session(config, BOUND) as capture:
        capture.until(lambda c: len(c.documents) >= 100)
        prepare(database, "ALTER TABLE users DROP COLUMN name")
        capture.until(lambda c: any(doc.keys() == {"_meta", "id"} for _, doc in c.documents), SECONDS)
        assert _columns(capture) == {"id"}
        prepare(database, "ALTER TABLE users ADD COLUMN later text DEFAULT 'x'")
        capture.until(Session.done, SECONDS)


def test_a_table_that_is_made_again(database: Database) -> None:
    prepare(database, "CREATE TABLE users (id int PRIMARY KEY, name int)", _fill(3000))
    prepare(database, "CREATE PUBLICATION tidemark FOR ALL TABLES")
    config = endpoint(database, backfill={"chunk_rows": 20})
    apply(config, BOUND)
    with session(config, BOUND) as capture:
        capture.until(lambda c: len(c.documents) >= 100)
        with database.connect(autocommit=False) as connection:
            connection.execute("ALTER TABLE users RENAME TO users_before")
            connection.execute("CREATE TABLE users (id int PRIMARY KEY, title text)")
            connection.execute("INSERT INTO users SELECT i, 'new' FROM generate_series(1, 50) i")
            connection.execute("DELETE FROM users WHERE id > 40")
            connection.commit()
        capture.until(lambda c: c.done() and _columns(c) == {"id", "title"}, SECONDS)
        assert capture.rows() == table_rows(database, "SELECT * FROM users")
