"""What the log can hold, and what comes of it: kinds of transactions, TRUNCATE, large values, altered tables."""

from __future__ import annotations

from typing import Any

import pytest

from tests.captures.log_reader import plain
from tests.captures.postgres.log_reading import PostgresLog, capturing
from tests.captures.source_tables import prepare
from tidemark.captures.postgres.log import stream as log
from tidemark.captures.postgres.log.connection import StreamLimits
from tidemark.captures.postgres.log.stream import PgoutputLog
from tidemark.testing.servers.postgres import Database

USERS = "CREATE TABLE users (id int PRIMARY KEY, name text)"

BATCH = 64 * 1024


def columns(reader: PostgresLog) -> list[set[str]]:
    """The columns of every schema that was announced, in order."""
    return [set(schema["properties"]) - {"_meta"} for schema in reader.schemas]


def test_several_tables_truncated_at_once(any_database: Database) -> None:
    prepare(
        any_database,
        "CREATE TABLE users (id serial PRIMARY KEY)",
        "CREATE TABLE orders (id serial PRIMARY KEY, customer int REFERENCES users)",
        "CREATE TABLE items (id serial PRIMARY KEY, parent int REFERENCES orders)",
        "CREATE TABLE apart (id serial PRIMARY KEY)",
    )
    with capturing(any_database, "users", "orders", "apart") as reader:
        reader.log.track(frozenset({0, 1, 2}))
        prepare(
            any_database,
            "INSERT INTO users DEFAULT VALUES",
            "INSERT INTO orders (customer) VALUES (1)",
            "TRUNCATE users, apart RESTART IDENTITY CASCADE",
            "INSERT INTO users DEFAULT VALUES",
        )
        reader.read()
    tables = [(doc["_meta"]["op"], doc["_meta"]["source"]["table"], doc.get("id")) for doc in reader.documents]
    assert tables[:2] == [("c", "users", 1), ("c", "orders", 1)]
    assert sorted(tables[2:5]) == [("t", "apart", None), ("t", "orders", None), ("t", "users", None)]
    assert tables[5:] == [("c", "users", 1)], "the sequence was restarted"
    truncating = reader.transactions[2]
    assert all(truncating.touched[binding].everything for binding in (0, 1, 2))


def test_subtransactions(any_database: Database) -> None:
    prepare(any_database, USERS)
    with capturing(any_database, "users") as reader:
        with any_database.connect(autocommit=False) as connection:
            connection.execute("INSERT INTO users VALUES (1, 'kept')")
            with connection.transaction():
                connection.execute("INSERT INTO users VALUES (2, 'kept')")
                with connection.transaction(force_rollback=True):
                    connection.execute("INSERT INTO users VALUES (3, 'not kept')")
            with connection.transaction(force_rollback=True):
                connection.execute("UPDATE users SET name = 'not kept'")
            for number in range(100, 200):  # More than a transaction remembers by itself (64).
                with connection.transaction():
                    connection.execute("INSERT INTO users VALUES (%s, 'kept')", [number])
            connection.commit()
        reader.read()
    assert reader.ids() == [("c", 1), ("c", 2), *(("c", number) for number in range(100, 200))]
    assert {row["name"] for _, row in plain(reader.documents)} == {"kept"}
    assert len(reader.transactions) == 1
    assert {doc["_meta"]["source"]["txid"] for doc in reader.documents} == {reader.transactions[0].txn}


def test_a_message_is_passed_over(database: Database) -> None:
    prepare(database, USERS)
    with capturing(database, "users") as reader:
        prepare(database, "SELECT pg_logical_emit_message(false, 'other', repeat('x', 100000))")
        with database.connect(autocommit=False) as connection:
            connection.execute("SELECT pg_logical_emit_message(true, 'other', 'in a transaction')")
            connection.execute("INSERT INTO users VALUES (1, 'a')")
            connection.execute("SELECT pg_logical_emit_message(false, 'other', 'not in one')")
            connection.execute("INSERT INTO users VALUES (2, 'b')")
            connection.commit()
        reader.read()
    assert reader.ids() == [("c", 1), ("c", 2)]


