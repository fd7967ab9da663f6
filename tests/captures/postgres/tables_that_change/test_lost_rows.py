"""Tables whose rows are written anew, or that take one another's names, while they are captured."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.captures.postgres.chunk_reads import opened
from tests.captures.postgres.tables_that_change.capturing import SECONDS, capturing, held, kept, made
from tests.captures.session import Session
from tests.captures.source_tables import prepare
from tidemark.captures.postgres.tables_that_change import rewrites
from tidemark.captures.postgres.tables_that_change.comparison import oldest_running
from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.postgres import Database

KEYLESS = [
    "CREATE TABLE t (id int, a text)",
    "ALTER TABLE t REPLICA IDENTITY FULL",
    "INSERT INTO t SELECT i, 'a' || i FROM generate_series(1, 1000) i",
]
REWRITES = [
    "ALTER TABLE t ALTER id TYPE bigint",
    "ALTER TABLE t ADD b timestamptz DEFAULT clock_timestamp()",
    "ALTER TABLE t ALTER a TYPE text USING upper(a)",
    "VACUUM FULL t",
]


def _without_times(rows: Any) -> Any:
    return sorted(row.split('"b"')[0] for row in rows.elements())


@pytest.mark.parametrize("alter", REWRITES)
def test_a_table_without_a_key_is_rewritten_before_its_first_chunk(database: Database, alter: str) -> None:
    """All its rows are newer than the barrier then, and the log has none of them."""
    prepare(database, *KEYLESS)
    begun = made(database)
    with database.connect(autocommit=False) as blocker:
        blocker.execute("SELECT pg_current_xact_id()")
        with capturing(database, begun) as capture:
            capture.until(lambda c: any("waits for transactions" in line["message"] for line in c.logs), SECONDS)
            prepare(database, alter)
            blocker.commit()
            capture.until(lambda c: c.done() and sum(kept(c, key=()).values()) >= 1000, SECONDS)
            assert _without_times(kept(capture, key=())) == _without_times(held(database))


@pytest.mark.parametrize("alter", REWRITES[:2])
def test_a_partition_without_a_key_is_rewritten_while_another_is_read(database: Database, alter: str) -> None:
    parts = [f"CREATE TABLE p{i} PARTITION OF t FOR VALUES FROM ({i * 100}) TO ({i * 100 + 100})" for i in range(4)]
    prepare(
        database,
        "CREATE TABLE t (id int, a text) PARTITION BY RANGE (id)",
        "ALTER TABLE t REPLICA IDENTITY FULL",
        *parts,
        *(f"ALTER TABLE p{i} REPLICA IDENTITY FULL" for i in range(4)),
        "INSERT INTO t SELECT i, 'a' || i FROM generate_series(0, 399) i",
    )
    alter = alter.replace("ALTER id TYPE bigint", "ALTER a TYPE varchar(20)")
    with capturing(database, backfill={"chunk_rows": 20, "max_rate": "200 rows/s"}) as capture:
        capture.until(lambda c: len(c.documents) >= 40, SECONDS)
        prepare(database, alter)
        capture.until(lambda c: c.done() and _without_times(kept(c, key=())) == _without_times(held(database)), SECONDS)


def test_a_table_without_a_key_is_rewritten_between_two_sessions(database: Database) -> None:
    prepare(database, *KEYLESS)
    begun = made(database)
    with database.connect(autocommit=False) as blocker:
        blocker.execute("SELECT pg_current_xact_id()")
        with capturing(database, begun) as first:
            first.until(lambda c: any("waits for transactions" in line["message"] for line in c.logs), SECONDS)
        prepare(database, REWRITES[0])
    with capturing(database, first.state, stop=True) as second:
        assert second.finish() == 0
        assert kept(second, key=()) == held(database)


FILLED = "INSERT INTO {} SELECT i, '{}' || i FROM generate_series(1, 100) i"
SWAPPED = ["ALTER TABLE t RENAME TO u", "ALTER TABLE s RENAME TO t", "ALTER TABLE u RENAME TO s"]


def _two_tables(database: Database, *more: str) -> None:
    prepare(
        database,
        *(f"CREATE TABLE {name} (id int PRIMARY KEY, a text)" for name in "ts"),
        *(FILLED.format(name, name) for name in "ts"),
        *more,
    )


def _swap(database: Database) -> None:
    with database.connect(autocommit=False) as connection:
        for statement in SWAPPED:
            connection.execute(statement)
        connection.commit()


@pytest.mark.parametrize("publication", ["FOR ALL TABLES", "FOR TABLE t, s"])
def test_changes_of_the_old_table_after_a_swap_of_names(database: Database, publication: str) -> None:
    _two_tables(database, f"CREATE PUBLICATION tidemark {publication}")
    with capturing(database) as capture:
        capture.until(Session.done)
        _swap(database)
        # The log shows the old one under its new name before it shows that the other one has taken its place.
        prepare(
            database, "DELETE FROM s WHERE id < 5", "UPDATE t SET a = 'n' WHERE id = 1", "DELETE FROM s WHERE id < 50"
        )
        capture.until(lambda c: kept(c) == held(database), SECONDS)
        prepare(database, "DELETE FROM s WHERE id > 90", "INSERT INTO s VALUES (1000, 'old')")
        prepare(database, "INSERT INTO t VALUES (2000, 'last')")
        capture.until(lambda c: any('"last"' in row for row in kept(c)), SECONDS)
        assert kept(capture) == held(database)


def test_a_swap_with_a_table_that_is_not_published(database: Database) -> None:
    """Nothing of the table that had the name is captured any more, and the new one is published and read."""
    _two_tables(database)
    with capturing(database) as capture:
        capture.until(Session.done)
        _swap(database)
        prepare(database, "UPDATE s SET a = 'old' WHERE id = 1", "UPDATE t SET a = 'new' WHERE id = 2")
        capture.until(lambda c: kept(c) == held(database), SECONDS)
        prepare(database, "DELETE FROM s WHERE id < 50", "INSERT INTO t VALUES (2000, 'last')")
        capture.until(lambda c: any('"last"' in row for row in kept(c)), SECONDS)
        assert kept(capture) == held(database)
        assert any(line.get("fields", {}).get("code") == "TM-PG-011" for line in capture.logs)


def test_two_captured_tables_swap_their_names(database: Database) -> None:
    _two_tables(database)
    both = ("public.t", "public.s")
    with capturing(database, tables=both) as capture:
        capture.until(Session.done)
        for turn in range(2):
            _swap(database)
            prepare(database, f"UPDATE t SET a = 't {turn}' WHERE id = 1", f"UPDATE s SET a = 's {turn}' WHERE id = 2")
            capture.until(
                lambda c: kept(c) == held(database) and kept(c, binding=1) == held(database, "SELECT * FROM s"), SECONDS
            )
            prepare(database, "DELETE FROM t WHERE id = 3", f"INSERT INTO s VALUES ({1000 + turn}, 'x')")
            capture.until(
                lambda c: kept(c) == held(database) and kept(c, binding=1) == held(database, "SELECT * FROM s"), SECONDS
            )
    _swap(database)
    prepare(database, "DELETE FROM t WHERE id = 50", "DELETE FROM s WHERE id = 60")
    with capturing(database, capture.state, tables=both, stop=True) as again:
        assert again.finish() == 0
        again.documents[:0] = capture.documents
        assert kept(again) == held(database)
        assert kept(again, binding=1) == held(database, "SELECT * FROM s")


def test_rows_that_were_moved_while_their_lock_was_awaited(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """They say nothing about the file that the table had before: it would be emptied, and for the new file again."""
    monkeypatch.setattr(rewrites, "LOCK_MILLISECONDS", SECONDS * 1000)
    rows = ("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t SELECT * FROM generate_series(1, 100)")
    with opened(database, *rows) as t, ThreadPoolExecutor(1) as asking:
        (store,) = t.binding.table.stores
        since = oldest_running(t.session)
        assert rewrites.has_lost_none(t.session, store, since, "") is True
        with database.connect(autocommit=False) as altering, database.connect() as looking:
            altering.execute("ALTER TABLE t ALTER id TYPE bigint")
            answer = asking.submit(rewrites.has_lost_none, t.session, store, since, "")
            waiting = "SELECT FROM pg_locks WHERE NOT granted AND relation = 't'::regclass"
            wait_until(lambda: looking.execute(waiting).fetchall(), SECONDS, "a query that waits for the lock")
            altering.commit()
        assert answer.result(SECONDS) is None
        assert rewrites.holds_rows(t.session, store) is None


ATTACHED = "ALTER TABLE t ATTACH PARTITION p FOR VALUES FROM (0) TO (10)"


@pytest.mark.parametrize(
    ("make", "had"),
    [
        (["CREATE TABLE p (id int PRIMARY KEY)", "INSERT INTO p VALUES (1), (2), (3)", ATTACHED], True),
        (["CREATE TABLE p (id int PRIMARY KEY); " + ATTACHED], True),
        (["CREATE TABLE p PARTITION OF t FOR VALUES FROM (0) TO (10)"], False),
        (
            ["CREATE TABLE p PARTITION OF t FOR VALUES FROM (0) TO (10)", "ALTER TABLE t DETACH PARTITION p", ATTACHED],
            True,
        ),
    ],
    ids=["attached", "attached at once", "created", "attached again"],
)
def test_rows_that_are_older_than_a_partition_among_many(
    database: Database, monkeypatch: pytest.MonkeyPatch, make: list[str], had: bool
) -> None:
    """VACUUM gives the places of old rows to new ones; what was created as a partition has no old ones."""
    monkeypatch.setattr(rewrites, "ROWS", 2)
    prepare(database, "CREATE TABLE t (id int PRIMARY KEY) PARTITION BY RANGE (id)", *make)
    with opened(database) as t:
        prepare(database, "DELETE FROM t WHERE id < 3", "VACUUM p", "INSERT INTO t VALUES (4), (5)")
        store = next(store for store in t.binding.table.stores if store.joined)
        assert rewrites.had_rows_before_it_joined(t.session, store, t.binding.table.oid) is had
