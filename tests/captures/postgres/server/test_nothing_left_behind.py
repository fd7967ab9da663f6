"""What a capture cannot use it does not make: it compares its position first, and takes back what came to nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.captures.session import Json, Session, session, unary
from tests.captures.source_tables import BOUND, FILL, USERS, endpoint, prepare
from tidemark.testing.servers.postgres import Database, Postgres, drop_slot, fresh_database, own_server


def start(config: Json, state: Json) -> str:
    """Everything that a runtime asks, up to the end of a session that fails; the code of its error."""
    for request in (
        {"validate": {"name": "test", "config": config, "bindings": BOUND}},
        {"apply": {"capture": {"name": "test", "config": config, "bindings": BOUND}}},
    ):
        status, _, logs = unary(request)
        assert status == 0, logs
    with session(config, BOUND, state, stop=True) as capture:
        assert capture.finish() == 1
        return str(capture.logs[-1]["fields"]["code"])


def made(database: Database) -> list[str]:
    """The slots and publications of a database."""
    with database.connect() as admin:
        found = admin.execute(
            "SELECT slot_name::text FROM pg_replication_slots WHERE database = current_database()"
            " UNION ALL SELECT pubname::text FROM pg_publication"
        ).fetchall()
    return [name for (name,) in found]


def captured(database: Database) -> Json:
    """The state of a capture that is done."""
    prepare(database, USERS, FILL)
    with session(endpoint(database), BOUND, stop=True) as capture:
        assert capture.finish() == 0
    return capture.state


def test_a_slot_that_is_gone_is_not_made_before_that_is_said(any_database: Database) -> None:
    config = endpoint(any_database)
    state = captured(any_database)
    drop_slot(any_database, config["slot"])
    for _ in range(2):  # The second time it is the same error: nothing that the first one left misleads.
        assert start(config, state) == "TM-PG-015"
        assert config["slot"] not in made(any_database)


def test_nothing_is_made_on_another_server(database: Database) -> None:
    state = captured(database)
    with own_server(another=True) as server, fresh_database(server, "another") as other:
        prepare(other, USERS)
        for _ in range(2):
            assert start(endpoint(other), state) == "TM-PG-016"
            assert made(other) == []


@pytest.fixture
def full() -> Iterator[Postgres]:
    """A server with one slot, and that is taken."""
    with own_server({"max_replication_slots": "1"}) as server:
        with server.connect() as admin:
            admin.execute("SELECT pg_create_physical_replication_slot('taken')")
        yield server


def test_a_publication_is_taken_back_when_there_is_no_slot_for_it(full: Postgres) -> None:
    with fresh_database(full, "full") as database:
        prepare(database, USERS)
        with session(endpoint(database), BOUND) as capture:
            assert capture.finish() == 1
            assert capture.logs[-1]["fields"]["code"] == "TM-PG-025"
        assert made(database) == []
        with database.connect() as admin:
            admin.execute("SELECT pg_drop_replication_slot('taken')")
        with session(endpoint(database), BOUND) as capture:
            capture.until(Session.done)
        assert len(made(database)) == 2