def test_changes_that_came_from_elsewhere(database: Database) -> None:
    """A replication origin says who wrote a transaction: what a subscription applied is captured as any other."""
    origin = f"elsewhere_{database.name}"
    prepare(database, USERS, f"SELECT pg_replication_origin_create('{origin}')")
    try:
        with capturing(database, "users") as reader:
            with database.connect() as connection:
                connection.execute("SELECT pg_replication_origin_session_setup(%s)", [origin])
                connection.execute("INSERT INTO users VALUES (1, 'applied')")
            prepare(database, "INSERT INTO users VALUES (2, 'written here')")
            reader.read()
        assert reader.ids() == [("c", 1), ("c", 2)]
    finally:
        prepare(database, f"SELECT pg_replication_origin_drop('{origin}')")


def test_rows_that_are_copied_in(database: Database) -> None:
    prepare(database, USERS)
    with capturing(database, "users") as reader:
        with database.connect() as connection, connection.cursor().copy("COPY users FROM STDIN") as copy:
            for number in range(5000):
                copy.write_row((number, None if number % 2 else "even"))
        reader.read()
    assert reader.ids() == [("c", number) for number in range(5000)]
    places = [tuple(doc["_meta"]["source"]["loc"]) for doc in reader.documents]
    assert places == sorted(set(places)) and len(places[0]) == 4
    assert len({place[:3] for place in places}) < 5000  # Many rows share a record, and only the last part differs.


def test_a_transaction_knows_of_which_tables_its_keys_are_recorded(database: Database) -> None:
    """Only of those for which that was asked before it began: of the others it may have touched any row."""
    prepare(database, USERS)
    with capturing(database, "users") as reader:
        for number, tracked in enumerate([frozenset[int](), frozenset({0}), frozenset[int]()]):
            reader.log.track(tracked)
            prepare(database, f"INSERT INTO users VALUES ({number}, 'a')")
            reader.read()
            transaction = reader.transactions[-1]
            assert (transaction.tracked, frozenset(transaction.touched)) == (tracked, tracked)


@pytest.mark.heavy
def test_a_transaction_that_is_larger_than_what_is_read_at_once(database: Database) -> None:
    """It is returned in pieces: what one read holds does not grow with the transaction."""
    prepare(database, USERS)
    with capturing(database, "users") as reader:
        reader.log.track(frozenset({0}))
        prepare(database, "INSERT INTO users SELECT i, repeat('x', 300) FROM generate_series(1, 60000) i")
        sizes = []
        while not reader.transactions:
            sizes.append(reader.read_once(BATCH).size)
        assert sum(sizes) > 20_000_000
        assert max(sizes) < BATCH + 2 * log.NEAR_END_BYTES
        assert reader.ids() == [("c", number) for number in range(1, 60001)]


@pytest.mark.parametrize("identity", ["DEFAULT", "FULL"])
def test_a_large_value_in_all_transitions(any_database: Database, identity: str) -> None:
    prepare(
        any_database,
        "CREATE TABLE users (id int PRIMARY KEY, n int, bio text)",
        "ALTER TABLE users ALTER bio SET STORAGE EXTERNAL",
        f"ALTER TABLE users REPLICA IDENTITY {identity}",
    )
    large, other = "x" * 5000, "y" * 5000
    steps: list[tuple[str, str | None]] = [
        (f"INSERT INTO users VALUES (1, 0, '{large}')", large),
        ("UPDATE users SET n = 1", large),  # Large and untouched.
        (f"UPDATE users SET bio = '{other}'", other),
        ("UPDATE users SET bio = 'small'", "small"),
        ("UPDATE users SET n = 2", "small"),
        ("UPDATE users SET bio = NULL", None),
        (f"UPDATE users SET bio = '{large}'", large),
        (f"UPDATE users SET bio = '{large}'", large),  # Written again, the same.
        ("UPDATE users SET id = 2", large),  # Another key, the large value untouched.
        ("DELETE FROM users", None),
    ]
    with capturing(any_database, "users") as reader:
        prepare(any_database, *(statement for statement, _ in steps))
        reader.read()
    found = [doc for doc in reader.documents if doc["_meta"]["op"] in "cu"]
    assert len(found) == len(steps) - 1
    for (statement, bio), doc in zip(steps, found, strict=False):
        left_out = "bio" in doc["_meta"].get("unchanged", ())
        if statement in ("UPDATE users SET n = 1", "UPDATE users SET id = 2"):
            assert left_out == (identity == "DEFAULT"), statement
        else:
            assert not left_out, statement
        if left_out:
            assert "bio" not in doc
        else:
            assert doc["bio"] == bio, statement
    moved = [(doc["_meta"]["op"], doc["id"]) for doc in reader.documents[-3:]]
    assert moved == [("d", 1), ("c", 2), ("d", 2)]
    incomplete = [key for transaction in reader.transactions for key in transaction.incomplete]
    assert incomplete == ([(0, b"2")] if identity == "DEFAULT" else [])


