"""A deadlock in which a statement of ours is ended: it is run again, and the capture starts."""

from __future__ import annotations

import threading
from collections.abc import Callable

import psycopg
import pytest

from tests.captures.session import Session, bindings, session
from tests.captures.source_tables import endpoint, prepare
from tidemark.captures.postgres.server.session import DEADLOCKS, Deadlock, asking, despite_deadlocks
from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.postgres import Database


def test_a_capture_starts_although_publishing_runs_into_a_deadlock(database: Database) -> None:
    prepare(database, "CREATE TABLE first (id int PRIMARY KEY)", "CREATE TABLE second (id int PRIMARY KEY)")
    both = bindings("public.first", "public.second")
    with database.connect(autocommit=False) as other:
        other.execute("SET deadlock_timeout = '1h'")  # So it is not this one that is ended.
        other.execute("LOCK TABLE second IN SHARE ROW EXCLUSIVE MODE")
        with session(endpoint(database), both) as capture:
            wait_until(lambda: _waits(database), 30, "publishing has the first table, and waits for the second")
            locking = threading.Thread(target=other.execute, args=["LOCK TABLE first IN SHARE ROW EXCLUSIVE MODE"])
            locking.start()
            again = "it is tried again"
            wait_until(lambda: any(again in line["message"] for line in capture.logs), 30, "the deadlock is told")
            locking.join()
            other.rollback()
            capture.until(Session.done)


def _waits(database: Database) -> bool:
    with database.connect() as admin:
        found = admin.execute("SELECT FROM pg_locks WHERE relation = 'second'::regclass AND NOT granted").fetchone()
    return found is not None


@pytest.mark.parametrize("deadlocks", [DEADLOCKS - 1, DEADLOCKS])
def test_what_ends_in_deadlocks_all_the_time_is_an_error(database: Database, deadlocks: int) -> None:
    attempts = _attempts(database, deadlocks)
    if deadlocks < DEADLOCKS:
        assert despite_deadlocks(attempts) == "done"
        return
    with pytest.raises(Deadlock, match=r"TM-PG-020.*asking for something: a deadlock"):
        despite_deadlocks(attempts)


def _attempts(database: Database, deadlocks: int) -> Callable[[], str]:
    left = iter(range(deadlocks))

    def attempt() -> str:
        with database.connect() as connection, asking("asking for something"):
            if next(left, None) is not None:
                connection.execute("DO $$ BEGIN RAISE 'a deadlock' USING ERRCODE = '40P01'; END $$")
        return "done"

    return attempt


def test_other_errors_are_raised_at_once(database: Database) -> None:
    with database.connect() as connection, pytest.raises(psycopg.errors.DivisionByZero):
        despite_deadlocks(lambda: connection.execute("SELECT 1 / 0"))
