"""A server that is told to stop stops at once, whatever a capture of it is doing."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import psycopg
import pytest

from tests.captures.engine.test_reconnection import named
from tests.captures.session import Json, Session, apply, session
from tests.captures.source_tables import BOUND, FILL, USERS, endpoint, prepare
from tidemark.testing.deadline import let_pass, wait_until
from tidemark.testing.servers.postgres import Database, Postgres, fresh_database, own_server

pytestmark = [pytest.mark.slow]

STOPS = int(os.environ.get("TIDEMARK_TEST_STOPS", "0"))
"""Of each capture; ``make soak`` stops 20 times."""

FEW_STOPS = {"idle": 10, "written to": 5, "backfilling": 5}
"""Otherwise. Of an idle capture, every third or fourth hung before there was this test."""

STOPS_IN_A_SESSION = 5
"""A connection that fails eight times in a row, each time as soon as it is made, is no outage any more."""

DEADLINE = 30.0
"""In seconds. `wal_sender_timeout` of a capture's stream is ten times that."""


def stop_and_start(server: Postgres) -> float:
    """Stops the server as ``pg_ctl stop -m fast`` does, and starts it again.

    How many seconds the stop took; ``DEADLINE`` and more when it hung, and was forced.
    """
    assert server.server is not None
    began = time.monotonic()
    server.server.stop("fast", seconds=DEADLINE)
    seconds = time.monotonic() - began
    server.server.start()
    return seconds


@contextmanager
def written_to(database: Database) -> Iterator[None]:
    """A thread writes rows of any size, whenever the server is there."""
    over = threading.Event()

    def write() -> None:
        number = 10_000
        while not over.is_set():
            try:
                with database.connect() as connection:
                    while not over.is_set():
                        number += 100
                        connection.execute(
                            "INSERT INTO users SELECT i, repeat('x', i % 1000)"
                            " FROM generate_series(%s::int, %s::int + 99) i",
                            [number, number],
                        )
            except psycopg.Error:
                over.wait(0.05)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.drawn(1)
@pytest.mark.parametrize("load", FEW_STOPS)
def test_fast_stops(load: str) -> None:
    with own_server() as server, fresh_database(server, "stopped") as database:
        prepare(database, USERS, FILL)
        backfill = {"chunk_rows": 20, "max_rate": "20 rows"} if load == "backfilling" else {}
        config = endpoint(database, backfill=backfill)
        apply(config, BOUND)
        state: Json = {}
        with written_to(database) if load == "written to" else nullcontext():
            for stop in range(0, STOPS or FEW_STOPS[load], STOPS_IN_A_SESSION):
                state = some_fast_stops(server, database, config, state, range(stop, stop + STOPS_IN_A_SESSION))
        assert all(bound["scan"].get("done", False) == (load != "backfilling") for bound in state["bindings"].values())


def some_fast_stops(server: Postgres, database: Database, config: Json, state: Json, stops: range) -> Json:
    """One session's share. What is said of it after each stop is what was written then; the state at the end."""
    with session(config, BOUND, state) as capture:
        # The state alone says that a backfill is over also while the connector still starts.
        capture.until(lambda c: c.checkpoints > 0 and (config["backfill"] or c.done()))
        for number in stops:
            let_pass(random.uniform(0, 1.5))  # What it asks the server now and then, it asks every second.
            assert stop_and_start(server) < DEADLINE, f"stop {number} of the server hung"
            mark = f"after stop {number}"
            prepare(database, f"INSERT INTO users VALUES ({-number}, '{mark}')")
            capture.until(named(mark))
        return capture.state


def test_a_stop_while_nobody_takes_what_is_captured(any_postgres: Postgres) -> None:
    """The connector waits for whoever reads its output, and not at all for the server."""
    with own_server(at_least=any_postgres.version) as server, fresh_database(server, "stopped") as database:
        prepare(database, USERS)
        config = endpoint(database)
        apply(config, BOUND)
        with session(config, BOUND) as capture:
            capture.until(Session.done)
            capture.hold()
            prepare(database, "INSERT INTO users SELECT i, repeat('x', 1000) FROM generate_series(1, 80000) i")
            wait_until(lambda: capture.full, 30, "the pipe is full")
            assert stop_and_start(server) < DEADLINE
            capture.let_go()
            capture.until(lambda c: len(c.documents) == 80_000, 120)


def test_a_stream_that_nobody_reads_is_closed(database: Database) -> None:
    """The session is ended, nobody can connect anew: the capture waits, and its walsender is gone meanwhile."""
    prepare(database, USERS)
    config = endpoint(database)
    apply(config, BOUND)
    with session(config, BOUND) as capture, database.connect("postgres") as admin:
        capture.until(Session.done)
        admin.execute(f"ALTER DATABASE {database.name} ALLOW_CONNECTIONS false")
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = %s AND application_name = 'tidemark' AND backend_type = 'client backend'",
            [database.name],
        )
        active = "SELECT active FROM pg_replication_slots WHERE slot_name = %s"
        wait_until(lambda: admin.execute(active, [config["slot"]]).fetchone() == (False,), 60, "the walsender is gone")
        admin.execute(f"ALTER DATABASE {database.name} ALLOW_CONNECTIONS true")
        prepare(database, "INSERT INTO users VALUES (1, 'after')")
        capture.until(lambda c: (1,) in c.rows())
