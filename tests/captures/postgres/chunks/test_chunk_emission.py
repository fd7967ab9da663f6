"""When a chunk is emitted: not before the log has passed its fence, however long that takes."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from tests.captures.engine.test_commands import control, handled
from tests.captures.session import Session, apply, bindings, session
from tests.captures.source_tables import BOUND, end_of_log, endpoint, prepare, table_rows
from tidemark.captures.postgres.server.positions import parse_lsn
from tidemark.testing.deadline import wait_until
from tidemark.testing.halted import halted
from tidemark.testing.servers.postgres import Connection, Database

ROWS = 20


WALSENDER = "SELECT active_pid FROM pg_replication_slots WHERE database = current_database()"
"""While it is halted, the log goes on, and nothing of it comes."""


def wait_for_a_chunk(admin: Connection, begin: Callable[[], None]) -> None:
    """Waits until a chunk was read that was begun after ``begin``."""
    read = (
        "SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'tidemark'"
        " AND state = 'idle' AND query = 'ROLLBACK' AND state_change > %s"
    )
    now = admin.execute("SELECT clock_timestamp()").fetchone()
    begin()
    wait_until(lambda: admin.execute(read, now).fetchone() is not None, 20, "a chunk was read")


def sent(admin: Connection) -> int:
    """How far the server has sent the log."""
    row = admin.execute(
        "SELECT r.sent_lsn::text FROM pg_stat_replication r JOIN pg_replication_slots s ON s.active_pid = r.pid"
        " WHERE s.database = current_database()"
    ).fetchone()
    assert row is not None
    return parse_lsn(row[0])


def command(capture: Session, action: str, **more: Any) -> None:
    """A command for the table users; it is carried out afterwards."""
    sequence = capture.state.get("control", 0) + 1
    capture.send(control(sequence, action, "public.users", **more))
    capture.until(handled(sequence))


def let_it_work(capture: Session) -> None:
    """Commands are carried out between the steps of the engine's loop, which has time for all that it may do."""
    for _ in range(6):
        command(capture, "priority", priority=0)


@pytest.mark.usefixtures("both_forms")
def test_a_chunk_that_is_ahead_of_the_log_waits_for_it(database: Database) -> None:
    prepare(
        database,
        "CREATE TABLE users (id int PRIMARY KEY, n int)",
        f"INSERT INTO users SELECT i, 0 FROM generate_series(1, {ROWS}) i",
    )
    config = endpoint(database)
    with database.connect() as admin, session(config, BOUND) as capture:
        capture.until(lambda c: c.done() and len(c.documents) == ROWS)
        with halted(database, WALSENDER):
            prepare(database, *["UPDATE users SET n = n + 1"] * 3)
            wait_for_a_chunk(admin, lambda: command(capture, "backfill"))
            let_it_work(capture)
            assert len(capture.documents) == ROWS
        end = end_of_log(database)
        capture.until(lambda c: c.done() and parse_lsn(c.state["cursor"]) >= end)
        assert capture.rows() == table_rows(database, "SELECT id, n FROM users")
        for key in range(1, ROWS + 1):
            seen = [doc["n"] for _, doc in capture.documents if doc["id"] == key]
            assert seen == sorted(seen), "a row went back in time"


@pytest.mark.usefixtures("both_forms")
def test_a_row_that_is_read_again_is_not_emitted_where_the_log_gave_a_newer_one(database: Database) -> None:
    prepare(
        database,
        "CREATE TABLE users (id int PRIMARY KEY, n int, bio text)",
        "ALTER TABLE users ALTER bio SET STORAGE EXTERNAL",
        "INSERT INTO users SELECT i, 0, repeat(i::text || ' ', 3000) FROM generate_series(1, 5) i",
    )
    update = "UPDATE users SET n = n + 1 WHERE id = 1"  # Its large value is not in the log.
    with database.connect() as admin, session(endpoint(database), BOUND) as capture:
        capture.until(Session.done)
        with halted(database, WALSENDER):
            prepare(database, update)
            wait_for_a_chunk(admin, lambda: command(capture, "backfill"))
            command(capture, "pause")
        # The chunk comes without the row, which is left to be read again by its key.
        capture.until(lambda c: c.state["bindings"]["public%2Fusers"]["scan"]["rereads"] == [["1"]])
        with halted(database, WALSENDER):
            prepare(database, update)
            wait_for_a_chunk(admin, lambda: command(capture, "resume"))
            prepare(database, update)
            let_it_work(capture)
            os.kill(capture.process.pid, signal.SIGSTOP)  # So that it reads all of the log at once.
        end = end_of_log(database)
        wait_until(lambda: sent(admin) >= end, 20, "the log is sent")
        os.kill(capture.process.pid, signal.SIGCONT)
        capture.until(lambda c: c.done() and parse_lsn(c.state["cursor"]) >= end)
        assert capture.rows() == table_rows(database, "SELECT id, n, bio FROM users")
        seen = [doc["n"] for _, doc in capture.documents if doc["id"] == 1]
        assert seen == sorted(seen), "the row went back in time"


def test_a_table_of_lower_priority_is_not_read_while_the_log_holds_up_the_one_before_it(database: Database) -> None:
    prepare(
        database,
        "CREATE TABLE users (id int PRIMARY KEY)",
        "CREATE TABLE urgent (id int PRIMARY KEY)",
        *(f"INSERT INTO {table} SELECT generate_series(1, {ROWS})" for table in ("users", "urgent")),
    )
    bound = bindings("public.users") + bindings("public.urgent", priority=1)
    config = endpoint(database, backfill={"chunk_rows": 5})
    apply(config, bound)
    with (
        database.connect(autocommit=False) as blocker,
        database.connect() as admin,
        session(config, bound) as capture,
    ):
        blocker.execute("SELECT pg_current_xact_id()")
        capture.until(lambda c: any("waits for transactions" in line["message"] for line in c.logs))
        with halted(database, WALSENDER):
            wait_for_a_chunk(admin, blocker.commit)
            let_it_work(capture)
        capture.until(Session.done)
    assert [binding for binding, _ in capture.documents] == [1] * ROWS + [0] * ROWS
