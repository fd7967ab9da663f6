"""Scans by key: ranges, conditions, and what ends a chunk."""

from __future__ import annotations

import time
from typing import Any

import pytest
from psycopg import sql

from tests.captures.postgres.chunk_reads import Table, after, opened
from tidemark.backfill.keys import Key, key_from_texts
from tidemark.backfill.range_scan import ChunkPlan
from tidemark.captures.contract.chunk import ChunkRequest
from tidemark.captures.postgres.chunks.copy_rows import ChunkLimits
from tidemark.captures.postgres.tables_that_change.rewrites import condition_of
from tidemark.protocol.errors import SourceError
from tidemark.testing.servers.postgres import Database

TWO_COLUMNS = (
    'CREATE TABLE t (a text COLLATE "C", b int, v int, PRIMARY KEY (a, b))',
    "INSERT INTO t SELECT chr(97 + i / 10), i % 10, i FROM generate_series(0, 99) i",
)


def key(*texts: str) -> Key:
    return key_from_texts(texts)


def values(documents: list[dict[str, Any]]) -> list[int]:
    return [document["v"] for document in documents]


def test_a_range_of_a_composite_key(any_database: Database) -> None:
    with opened(any_database, *TWO_COLUMNS) as table:
        assert values(table.scan(7, cursor=key("b", "3"), until=key("d", "5"))) == list(range(14, 36))
        # A bound of fewer columns stands for every key that begins with it.
        assert values(table.scan(7, cursor=key("b"), until=key("d"))) == list(range(20, 40))
        assert values(table.scan(7, cursor=key("d"), until=key("b"))) == []


def test_ranges_are_read_along_the_index(database: Database) -> None:
    with opened(
        database, *TWO_COLUMNS, "INSERT INTO t SELECT 'y', i, i FROM generate_series(1, 50000) i", "ANALYZE t"
    ) as t:
        target = t.target
        queries = [
            target.scan(key("b", "3"), key("y", "49000"), None, 100),
            target.scan(key("b"), key("y"), None, 100),
            target.scan(key("y", "5"), key("y"), None, 100),
            target.bound(key("b", "3"), key("y"), None, 100),
        ]
        for query in queries:
            plan = explained(t, query)
            assert "Sort" not in plan and "Seq Scan" not in plan, plan
            assert plan.count("Index Cond") == 1, plan
            assert "Filter" not in plan, plan


def test_a_partition_is_read_on_its_own(database: Database) -> None:
    """The server finds its rows without those of the others, also where a chunk is measured by the key."""
    with opened(
        database,
        "CREATE TABLE t (a int, v int, PRIMARY KEY (a, v)) PARTITION BY RANGE (v)",
        "CREATE TABLE low PARTITION OF t FOR VALUES FROM (0) TO (100)",
        "CREATE TABLE high PARTITION OF t FOR VALUES FROM (100) TO (200)",
        "INSERT INTO t SELECT i % 7, i FROM generate_series(0, 199) i",
    ) as t:
        high = next(store for store in t.binding.table.stores if store.name == "high")
        where = condition_of(t.session, high)
        assert where is not None
        for query in (t.target.scan(key("1"), None, where, None), t.target.bound(key("1"), None, where, 10)):
            plan = explained(t, query)
            assert " high" in plan and " low" not in plan, plan
        read = list(t.chunks(30, where=where))
        assert [chunk.scanned for chunk in read] == [30, 30, 30, 10]
        assert sorted(values(t.scan(30, where=where))) == list(range(100, 200))


def test_conditions_of_the_binding_and_of_the_scan(database: Database) -> None:
    with opened(database, *TWO_COLUMNS, where="v % 2 = 0 -- even ones") as table:
        assert values(table.scan(7, where="v % 3 = 0 OR false")) == list(range(0, 100, 6))


