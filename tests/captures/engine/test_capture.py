"""What a capture session emits that only PostgreSQL has; the rest is in tests/conformance."""

from __future__ import annotations

import threading

import pytest

from tests.captures.session import Session, apply, bindings, session
from tests.captures.source_tables import BOUND, end_of_log, endpoint, prepare, table_rows
from tidemark.captures.postgres.server.positions import parse_lsn
from tidemark.testing.servers.postgres import Database


@pytest.mark.heavy
def test_an_unchanged_large_value_is_read_again_until_it_is_whole(database: Database) -> None:
    """Rows that are updated all the time without their large column must end with it all the same."""
    prepare(
        database,
        "CREATE TABLE users (id int PRIMARY KEY, n int, bio text)",
        "ALTER TABLE users ALTER bio SET STORAGE EXTERNAL",
        "INSERT INTO users SELECT i, 0, repeat(i::text || ' ', 3000) FROM generate_series(1, 200) i",
    )
    config = endpoint(database, backfill={"chunk_rows": 10})
    apply(config, BOUND)
    stop = threading.Event()

    def update() -> None:
        with database.connect() as connection:
            # A writer without a pause gives more than a busy machine can take, for minutes.
            while not stop.wait(0.01):
                connection.execute("UPDATE users SET n = n + 1 WHERE id % 5 = 0")

    writer = threading.Thread(target=update)
    writer.start()
    try:
        with session(config, BOUND) as capture:
            capture.until(lambda c: len(c.documents) > 2000)
            assert any("unchanged" in doc["_meta"] for _, doc in capture.documents)
            stop.set()
            writer.join()
            capture.until(Session.done)
            # A row that comes to another key without its large value has to be read again, backfill or not.
            prepare(database, "UPDATE users SET id = id + 1000 WHERE id % 7 = 0")
            end = end_of_log(database)
            capture.until(lambda c: c.done() and parse_lsn(c.state["cursor"]) >= end)
            assert capture.rows() == table_rows(database, "SELECT id, n, bio FROM users")
    finally:
        stop.set()
        writer.join()


def test_excluded_and_generated_columns_are_in_no_document(database: Database) -> None:
    prepare(
        database,
        "CREATE TABLE users (id int PRIMARY KEY, name text, secret text,"
        " twice int GENERATED ALWAYS AS (id * 2) STORED)",
        "INSERT INTO users VALUES (1, 'a', 'hidden')",
    )
    config = endpoint(database)
    bound = bindings("public.users", exclude=["secret"])
    apply(config, bound)
    with session(config, bound) as capture:
        capture.until(Session.done)
        prepare(database, "UPDATE users SET name = 'b', secret = 'hidden too'")
        capture.until(lambda c: len(c.documents) >= 2)
        for _, document in capture.documents:
            assert document.keys() == {"_meta", "id", "name"}
