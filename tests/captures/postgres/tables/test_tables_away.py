"""Tables that are set aside on PostgreSQL: what the catalog and the publication say of them, and how they come back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.captures.impatient import aside_of, impatient, is_set_aside
from tests.captures.session import Json, Session, apply, bindings, session
from tests.captures.source_tables import FILL, USERS, endpoint, prepare, table_rows
from tidemark.testing.servers.postgres import Database

BOTH = bindings("public.users", "public.orders")
ORDERS = [
    "CREATE TABLE orders (id int PRIMARY KEY, n int)",
    "INSERT INTO orders SELECT i, i FROM generate_series(1, 300) i",
]
ALL_ORDERS = "SELECT id, n FROM orders"
SECONDS = 60


@contextmanager
def capturing(database: Database, state: Json | None = None, *, stop: bool = False, **config: Any) -> Iterator[Session]:
    settings = endpoint(database, **config)
    if state is None:
        apply(settings, BOTH)
    with session(settings, BOTH, state, stop=stop, command=impatient("tidemark.connectors.postgres")) as capture:
        yield capture


def _away(capture: Session) -> bool:
    return is_set_aside(capture, "orders")


def _back(database: Database, capture: Session) -> None:
    def equal(capture: Session) -> bool:
        return aside_of(capture, "orders") is None and capture.rows(1) == table_rows(database, ALL_ORDERS)

    capture.until(equal, SECONDS)


@pytest.mark.heavy
def test_the_same_table_goes_on_where_it_stood(database: Database) -> None:
    """Renamed in the middle of its backfill, for longer than it is waited for, and not changed meanwhile."""
    prepare(database, USERS, FILL, *ORDERS)
    with capturing(database, backfill={"chunk_rows": 10, "max_rate": "200 rows/s"}) as capture:
        capture.until(lambda c: len(c.rows(1)) >= 50)
        prepare(database, "ALTER TABLE orders RENAME TO elsewhere")
        capture.until(_away, SECONDS)
        prepare(database, "UPDATE users SET name = 'meanwhile' WHERE id = 1", "ALTER TABLE elsewhere RENAME TO orders")
        capture.until(lambda c: aside_of(c, "orders") is None, SECONDS)
        prepare(database, "INSERT INTO orders VALUES (1000, 1)")
        _back(database, capture)
        documents = [document for binding, document in capture.documents if binding == 1]
        assert not any(document["_meta"]["op"] == "t" for document in documents)
        # Each row once; the new one may come by its event and by a chunk.
        assert sorted(document["id"] for document in documents if document["id"] != 1000) == list(range(1, 301))


@pytest.mark.heavy
def test_a_table_that_is_away_for_a_moment_is_not_set_aside(database: Database) -> None:
    """In the middle of its backfill, as when another one is made to take its name: it has half a minute."""
    prepare(database, USERS, FILL, *ORDERS)
    settings = endpoint(database, backfill={"chunk_rows": 10, "max_rate": "200 rows"})
    apply(settings, BOTH)
    with session(settings, BOTH) as capture:
        capture.until(lambda c: len(c.rows(1)) >= 50)
        prepare(database, "ALTER TABLE orders RENAME TO elsewhere")
        capture.until(lambda c: any("orders" in line["message"] and line["level"] == "warning" for line in c.logs))
        prepare(database, "UPDATE elsewhere SET n = n + 1", "ALTER TABLE elsewhere RENAME TO orders")
        capture.until(lambda c: c.done() and c.rows(1) == table_rows(database, ALL_ORDERS))
        assert not any(line.get("fields", {}).get("code") == "TM-CAP-007" for line in capture.logs)
        assert not any(doc["_meta"]["op"] == "t" for _, doc in capture.documents)


def test_the_same_table_goes_on_in_the_next_session(database: Database) -> None:
    prepare(database, USERS, FILL, *ORDERS)
    with capturing(database, stop=True) as first:
        assert first.finish() == 0
    prepare(database, "ALTER TABLE orders RENAME TO elsewhere")
    with capturing(database, first.state, stop=True) as second:
        assert second.finish() == 1
    prepare(database, "ALTER TABLE elsewhere RENAME TO orders", "INSERT INTO orders VALUES (1000, 1)")
    with capturing(database, second.state, stop=True) as third:
        assert third.finish() == 0
        assert [doc["id"] for binding, doc in third.documents if binding == 1] == [1000]


def test_a_table_that_is_not_published(database: Database) -> None:
    """Nobody puts it back into the publication but who took it out, or asks for it."""
    prepare(database, USERS, FILL, *ORDERS)
    with capturing(database) as capture:
        capture.until(Session.done)
        prepare(database, "ALTER PUBLICATION tidemark DROP TABLE orders", "DELETE FROM orders WHERE id = 1")
        capture.until(_away, SECONDS)
        (warning,) = [line for line in capture.logs if "is set aside: its capture stops" in line["message"]]
        assert warning["fields"]["code"] == "TM-PG-011"
        remedy = warning["fields"]["remedy"]
        assert 'ADD TABLE ONLY "public"."orders"' in remedy
        prepare(database, "UPDATE users SET name = 'meanwhile' WHERE id = 1")
        capture.until(lambda c: c.rows(0) == table_rows(database))
        prepare(database, remedy.partition(": ")[2])
        _back(database, capture)


def test_a_publication_that_lacks_rows_of_one(database: Database) -> None:
    if database.version < 15:
        pytest.skip("row filters came with version 15")
    prepare(database, USERS, FILL, *ORDERS)
    with capturing(database, stop=True) as first:
        assert first.finish() == 0
    prepare(
        database,
        "ALTER PUBLICATION tidemark SET TABLE users, orders WHERE (id > 5)",
        "UPDATE orders SET n = 0 WHERE id = 9",
    )
    with capturing(database, first.state, stop=True) as second:
        assert second.finish() == 1
        assert "some rows or columns of public.orders" in second.logs[-1]["message"]
        assert second.rows(1) == {}


def test_a_table_that_loses_its_key(database: Database) -> None:
    prepare(database, USERS, FILL, *ORDERS)
    with capturing(database) as capture:
        capture.until(Session.done)
        prepare(database, "ALTER TABLE orders DROP CONSTRAINT orders_pkey", "INSERT INTO orders VALUES (301, 1)")
        # Set aside by a look at the catalog, perhaps before the log brings the row.
        capture.until(lambda c: bool((aside_of(c, "orders") or {}).get("passed")), SECONDS)
        found = aside_of(capture, "orders")
        assert found is not None and found["code"] == "TM-PG-018"
        prepare(database, "DELETE FROM users WHERE id = 5", "ALTER TABLE orders ADD PRIMARY KEY (id)")
        _back(database, capture)
        capture.until(lambda c: c.rows(0) == table_rows(database))


def test_a_table_of_another_owner(database: Database) -> None:
    """It cannot be published by this user: the others are, and it comes when its owner has done so."""
    role = f"{database.name}_role"
    prepare(
        database,
        USERS,
        FILL,
        *ORDERS,
        f"CREATE ROLE {role} LOGIN REPLICATION PASSWORD 'x'",
        f"GRANT CREATE ON DATABASE {database.name} TO {role}",
        f"GRANT SELECT ON orders TO {role}",
        f"ALTER TABLE users OWNER TO {role}",
    )
    try:
        with capturing(database, user=role, password="x") as capture:
            capture.until(lambda c: _away(c) and c.rows(0) == table_rows(database), SECONDS)
            found = aside_of(capture, "orders")
            assert found is not None and found["code"] == "TM-PG-011"
            prepare(database, found["remedy"].partition(": ")[2])
            _back(database, capture)
    finally:
        prepare(database, f"DROP OWNED BY {role} CASCADE", f"DROP ROLE {role}")


def test_a_position_that_is_lost_while_one_is_set_aside(database: Database) -> None:
    prepare(database, USERS, FILL, *ORDERS)
    with capturing(database, on_lost_position="backfill") as first:
        first.until(Session.done)
        prepare(database, "ALTER TABLE orders RENAME TO elsewhere")
        first.until(_away, SECONDS)
    with database.connect() as connection:
        connection.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots"
            " WHERE slot_name = %s AND pg_terminate_backend(coalesce(active_pid, 0), 5000) IS NOT NULL",
            [endpoint(database)["slot"]],
        )
    prepare(database, "DELETE FROM elsewhere WHERE id = 7", "DELETE FROM users WHERE id = 7")
    with capturing(database, first.state, on_lost_position="backfill") as second:
        second.documents[:0] = first.documents
        second.until(lambda c: c.rows(0) == table_rows(database) and aside_of(c, "orders") is not None, SECONDS)
        prepare(database, "ALTER TABLE elsewhere RENAME TO orders")
        _back(database, second)
