"""Publications that come to publish less of a table, and tables that leave the log for a moment."""

from __future__ import annotations

import pytest

from tests.captures.impatient import aside_of
from tests.captures.postgres.tables_that_change.capturing import SECONDS, capturing, held, kept, operations
from tests.captures.session import Session
from tests.captures.source_tables import prepare
from tidemark.testing.servers.postgres import Database

TABLES = [
    "CREATE TABLE s (id int PRIMARY KEY)",
    "INSERT INTO s VALUES (1)",
    "CREATE TABLE t (id int PRIMARY KEY, a text DEFAULT lower('A'))",
    "INSERT INTO t SELECT i, 'a' || i FROM generate_series(1, 100) i",
]
BOTH = ("public.t", "public.s")
CHANGE = ["UPDATE t SET a = 'new' WHERE id < 10", "DELETE FROM t WHERE id > 90"]


@pytest.mark.parametrize(
    ("alter", "back"),
    [
        (
            "ALTER PUBLICATION tidemark SET (publish = 'insert')",
            "ALTER PUBLICATION tidemark SET (publish = 'insert, update, delete, truncate')",
        ),
        (
            "ALTER PUBLICATION tidemark SET TABLE s, t WHERE (id > 50)",
            "ALTER PUBLICATION tidemark SET TABLE s, t",
        ),
        ("ALTER PUBLICATION tidemark SET TABLE s, t (id)", "ALTER PUBLICATION tidemark SET TABLE s, t"),
    ],
)
def test_a_publication_of_less(database: Database, alter: str, back: str) -> None:
    """While the capture runs, and again while it does not; put right before anybody looked, it counts all the same."""
    if database.version < 15 and "TABLE" in alter:
        pytest.skip("row filters and lists of columns came with version 15")
    prepare(database, *TABLES)
    with capturing(database, tables=BOTH) as capture:
        capture.until(Session.done)
        prepare(database, alter, *CHANGE)
        capture.until(lambda c: aside_of(c, "t") is not None, SECONDS)
        aside = aside_of(capture, "t")
        assert aside is not None and aside["code"] == "TM-PG-011"
        prepare(database, back)
        capture.until(lambda c: aside_of(c, "t") is None and kept(c) == held(database), SECONDS)
    prepare(database, alter, "UPDATE t SET a = 'down' WHERE id = 20", "DELETE FROM t WHERE id = 30", back)
    with capturing(database, capture.state, tables=BOTH, stop=True) as again:
        assert again.finish() == 0
        again.documents[:0] = capture.documents
        assert kept(again) == held(database)


def test_a_publication_that_publishes_less_when_the_capture_opens(database: Database) -> None:
    prepare(database, *TABLES)
    with capturing(database, stop=True) as first:
        assert first.finish() == 0
    prepare(database, "ALTER PUBLICATION tidemark SET (publish = 'insert, update')", "DELETE FROM t WHERE id = 3")
    with capturing(database, first.state, stop=True) as second:
        assert second.finish() == 1
        assert second.logs[-1]["fields"]["code"] == "TM-PG-011"
        assert "publish = 'insert, update, delete, truncate'" in second.logs[-1]["fields"]["remedy"]


def test_a_publication_that_does_not_publish_as_the_root(database: Database) -> None:
    prepare(
        database,
        *TABLES[:2],
        "CREATE TABLE t (id int PRIMARY KEY, a text) PARTITION BY RANGE (id)",
        "CREATE TABLE p PARTITION OF t FOR VALUES FROM (0) TO (1000)",
        TABLES[3],
    )
    with capturing(database, tables=BOTH) as capture:
        capture.until(Session.done)
        prepare(database, "ALTER PUBLICATION tidemark SET (publish_via_partition_root = false)", *CHANGE)
        capture.until(lambda c: aside_of(c, "t") is not None, SECONDS)
        prepare(database, "ALTER PUBLICATION tidemark SET (publish_via_partition_root = true)")
        capture.until(lambda c: aside_of(c, "t") is None and kept(c) == held(database), SECONDS)


@pytest.mark.parametrize("publication", ["FOR ALL TABLES", "FOR TABLES IN SCHEMA public"])
def test_a_table_that_is_unlogged_for_a_moment(database: Database, publication: str) -> None:
    """Its rows are stored anew, as by VACUUM FULL, of which nothing follows."""
    if database.version < 15 and "SCHEMA" in publication:
        pytest.skip("publications of schemas came with version 15")
    prepare(database, *TABLES, f"CREATE PUBLICATION tidemark {publication}")
    with capturing(database, tables=BOTH) as capture:
        capture.until(Session.done)
        prepare(database, "VACUUM FULL t", "INSERT INTO t VALUES (1000, 'after')")
        capture.until(lambda c: kept(c) == held(database), SECONDS)
        with database.connect(autocommit=False) as locking:
            prepare(database, "ALTER TABLE t SET UNLOGGED", *CHANGE, "ALTER TABLE t SET LOGGED")
            # What cannot be looked at is looked at later, and the log is read on.
            locking.execute("LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
            prepare(database, "INSERT INTO s VALUES (2)")
            capture.until(lambda c: operations(c)["c"] >= 2, SECONDS)
        capture.until(lambda c: kept(c) == held(database), SECONDS)
        assert operations(capture)["t"] == 1
    prepare(database, "VACUUM FULL t")
    before = len(capture.documents)
    with capturing(database, capture.state, tables=BOTH, stop=True) as second:
        assert second.finish() == 0
        assert second.documents == []
    prepare(database, "ALTER TABLE t SET UNLOGGED", "DELETE FROM t WHERE id < 50", "ALTER TABLE t SET LOGGED")
    with capturing(database, second.state, tables=BOTH, stop=True) as third:
        assert third.finish() == 0
        assert kept(third) == held(database)
    assert before == len(capture.documents)


def test_a_table_that_leaves_its_published_schema_for_a_moment(database: Database) -> None:
    if database.version < 15:
        pytest.skip("publications of schemas came with version 15")
    prepare(database, *TABLES, "CREATE SCHEMA elsewhere", "CREATE PUBLICATION tidemark FOR TABLES IN SCHEMA public")
    away = ["ALTER TABLE t SET SCHEMA elsewhere", "DELETE FROM elsewhere.t WHERE id = 5"]
    back = "ALTER TABLE elsewhere.t SET SCHEMA public"
    with capturing(database) as capture:
        capture.until(Session.done)
        prepare(database, *away, back)
        capture.until(lambda c: kept(c) == held(database), SECONDS)
    prepare(database, *away[:1], "DELETE FROM elsewhere.t WHERE id = 6", back)
    with capturing(database, capture.state, stop=True) as again:
        assert again.finish() == 0
        assert kept(again) == held(database)
