"""What a capture session emits, against a real server: rows of chunks and of the log, and schemas."""

from __future__ import annotations

import threading

from captures.postgres.lsn import parse_lsn
from tests.captures.session import Session, apply, bindings, session
from tests.captures.source_tables import BOUND, FILL, USERS, end_of_log, endpoint, prepare, table_rows
from tests.servers.postgres import Database


def test_a_backfill_and_the_log_after_it(any_database: Database) -> None:
    database = any_database
    prepare(database, USERS, FILL)
    config = endpoint(database, backfill={"chunk_rows": 100})
    apply(config, BOUND)
    with session(config, BOUND) as capture:
        capture.until(Session.done)
        snapshot = [doc for _, doc in capture.documents]
        assert len(snapshot) == 1000
        assert snapshot[0] == {
            "_meta": {
                "op": "c",
                "source": {
                    "snapshot": True,
                    "schema": "public",
                    "table": "users",
                    "loc": [snapshot[0]["_meta"]["source"]["loc"][0], 0, 0],
                },
            },
            "id": 1,
            "name": "name 1",
        }
        prepare(
            database,
            "UPDATE users SET name = 'changed' WHERE id = 5",
            "DELETE FROM users WHERE id = 6",
            "UPDATE users SET id = 2000 WHERE id = 7",
            "INSERT INTO users VALUES (3000, NULL)",
        )
        capture.until(lambda c: len(c.documents) >= 1005)
        changes = [doc for _, doc in capture.documents][1000:]
        assert [(doc["_meta"]["op"], doc["id"]) for doc in changes] == [
            ("u", 5),
            ("d", 6),
            ("d", 7),
            ("c", 2000),
            ("c", 3000),
        ]
        locations = [doc["_meta"]["source"]["loc"] for _, doc in capture.documents]
        assert locations == sorted(locations)
        assert capture.rows() == table_rows(database)


def test_documents_match_the_announced_schema(database: Database) -> None:
    prepare(database, USERS, FILL)
    config = endpoint(database)
    apply(config, BOUND)
    with session(config, BOUND, stop=True) as capture:
        assert capture.finish() == 0
        (_, schema), *_ = capture.schemas
        assert schema["additionalProperties"] is False
        assert schema["properties"].keys() == {"_meta", "id", "name"}


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
            while not stop.is_set():
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


def test_truncate(database: Database) -> None:
    prepare(database, USERS, FILL)
    config = endpoint(database)
    apply(config, BOUND)
    with session(config, BOUND) as capture:
        capture.until(Session.done)
        prepare(database, "TRUNCATE users", "INSERT INTO users VALUES (1, 'after')")
        capture.until(lambda c: len(c.documents) >= 1002)
        assert capture.documents[1000][1]["_meta"]["op"] == "t"
        assert capture.rows() == {(1,): {"id": 1, "name": "after"}}


def test_truncate_can_be_ignored(database: Database) -> None:
    prepare(database, USERS, FILL)
    config = endpoint(database, truncate="ignore")
    apply(config, BOUND)
    with session(config, BOUND) as capture:
        capture.until(Session.done)
        prepare(database, "TRUNCATE users", "INSERT INTO users VALUES (1, 'after')")
        capture.until(lambda c: len(c.documents) >= 1001)
        assert capture.documents[-1][1]["_meta"]["op"] == "c"


def test_rows_of_any_key_and_condition(database: Database) -> None:
    prepare(
        database,
        'CREATE TABLE "odd one" ("Key A" text, "key,b" numeric, v int, PRIMARY KEY ("Key A", "key,b"))',
        """INSERT INTO "odd one"
           SELECT 'it''s \\ ' || chr(233) || (i % 7), i / 10.0, i FROM generate_series(1, 500) i""",
    )
    config = endpoint(database, backfill={"chunk_rows": 37})
    bound = bindings("public.odd one", where="v % 2 = 0")
    apply(config, bound)
    with session(config, bound, stop=True) as capture:
        assert capture.finish() == 0
        found = {doc["v"] for _, doc in capture.documents}
        assert len(capture.documents) == 250
        assert found == set(range(2, 501, 2))


def test_columns_that_are_added_while_running(database: Database) -> None:
    prepare(database, USERS, FILL)
    config = endpoint(database)
    apply(config, BOUND)
    with session(config, BOUND) as capture:
        capture.until(Session.done)
        prepare(
            database,
            "ALTER TABLE users ADD COLUMN age int, DROP COLUMN name",
            "INSERT INTO users VALUES (5000, 42)",
        )
        capture.until(lambda c: len(c.documents) >= 1001)
        assert capture.documents[-1][1]["age"] == 42
        assert capture.schemas[-1][1]["properties"].keys() == {"_meta", "id", "age"}


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


def test_a_transaction_that_is_rolled_back_is_not_there(database: Database) -> None:
    prepare(database, USERS)
    config = endpoint(database)
    apply(config, BOUND)
    with session(config, BOUND) as capture:
        capture.until(Session.done)
        with database.connect(autocommit=False) as connection:
            connection.execute("INSERT INTO users VALUES (1, 'no')")
            connection.rollback()
            connection.execute("INSERT INTO users VALUES (2, 'yes')")
            with connection.transaction(force_rollback=True):
                connection.execute("INSERT INTO users VALUES (3, 'no')")
            connection.execute("INSERT INTO users VALUES (4, 'yes')")
            connection.commit()
        capture.until(lambda c: len(c.documents) >= 2)
        assert [doc["id"] for _, doc in capture.documents] == [2, 4]
        assert len({doc["_meta"]["source"]["txid"] for _, doc in capture.documents}) == 1