def test_a_chunk_ends_with_the_rows_it_looked_at_where_few_meet_the_condition(database: Database) -> None:
    with opened(database, *TWO_COLUMNS) as table:
        read = list(table.chunks(30, where="v = 95"))
    assert [len(chunk.rows) for chunk in read] == [0, 0, 0, 1]
    assert [chunk.scanned for chunk in read[:3]] == [30, 30, 30]
    assert [chunk.cursor for chunk in read] == [key("c", "9"), key("f", "9"), key("i", "9"), None]


def test_rereads_come_whatever_the_conditions(database: Database) -> None:
    with opened(database, *TWO_COLUMNS, where="v < 10") as table:
        chunk = table.reader.read(
            ChunkRequest(0, ChunkPlan(None, (key("c", "1"), key("zz", "1"), key("a", "0")), scan=False), 10),
            table.target,
        )
        assert not chunk.end and not len(chunk.rows)
        assert sorted(values(table.documents(chunk.rereads))) == [0, 21]


def test_a_chunk_of_too_many_bytes_is_ended_early(database: Database) -> None:
    wide = "INSERT INTO t SELECT i, repeat('x', 1000) FROM generate_series(1, 3000) i"
    with opened(database, "CREATE TABLE t (v int PRIMARY KEY, x text)", wide, limits=ChunkLimits(50_000)) as table:
        read = list(table.chunks(10_000))
        assert all(len(chunk.rows) < 3000 for chunk in read) and not any(chunk.end for chunk in read[:-1])
        assert [v for chunk in read for v in values(table.documents(chunk.rows))] == list(range(1, 3001))


def test_a_statement_timeout_with_rows_is_a_smaller_chunk(database: Database) -> None:
    """Rows up to 1000 come at once, and each of the others takes a tenth of a second."""
    slow = "CASE WHEN v > 1000 THEN pg_sleep(0.1) IS NOT NULL ELSE true END"
    fill = "INSERT INTO t SELECT i FROM generate_series(1, 2000) i"
    with opened(database, "CREATE TABLE t (v int PRIMARY KEY)", fill, limits=ChunkLimits(statement_seconds=1)) as table:
        chunk = table.chunk(2000, where=slow)
        found = values(table.documents(chunk.rows))
        assert found == list(range(1, len(found) + 1)) and 500 <= len(found) < 1100
        assert not chunk.end and after(chunk) == str(len(found)).encode()
        with pytest.raises(SourceError, match=r"TM-PG-019.*57014"):
            table.chunk(2000, where="pg_sleep(0.1) IS NULL")
        assert len(table.chunk(3).rows) == 3


def test_a_lock_is_not_waited_for_long(database: Database) -> None:
    limits = ChunkLimits(statement_seconds=1)
    with opened(database, *TWO_COLUMNS, limits=limits) as table, database.connect(autocommit=False) as other:
        other.execute("LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(SourceError) as failure:
            table.chunk()
        assert failure.value.entry.policy.value == "retry"
        other.rollback()
        assert len(table.chunk().rows) == 10


def test_a_server_that_says_nothing_is_taken_for_gone(database: Database) -> None:
    with opened(database, *TWO_COLUMNS, limits=ChunkLimits(answer_seconds=1)) as table:
        started = time.monotonic()
        with pytest.raises(SourceError, match=r"TM-PG-020.*has not answered for 1 s"):
            table.chunk(where="pg_sleep(20) IS NOT NULL")
        assert time.monotonic() - started < 10


def test_no_snapshot_is_held_between_chunks(database: Database) -> None:
    """The oldest transaction id that the server must keep for us, as vacuum sees it."""
    held = """
        SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tidemark' AND datname = current_database()
        AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL OR state LIKE 'idle in%')"""
    with opened(database, *TWO_COLUMNS) as table:
        for _ in table.chunks(20):
            assert table.session.execute(held).fetchone() == (0,)


def explained(table: Table, query: sql.Composable) -> str:
    """The plan, as a session like the reader's would make it."""
    table.session.execute("SET enable_sort = off")
    with table.session.cursor() as cursor:
        rows = cursor.execute(sql.SQL("EXPLAIN {}").format(query)).fetchall()
    return "\n".join(row[0] for row in rows)
