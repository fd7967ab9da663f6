"""Tables without a key: each row comes from the scan or from the log, also where rows change while they are read."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.captures.session import Session, apply, bindings, session
from tests.captures.source_tables import endpoint, prepare
from tidemark.testing.servers.postgres import Database, fresh_database, own_server

ROWS = 1000
FILL = f"INSERT INTO events SELECT i % 50, repeat('x', 100) || i % 50 FROM generate_series(1, {ROWS}) i"
EVENTS = ("CREATE TABLE events (id int, name text)", "ALTER TABLE events REPLICA IDENTITY FULL", FILL)
PARTS = (
    "CREATE TABLE events (id int, name text) PARTITION BY RANGE (id)",
    "CREATE TABLE low PARTITION OF events FOR VALUES FROM (0) TO (25)",
    "CREATE TABLE high PARTITION OF events FOR VALUES FROM (25) TO (100000)",
    *(f"ALTER TABLE {name} REPLICA IDENTITY FULL" for name in ("events", "low", "high")),
    FILL,
)
BOUND = bindings("public.events")
SLOW = {"chunk_rows": 50, "max_rate": "2000 rows"}

Row = tuple[Any, ...]


def added_up(capture: Session) -> Counter[Row]:
    """What came counts one more, what went one less, since the table was emptied last."""
    found: Counter[Row] = Counter()
    for _, doc in capture.documents:
        meta = doc["_meta"]
        if meta["op"] == "t":
            found.clear()
            continue
        found[doc["id"], doc["name"]] += -1 if meta["op"] == "d" else 1
        if meta["op"] == "u":
            found[meta["before"]["id"], meta["before"]["name"]] -= 1
    return Counter({row: count for row, count in found.items() if count})


def counted(database: Database) -> Counter[Row]:
    with database.connect() as connection:
        return Counter(connection.execute("SELECT id, name FROM events").fetchall())


def emptied(capture: Session) -> int:
    return sum(doc["_meta"]["op"] == "t" for _, doc in capture.documents)


def until_equal(capture: Session, database: Database) -> None:
    capture.until(lambda c: c.done() and added_up(c) == counted(database))


@pytest.mark.parametrize("statements", [EVENTS, PARTS], ids=["plain", "partitioned"])
def test_rows_that_change_before_the_scan_is_there(any_database: Database, statements: tuple[str, ...]) -> None:
    prepare(any_database, *statements)
    config = endpoint(any_database, backfill=SLOW)
    with session(config, BOUND) as capture:
        capture.until(lambda c: len(c.documents) >= 50)
        prepare(
            any_database,
            "DELETE FROM events WHERE id IN (13, 43)",
            "UPDATE events SET name = 'new' WHERE id IN (11, 44)",
            "INSERT INTO events SELECT 60, 'late' FROM generate_series(1, 20)",
            "UPDATE events SET id = 61 WHERE id = 60",
        )
        until_equal(capture, any_database)
        assert emptied(capture) <= 1  # Once it is known that rows are changed, they may be.


def test_rows_that_are_changed_all_the_time(database: Database) -> None:
    prepare(database, *EVENTS)
    with session(endpoint(database, backfill=SLOW), BOUND) as capture:
        for number in range(40):
            capture.until(lambda c, n=number: c.done() or len(c.documents) >= n * 20)  # type: ignore[misc]
            prepare(
                database,
                f"UPDATE events SET name = 'n{number}' WHERE id = {number}",
                f"DELETE FROM events WHERE id = {49 - number} AND name LIKE 'x%'",
                f"INSERT INTO events VALUES ({number}, 'i')",
            )
        until_equal(capture, database)
        assert emptied(capture) == 1


@pytest.mark.heavy
def test_a_transaction_that_writes_by_savepoints(database: Database) -> None:
    """Its rows have the id of a subtransaction, which the snapshot at which it ran does not name."""
    prepare(database, *EVENTS, "CREATE TABLE others (id int)")
    config = endpoint(database, backfill={"chunk_rows": 50, "max_rate": "250 rows"})
    with database.connect() as earlier, database.connect() as writer:
        apply(config, BOUND)
        earlier.execute("BEGIN; INSERT INTO others VALUES (1)")
        with session(config, BOUND) as capture:
            capture.until(lambda c: "waits for transactions" in str(c.logs))
            writer.execute("BEGIN; INSERT INTO others VALUES (2); SAVEPOINT a; INSERT INTO others VALUES (3)")
            prepare(database, "INSERT INTO others VALUES (4)")  # A snapshot names what ran below the last that is over.
            earlier.execute("COMMIT")
            capture.until(lambda c: len(c.documents) >= 50)
            writer.execute("INSERT INTO events SELECT 70, 'sub' FROM generate_series(1, 30)")
            writer.execute("RELEASE SAVEPOINT a; COMMIT")
            until_equal(capture, database)
            assert emptied(capture) == 1


def test_a_held_snapshot_is_opened_again(database: Database) -> None:
    """A server may end any session, and the scan with it: what was read by then counts no more."""
    prepare(database, *EVENTS)
    with session(endpoint(database, backfill=SLOW), BOUND) as capture:
        capture.until(lambda c: len(c.documents) >= 50)
        prepare(database, "UPDATE events SET name = 'new' WHERE id = 40")
        capture.until(lambda c: emptied(c) == 1 and len(c.documents) >= 200)
        prepare(
            database,
            "DELETE FROM events WHERE id = 41",
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'tidemark' AND state = 'idle in transaction' AND datname = current_database()",
        )
        until_equal(capture, database)
        assert emptied(capture) == 2


def test_a_held_scan_in_which_rows_were_deleted_is_not_resumed(database: Database) -> None:
    prepare(database, *EVENTS)
    config = endpoint(database, backfill=SLOW)
    with session(config, BOUND) as first:
        first.until(lambda c: len(c.documents) >= 50)
        prepare(database, "UPDATE events SET name = 'new' WHERE id = 40")
        first.until(lambda c: emptied(c) == 1 and len(c.documents) >= 150)
        prepare(database, "DELETE FROM events WHERE id = 41")
        first.until(lambda c: any(doc["_meta"]["op"] == "d" for _, doc in c.documents))
        first.process.kill()
    with session(config, BOUND, first.state) as second:
        second.documents[:0] = first.documents
        until_equal(second, database)
        assert emptied(second) == 2


def change(database: Database) -> None:
    prepare(database, "UPDATE events SET name = 'new' WHERE id = 40", "DELETE FROM events WHERE id = 41")


def add(database: Database) -> None:
    prepare(database, "INSERT INTO events SELECT 80, 'late' FROM generate_series(1, 30)")


@pytest.mark.parametrize("change_it", [add, change])
@pytest.mark.parametrize("meanwhile", [False, True], ids=["before", "while it is away"])
def test_a_scan_is_resumed_where_rows_were_only_added(
    database: Database, change_it: Callable[[Database], None], meanwhile: bool
) -> None:
    prepare(database, *EVENTS)
    config = endpoint(database, backfill=SLOW)
    with session(config, BOUND) as first:
        first.until(lambda c: len(c.documents) >= 100)
        if not meanwhile:
            change_it(database)
            first.until(lambda c: any("txid" in doc["_meta"]["source"] for _, doc in c.documents))
        first.process.kill()
    if meanwhile:
        change_it(database)
    with session(config, BOUND, first.state) as second:
        second.documents[:0] = first.documents
        until_equal(second, database)
        assert emptied(second) <= (2 if change_it is change else 0)


@pytest.mark.slow
def test_transaction_ids_that_have_gone_round() -> None:
    """Rows have the low 32 bits of the id that wrote them: those of the last round look as if they were yet to come."""
    with own_server() as server:
        assert server.server is not None and server.binaries is not None
        with fresh_database(server, "round") as database:
            prepare(database, *EVENTS)
            server.server.stop()
            data = server.server.data
            owner = data.stat().st_uid if os.getuid() == 0 else None
            reset = [str(server.binaries / "pg_resetwal"), "--epoch", "1", str(data)]
            subprocess.run(reset, check=True, capture_output=True, user=owner, cwd=data)
            server.server.start()
            slower = {"chunk_rows": 50, "max_rate": "250 rows"}
            with session(endpoint(database, backfill=slower, slot="whole"), BOUND) as capture:
                capture.until(lambda c: len(c.documents) >= 100)
                add(database)
                until_equal(capture, database)
                assert emptied(capture) == 0
            config = endpoint(database, backfill=SLOW)
            with session(config, BOUND) as first:
                first.until(lambda c: len(c.documents) >= 100)
            with session(config, BOUND, first.state) as second:
                second.documents[:0] = first.documents
                until_equal(second, database)
                assert emptied(second) == 1
