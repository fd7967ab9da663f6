"""Several readers over several tables, and over several ranges of one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.captures.session import Session, apply, bindings, session
from tests.captures.source_tables import BOUND, USERS, endpoint, prepare, table_rows
from tidemark.testing.servers.postgres import Database

pytestmark = pytest.mark.heavy

SKEWED = "INSERT INTO users SELECT CASE WHEN i <= 3000 THEN i ELSE i * 100000 END, 'x' FROM generate_series(1, 4000) i"


def ranges(capture: Session) -> int:
    """Unfinished ranges in the state of the first binding."""
    return len(capture.state["bindings"]["public%2Fusers"]["scan"].get("ranges", []))


def snapshots(capture: Session) -> list[Any]:
    return [doc["id"] for _, doc in capture.documents if doc["_meta"]["source"].get("snapshot")]


def test_one_table_is_read_in_ranges_while_it_is_written(database: Database) -> None:
    prepare(database, USERS, SKEWED, "ANALYZE users")
    config = endpoint(database, backfill={"readers": 4, "chunk_rows": 200})
    apply(config, BOUND)
    most = largest = 0
    with session(config, BOUND) as capture:
        writes = 0
        while not (capture.state and capture.done()):
            seen = capture.checkpoints + 3
            prepare(database, f"UPDATE users SET name = 'w{writes}' WHERE id % 97 = {writes % 97}")
            writes += 1
            capture.until(lambda c: c.checkpoints >= seen or c.done())  # noqa: B023 - called within this turn
            most = max(most, ranges(capture))
            largest = max(largest, len(json.dumps(capture.state["bindings"]["public%2Fusers"])))
        capture.until(lambda c: c.rows() == table_rows(database))
    assert most > 1
    assert largest < 4096
    assert len(snapshots(capture)) == len(set(snapshots(capture))), "no cut falls into a chunk that was read"


def test_ranges_go_on_after_a_restart(database: Database) -> None:
    prepare(database, USERS, SKEWED, "ANALYZE users")
    config = endpoint(database, backfill={"readers": 4, "chunk_rows": 50})
    apply(config, BOUND)
    with session(config, BOUND) as capture:
        capture.until(lambda c: len(snapshots(c)) >= 1500)
    before = len(snapshots(capture))
    with session({**config, "backfill": {"readers": 2}}, BOUND, capture.state, stop=True) as again:
        assert again.finish() == 0
        assert len(snapshots(again)) <= 4000 - before + 4 * 50
        again.documents[:0] = capture.documents
        assert again.rows() == table_rows(database)


def test_tables_are_served_in_turn(database: Database) -> None:
    names = [f"t{number}" for number in range(5)]
    for name in names:
        prepare(
            database,
            f"CREATE TABLE {name} (id int PRIMARY KEY)",
            f"INSERT INTO {name} SELECT generate_series(1, 500)",
        )
    bound = bindings(*(f"public.{name}" for name in names))
    config = endpoint(database, backfill={"readers": 2, "chunk_rows": 50})
    apply(config, bound)
    with session(config, bound, stop=True) as capture:
        assert capture.finish() == 0
    for binding in range(5):
        assert len(capture.rows(binding)) == 500
    # When the first table is done, the last one is not far behind.
    ends = {index: place for place, (index, _) in enumerate(capture.documents)}
    starts: dict[int, int] = {}
    for place, (index, _) in enumerate(capture.documents):
        starts.setdefault(index, place)
    assert max(starts.values()) < min(ends.values())
