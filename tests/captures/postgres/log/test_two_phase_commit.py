"""A transaction that is prepared is in no snapshot and not in the log, until it is committed: then in both."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.captures.session import Session, apply, session
from tests.captures.source_tables import BOUND, FILL, USERS, end_of_log, endpoint, prepare, table_rows
from tidemark.captures.postgres.server.positions import parse_lsn
from tidemark.testing.servers.postgres import Postgres, fresh_database, own_server


@pytest.fixture(scope="module")
def preparing() -> Iterator[Postgres]:
    with own_server({"max_prepared_transactions": "5"}) as server:
        yield server


def test_prepared_before_the_backfill_and_committed_in_it(preparing: Postgres) -> None:
    with fresh_database(preparing, "prepared") as database:
        prepare(database, USERS, FILL)
        config = endpoint(database, backfill={"chunk_rows": 50, "max_rate": "300 rows"})
        apply(config, BOUND)
        with session(config, BOUND) as first:
            first.until(lambda c: len(c.documents) >= 200)
        with database.connect(autocommit=False) as connection:
            connection.execute("UPDATE users SET name = 'prepared' WHERE id % 2 = 0")
            connection.execute("UPDATE users SET id = id + 5000 WHERE id % 5 = 0")
            connection.execute("DELETE FROM users WHERE id % 7 = 0")
            connection.execute("PREPARE TRANSACTION 'early'")
        already = len(first.documents)
        with session(config, BOUND, first.state) as second:
            second.documents[:0] = first.documents
            second.until(lambda c: len(c.documents) >= already + 200)
            assert all(doc["_meta"]["source"].get("snapshot") for _, doc in second.documents)
            assert not second.done()
            prepare(database, "COMMIT PREPARED 'early'")
            end = end_of_log(database)
            second.until(lambda c: c.done() and parse_lsn(c.state["cursor"]) >= end)
            assert second.rows() == table_rows(database)


def test_prepared_and_rolled_back(preparing: Postgres) -> None:
    with fresh_database(preparing, "rolled_back") as database:
        prepare(database, USERS, FILL)
        config = endpoint(database)
        apply(config, BOUND)
        with session(config, BOUND) as capture:
            capture.until(Session.done)
            with database.connect(autocommit=False) as connection:
                connection.execute("UPDATE users SET name = 'no'")
                connection.execute("PREPARE TRANSACTION 'never'")
            prepare(database, "ROLLBACK PREPARED 'never'")
            end = end_of_log(database)
            prepare(database, "INSERT INTO users VALUES (0, 'after')")
            capture.until(lambda c: parse_lsn(c.state["cursor"]) >= end and len(c.documents) > 1000)
            assert capture.rows() == table_rows(database)