def test_more_rows_without_their_large_value_than_can_be_remembered(database: Database) -> None:
    prepare(
        database,
        "CREATE TABLE users (id int PRIMARY KEY, bio text)",
        "ALTER TABLE users ALTER bio SET STORAGE EXTERNAL",
        "INSERT INTO users SELECT i, repeat('x', 3000) FROM generate_series(1, 30) i",
    )
    with capturing(database, "users", limits=StreamLimits(incomplete_keys=10)) as reader:
        prepare(database, "UPDATE users SET id = -id")
        reader.read()
        assert len(reader.documents) == 60
        assert reader.restarted == {0}
        assert reader.transactions[0].incomplete == []


def test_columns_that_are_altered_between_and_inside_transactions(any_database: Database) -> None:
    prepare(any_database, USERS)
    with capturing(any_database, "users") as reader:
        prepare(any_database, "INSERT INTO users VALUES (1, 'a')", "ALTER TABLE users ADD COLUMN age int DEFAULT 7")
        prepare(any_database, "INSERT INTO users VALUES (2, 'b', 8)")
        with any_database.connect(autocommit=False) as connection:
            connection.execute("INSERT INTO users VALUES (3, 'c', 9)")
            connection.execute("ALTER TABLE users RENAME COLUMN name TO title")
            connection.execute("INSERT INTO users VALUES (4, 'd', 10)")
            connection.execute("ALTER TABLE users ALTER COLUMN age TYPE text USING 'age ' || age")
            connection.execute("INSERT INTO users VALUES (5, 'e', 'eleven')")
            connection.execute("ALTER TABLE users DROP COLUMN title")
            connection.execute("INSERT INTO users VALUES (6, 'twelve')")
            connection.commit()
        prepare(any_database, "UPDATE users SET age = 'late' WHERE id = 1")
        reader.read()
    assert plain(reader.documents) == [
        ("c", {"id": 1, "name": "a"}),
        ("c", {"id": 2, "name": "b", "age": 8}),
        ("c", {"id": 3, "name": "c", "age": 9}),
        ("c", {"id": 4, "title": "d", "age": 10}),
        ("c", {"id": 5, "title": "e", "age": "eleven"}),
        ("c", {"id": 6, "age": "twelve"}),
        ("u", {"id": 1, "age": "late"}),
    ]
    assert columns(reader) == [
        {"id", "name"},  # Without the identity of a name: what is a text, too, by now may have been called so.
        {"id", "name", "age"},
        {"id", "title", "age"},
        {"id", "title", "age"},
        {"id", "age"},
    ]
    assert reader.changed == {0}
    assert reader.restarted == set()


