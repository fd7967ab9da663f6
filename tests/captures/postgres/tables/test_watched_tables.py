"""Tables that become something else while no row of theirs changes: the log does not tell, so they are looked at."""

from __future__ import annotations

import pytest

from tests.captures.session import Json, Session, apply, replay, session
from tests.captures.source_tables import BOUND, FILL, USERS, endpoint, prepare, table_rows
from tidemark.testing.servers.postgres import Database

SECONDS = 60


def _identity(capture: Session) -> str:
    return str(capture.state["bindings"]["public%2Fusers"]["identity"])


def _read_anew(capture: Session, before: str) -> None:
    capture.until(lambda c: c.done() and _identity(c) != before, SECONDS)


def test_a_column_that_is_added_in_a_backfill(database: Database) -> None:
    prepare(database, USERS, FILL)
    config = endpoint(database, backfill={"chunk_rows": 10, "max_rate": "100 rows/s"})
    apply(config, BOUND)
    with session(config, BOUND) as capture:
        capture.until(lambda c: len(c.documents) >= 20)
        prepare(database, "ALTER TABLE users ADD COLUMN age int")
        capture.until(lambda c: any("age" in doc for _, doc in c.documents), SECONDS)
        assert "age" in capture.schemas[-1][1]["properties"]


def test_a_key_that_changes_under_replica_identity_full(database: Database) -> None:
    prepare(database, USERS, "ALTER TABLE users REPLICA IDENTITY FULL", FILL)
    config = endpoint(database)
    apply(config, BOUND)
    with session(config, BOUND) as capture:
        capture.until(Session.done)
        before = _identity(capture)
        prepare(database, "ALTER TABLE users DROP CONSTRAINT users_pkey, ADD PRIMARY KEY (name)")
        _read_anew(capture, before)
        prepare(database, "UPDATE users SET name = 'changed' WHERE id = 1", "DELETE FROM users WHERE id = 2")
        capture.until(lambda c: ("name 2",) not in c.rows(key=["name"]))
        rows = capture.rows(key=["name"])
        assert rows == table_rows(database, "SELECT name, id FROM users")


def test_a_table_that_is_made_again_and_left_alone(database: Database) -> None:
    prepare(database, USERS, FILL, "CREATE PUBLICATION tidemark FOR ALL TABLES")
    config = endpoint(database)
    apply(config, BOUND)
    with session(config, BOUND) as capture:
        capture.until(Session.done)
        before = _identity(capture)
        with database.connect(autocommit=False) as connection:
            # Its rows are in the log, under another name.
            connection.execute("CREATE TABLE other (id int PRIMARY KEY, name text)")
            connection.execute("INSERT INTO other VALUES (1, 'new')")
            connection.commit()
            connection.execute("DROP TABLE users")
            connection.execute("ALTER TABLE other RENAME TO users")
            connection.commit()
        _read_anew(capture, before)
        assert capture.rows() == table_rows(database)


def _entry(capture: Session) -> str:
    """What published the table as of which all that was captured is whole."""
    return str(capture.state["source"]["tables"]["public%2Fusers"]["entry"])


@pytest.mark.heavy
def test_a_table_that_is_published_no_more_and_then_again(any_database: Database) -> None:
    prepare(any_database, USERS, "CREATE TABLE other (id int PRIMARY KEY)", FILL)
    config = endpoint(any_database)
    apply(config, BOUND)
    unpublish = "ALTER PUBLICATION tidemark DROP TABLE users"
    publish = "ALTER PUBLICATION tidemark ADD TABLE users"

    def warnings(capture: Session) -> list[Json]:
        return [line for line in capture.logs if line.get("fields", {}).get("code") == "TM-PG-011"]

    with session(config, BOUND) as capture:
        capture.until(Session.done)
        first = _entry(capture)
        prepare(any_database, unpublish, "DELETE FROM users WHERE id = 1")
        capture.until(warnings, SECONDS)
        assert 'ADD TABLE ONLY "public"."users"' in warnings(capture)[0]["fields"]["remedy"]
        prepare(any_database, publish)
        capture.until(lambda c: c.done() and _entry(c) != first, SECONDS)
        assert capture.rows() == table_rows(any_database)
    second = _entry(capture)
    # What the log has of the time before must not outlive what it does not have.
    prepare(
        any_database, "INSERT INTO users VALUES (-1, 'seen')", unpublish, "DELETE FROM users WHERE id < 10", publish
    )
    with session(config, BOUND, capture.state) as again:
        again.until(lambda c: c.done() and _entry(c) != second, SECONDS)
        documents = [*capture.documents, *again.documents]
        assert replay((doc for _, doc in documents), ["id"]) == table_rows(any_database)
    # What stays in a publication is not published anew.
    prepare(any_database, "ALTER PUBLICATION tidemark SET TABLE other, users")
    with session(config, BOUND, again.state, stop=True) as third:
        assert third.finish() == 0
        assert third.documents == []


@pytest.mark.parametrize("publication", ["FOR ALL TABLES", "FOR TABLES IN SCHEMA public"])
def test_a_publication_of_more_than_tables(database: Database, publication: str) -> None:
    """What publishes a table need not name it."""
    if "SCHEMA" in publication and database.version < 15:
        pytest.skip("publications of schemas came with version 15")
    prepare(database, USERS, FILL, f"CREATE PUBLICATION tidemark {publication}")
    config = endpoint(database)
    apply(config, BOUND)
    with session(config, BOUND, stop=True) as capture:
        assert capture.finish() == 0
        assert _entry(capture)
