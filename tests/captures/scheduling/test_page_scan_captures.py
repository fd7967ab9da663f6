"""Captures that read tables by their pages: without a key, partitioned, rewritten on the way; and what readers hold."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import pytest

from tests.captures.session import Session, apply, bindings, session
from tests.captures.source_tables import endpoint, prepare, table_rows
from tidemark.testing.servers.postgres import Database

pytestmark = pytest.mark.heavy

EVENTS = ("CREATE TABLE events (id int, name text)", "ALTER TABLE events REPLICA IDENTITY FULL")
FILL = "INSERT INTO events SELECT i, repeat('x', 100) || i FROM generate_series(1, 3000) i"
BOUND = bindings("public.events")


def ids(capture: Session) -> Counter[int]:
    assert {doc["_meta"]["op"] for _, doc in capture.documents} <= {"c"}
    return Counter(doc["id"] for _, doc in capture.documents)


def places(capture: Session) -> set[tuple[int, ...]]:
    return {tuple(doc["_meta"]["source"]["loc"]) for _, doc in capture.documents}


@pytest.mark.parametrize("partitioned", [False, True])
def test_each_row_without_a_key_comes_once(any_database: Database, partitioned: bool) -> None:
    parts = [
        "CREATE TABLE events (id int, name text) PARTITION BY RANGE (id)",
        "CREATE TABLE low PARTITION OF events FOR VALUES FROM (0) TO (1000)",
        "CREATE TABLE high PARTITION OF events FOR VALUES FROM (1000) TO (100000)",
        *(f"ALTER TABLE {name} REPLICA IDENTITY FULL" for name in ("events", "low", "high")),
    ]
    prepare(any_database, *(parts if partitioned else EVENTS), FILL)
    config = endpoint(any_database, backfill={"chunk_rows": 100})
    apply(config, BOUND)
    insert = "INSERT INTO events SELECT i, 'new' FROM generate_series({}, {}) i"
    prepare(any_database, insert.format(5001, 5050))  # In the log, and in the pages.
    with session(config, BOUND) as first:
        first.until(lambda c: len(c.documents) >= 500)
        prepare(any_database, insert.format(6001, 6050))
    with session(config, BOUND, first.state, stop=True) as second:
        assert second.finish() == 0
        second.documents[:0] = first.documents
    wanted = [*range(1, 3001), *range(5001, 5051), *range(6001, 6051)]
    found = ids(second)
    # What was written between the slot's making and the capture's beginning may come from both.
    assert sorted(found) == wanted
    assert [n for n, count in found.items() if count > 1 and not 5001 <= n <= 5050] == []
    assert len(places(second)) == sum(found.values())


def test_a_table_that_is_rewritten_is_read_from_its_start(database: Database) -> None:
    prepare(database, "CREATE TABLE events (id int PRIMARY KEY, name text)", FILL)
    bound = bindings("public.events", scan="physical")
    config = endpoint(database, backfill={"chunk_rows": 100})
    apply(config, bound)
    with session(config, bound) as first:
        first.until(lambda c: len(c.documents) >= 500)
    prepare(database, "DELETE FROM events WHERE id % 3 = 0", "VACUUM FULL events")
    prepare(database, "UPDATE events SET name = 'late' WHERE id % 100 = 1")
    with session(config, bound, first.state, stop=True) as second:
        assert second.finish() == 0
        second.documents[:0] = first.documents
        assert second.rows() == table_rows(database, "SELECT id, name FROM events")


def test_readers_hold_back_no_cleaning_up(database: Database) -> None:
    """How many transaction ids the oldest snapshot of ours lies behind, while others use them up."""
    prepare(database, "CREATE TABLE events (id int PRIMARY KEY, name text)", FILL)
    config = endpoint(database, backfill={"chunk_rows": 30})
    apply(config, BOUND)
    over = threading.Event()
    behind: list[int] = []
    held = """
        SELECT coalesce(max(greatest(age(backend_xmin), age(backend_xid))), 0)
        FROM pg_stat_activity WHERE application_name = 'tidemark' AND datname = current_database()"""

    def burn() -> None:
        with database.connect() as writer:
            while not over.is_set():
                row: Any = writer.execute("SELECT pg_current_xact_id()").fetchone()
                behind.append((writer.execute(held).fetchone() or row)[0])

    thread = threading.Thread(target=burn)
    thread.start()
    try:
        with session(config, BOUND, stop=True) as capture:
            assert capture.finish() == 0
            assert len(capture.documents) == 3000
    finally:
        over.set()
        thread.join()
    assert len(behind) > 300 and max(behind) < len(behind) / 3, (len(behind), max(behind))