def test_schemas_come_at_their_place_in_the_stream(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(database, USERS)
    order: list[str] = []
    read = PgoutputLog.read

    def noted(self: PgoutputLog, limit: int, wait: float, wakeup: int) -> Any:
        batch = read(self, limit, wait, wakeup)
        order.extend("schema" if b"sourcedSchema" in line else "row" for line in batch.lines)
        return batch

    monkeypatch.setattr(PgoutputLog, "read", noted)
    with capturing(database, "users") as reader, database.connect(autocommit=False) as connection:
        connection.execute("INSERT INTO users VALUES (1, 'a')")
        connection.execute("ALTER TABLE users ADD COLUMN age int")
        connection.execute("INSERT INTO users VALUES (2, 'b', 3)")
        connection.commit()
        reader.read()
    assert order == ["row", "schema", "row"]


def test_a_table_that_takes_the_place_of_another(database: Database) -> None:
    prepare(database, USERS, "CREATE PUBLICATION tidemark FOR ALL TABLES")
    with capturing(database, "users") as reader:
        identity = reader.source.tables[0].identity
        prepare(
            database,
            "INSERT INTO users VALUES (1, 'old')",
            "ALTER TABLE users RENAME TO users_before",
            "CREATE TABLE users (id bigint PRIMARY KEY, mail text)",
            "INSERT INTO users VALUES (1, 'new@example.com')",
            "INSERT INTO users_before VALUES (2, 'no more ours')",
        )
        reader.read()
        assert plain(reader.documents) == [("c", {"id": 1, "name": "old"}), ("c", {"id": 1, "mail": "new@example.com"})]
        assert reader.restarted == {0}
        assert columns(reader) == [{"id", "mail"}]
        assert reader.source.tables[0].identity != identity


def test_a_table_that_cannot_be_captured_takes_the_place_of_another(database: Database) -> None:
    prepare(database, USERS, "CREATE PUBLICATION tidemark FOR ALL TABLES")
    with capturing(database, "users") as reader:
        prepare(database, "DROP TABLE users", "CREATE TABLE users (_meta int PRIMARY KEY)")
        prepare(database, "INSERT INTO users VALUES (1)")
        reader.read()
    assert (reader.set_aside[0].code, reader.passed, reader.documents) == ("TM-PG-017", {0}, [])


def test_another_primary_key(any_database: Database) -> None:
    """Rows are found by other columns from then on: the table is read anew."""
    prepare(any_database, "CREATE TABLE users (id int PRIMARY KEY, name text NOT NULL)")
    with capturing(any_database, "users") as reader:
        before = reader.source.tables[0]
        prepare(
            any_database,
            "INSERT INTO users VALUES (1, 'a'), (2, 'b')",
            "ALTER TABLE users DROP CONSTRAINT users_pkey, ADD PRIMARY KEY (name)",
            "UPDATE users SET name = 'c' WHERE id = 2",
            "DELETE FROM users WHERE id = 1",
        )
        reader.read()
        after = reader.source.tables[0]
    assert (before.key, after.key) == (("id",), ("name",))
    assert before.identity != after.identity
    assert reader.restarted == {0}
    later = [(doc["_meta"]["op"], doc["name"]) for doc in reader.documents[2:]]
    assert later == [("d", "b"), ("c", "c"), ("d", "a")]


def test_a_wider_primary_key(database: Database) -> None:
    """It has the old one's columns, which may tell rows apart no more."""
    prepare(database, "CREATE TABLE users (id int PRIMARY KEY, part int NOT NULL)")
    with capturing(database, "users") as reader:
        prepare(
            database,
            "INSERT INTO users VALUES (1, 1)",
            "ALTER TABLE users DROP CONSTRAINT users_pkey, ADD PRIMARY KEY (id, part)",
            "INSERT INTO users VALUES (1, 2)",
        )
        reader.read()
        assert reader.source.tables[0].key == ("id", "part")
        assert reader.restarted == {0}


def test_rows_of_before_the_key_changed_when_the_log_is_read_after_it(database: Database) -> None:
    """By the new key they cannot be told apart. What is read anew has them all; what follows is kept."""
    prepare(database, "CREATE TABLE users (id int PRIMARY KEY, name text NOT NULL)")
    with capturing(database, "users"):
        pass  # The slot is made.
    prepare(
        database,
        "INSERT INTO users VALUES (1, 'a'), (2, 'b')",
        "DELETE FROM users WHERE id = 2",
        "ALTER TABLE users DROP CONSTRAINT users_pkey, ADD PRIMARY KEY (name)",
        "INSERT INTO users VALUES (3, 'c')",
        "DELETE FROM users WHERE name = 'a'",
    )
    with capturing(database, "users") as reader:
        reader.read()
    assert reader.restarted == {0}
    assert [(doc["_meta"]["op"], doc["name"]) for doc in reader.documents] == [("c", "c"), ("d", "a")]


def test_a_replica_identity_that_does_not_have_the_key_any_more(database: Database) -> None:
    prepare(database, "CREATE TABLE users (id int PRIMARY KEY, name text NOT NULL UNIQUE)")
    with capturing(database, "users") as reader:
        prepare(database, "ALTER TABLE users DROP CONSTRAINT users_pkey", "INSERT INTO users VALUES (1, 'a')")
        reader.read()
    assert reader.set_aside[0].code == "TM-PG-018" and "REPLICA IDENTITY FULL" in reader.set_aside[0].remedy
    assert (reader.passed, reader.documents) == ({0}, [])


def test_another_replica_identity_inside_a_transaction(database: Database) -> None:
    prepare(database, "CREATE TABLE users (id int PRIMARY KEY, name text NOT NULL UNIQUE)")
    with capturing(database, "users") as reader, database.connect(autocommit=False) as connection:
        connection.execute("INSERT INTO users VALUES (1, 'a')")
        connection.execute("ALTER TABLE users REPLICA IDENTITY FULL")
        connection.execute("UPDATE users SET id = 2")
        connection.execute("DELETE FROM users")
        connection.commit()
        reader.read()
    assert reader.ids() == [("c", 1), ("d", 1), ("c", 2), ("d", 2)]
