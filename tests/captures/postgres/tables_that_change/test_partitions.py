"""Partitions that come, go, and are changed on their own, of which the log has nothing."""

from __future__ import annotations

import pytest

from tests.captures.impatient import aside_of
from tests.captures.postgres.tables_that_change.capturing import SECONDS, capturing, held, kept, operations
from tests.captures.postgres.tables_that_change.scenes import PARTITIONED
from tests.captures.remedies import statements
from tests.captures.session import Session
from tests.captures.source_tables import prepare
from tidemark.testing.servers.postgres import Database

ROWS = 120


@pytest.mark.parametrize(
    "alter",
    [
        ["TRUNCATE t_high"],
        ["ALTER TABLE t_low SET UNLOGGED", "DELETE FROM t WHERE id < 20", "ALTER TABLE t_low SET LOGGED"],
        [
            "CREATE UNLOGGED TABLE t_low_{n} (id int PRIMARY KEY, a int)",
            "ALTER TABLE t ATTACH PARTITION t_low_{n} FOR VALUES FROM (-{n}) TO (1 - {n})",
            "INSERT INTO t VALUES (-{n}, 1)",
            "ALTER TABLE t_low_{n} SET LOGGED",
        ],
    ],
    ids=["truncated", "unlogged", "attached unlogged"],
)
def test_a_partition_that_lost_rows(database: Database, alter: list[str]) -> None:
    prepare(database, *PARTITIONED)
    with capturing(database) as capture:
        capture.until(Session.done)
        prepare(database, *(statement.replace("{n}", "7") for statement in alter))
        capture.until(lambda c: c.done() and kept(c) == held(database), SECONDS)
        prepare(database, *(statement.replace("{n}", "8") for statement in alter))
        prepare(database, "INSERT INTO t VALUES (61, 0) ON CONFLICT DO NOTHING")
    with capturing(database, capture.state, stop=True) as again:
        assert again.finish() == 0, again.last_words()
        again.documents[:0] = capture.documents
        assert kept(again) == held(database)


def test_an_unlogged_partition(database: Database) -> None:
    prepare(database, *PARTITIONED)
    with capturing(database) as capture:
        capture.until(Session.done)
        prepare(database, 'CREATE UNLOGGED TABLE "T u" PARTITION OF t FOR VALUES FROM (-50) TO (0)')
        capture.until(lambda c: aside_of(c, "t") is not None, SECONDS)
        aside = aside_of(capture, "t")
        assert aside is not None and aside["code"] == "TM-PG-035" and "unlogged" in aside["text"]
        prepare(database, "INSERT INTO t VALUES (-1, 1)", *statements(aside["remedy"]))
        capture.until(lambda c: aside_of(c, "t") is None and c.done() and kept(c) == held(database), SECONDS)


def test_partitions_that_are_made_and_filled_at_once(database: Database) -> None:
    """The log has their rows as rows of the table: nothing is read again, also not after VACUUM FULL of one."""
    prepare(database, *PARTITIONED)
    make = "CREATE TABLE t_new PARTITION OF t FOR VALUES FROM (-100) TO (0); INSERT INTO t VALUES (-5, 5)"
    with capturing(database) as capture:
        capture.until(Session.done)
        prepare(database, make, "VACUUM FULL t_high", "ALTER TABLE t DETACH PARTITION t_0 CONCURRENTLY")
        capture.until(
            lambda c: any("its rows stay downstream (public.t_0)" in line["message"] for line in c.logs), SECONDS
        )
        prepare(database, "UPDATE t SET a = 6 WHERE id < 3")
        capture.until(lambda c: kept(c) == held(database), SECONDS)
        assert operations(capture) == {"s": ROWS, "c": 1, "u": 3}
    with capturing(database, capture.state, stop=True) as again:
        assert again.finish() == 0, again.last_words()
        assert not again.documents


@pytest.mark.parametrize("root", [True, False], ids=["both captured", "it alone captured"])
def test_a_captured_table_that_is_a_partition_for_a_while(database: Database, root: bool) -> None:
    """Its changes of that time are in the log as another table's: it is read again, and that table's rows stay."""
    prepare(
        database,
        *PARTITIONED,
        "CREATE TABLE o (id int PRIMARY KEY, a int)",
        "INSERT INTO o SELECT i FROM generate_series(-20, -1) i",
        "CREATE PUBLICATION tidemark FOR TABLE t, o WITH (publish_via_partition_root = true)",
    )
    attach = "ALTER TABLE t ATTACH PARTITION o FOR VALUES FROM (-30) TO (0)"
    detach = "ALTER TABLE t DETACH PARTITION o"
    tables = ("public.o", "public.t")[: 1 + root]

    def right(capture: Session) -> bool:
        gone = any("its rows stay downstream (public.o)" in line["message"] for line in capture.logs)
        return capture.done() and kept(capture) == held(database, "SELECT * FROM o") and gone is root

    with capturing(database, tables=tables) as capture:
        capture.until(Session.done)
        if root:
            prepare(database, attach)
            capture.until(lambda c: aside_of(c, "o") is not None, SECONDS)
            prepare(database, "UPDATE o SET a = 1", "DELETE FROM t WHERE id = -5", detach)
        else:
            prepare(database, f"BEGIN; {attach}; UPDATE o SET a = 1; DELETE FROM t WHERE id = -5; {detach}; COMMIT")
        capture.until(right, SECONDS)
    prepare(database, attach, "UPDATE o SET a = 2", "DELETE FROM o WHERE id = -6", detach, "INSERT INTO o VALUES (7)")
    with capturing(database, capture.state, tables=tables, stop=True) as again:
        assert again.finish() == 0, again.last_words()
        again.documents[:0] = capture.documents
        assert right(again)


def test_tables_that_are_shown_once_more_are_no_partitions(database: Database) -> None:
    """The server shows neither again: only a type of theirs was altered."""
    prepare(
        database,
        "CREATE TYPE mood AS ENUM ('low')",
        *(f"CREATE TABLE {name} (id int PRIMARY KEY, a mood)" for name in ("t", "o")),
        *(f"INSERT INTO {name} VALUES (1, 'low')" for name in ("t", "o")),
    )
    update = "UPDATE t SET a = 'low'; UPDATE o SET a = 'low'"
    with capturing(database, tables=("public.t", "public.o")) as capture:
        capture.until(Session.done)
        prepare(database, update)
        capture.until(lambda c: operations(c)["u"] == 2, SECONDS)
        shown = len(capture.schemas)
        prepare(database, "ALTER TYPE mood ADD VALUE 'high'")
        capture.until(lambda c: len(c.schemas) == shown + 2, SECONDS)
        prepare(database, update)
        capture.until(lambda c: operations(c)["u"] == 4, SECONDS)
    with capturing(database, capture.state, tables=("public.t", "public.o"), stop=True) as again:
        assert again.finish() == 0, again.last_words()
    assert not operations(again) and operations(capture) == {"s": 2, "u": 4}


def test_tables_that_are_truncated_together_are_no_partitions(database: Database) -> None:
    """The server shows both, one straight after the other, before the TRUNCATE."""
    prepare(
        database,
        *(f"CREATE TABLE {name} (id int PRIMARY KEY, a int)" for name in ("t", "o")),
        *(f"INSERT INTO {name} VALUES (1, 1)" for name in ("t", "o")),
    )
    with capturing(database, tables=("public.t", "public.o")) as capture:
        capture.until(Session.done)
        prepare(database, "TRUNCATE t, o", "INSERT INTO o VALUES (2, 2)")
        capture.until(lambda c: operations(c)["c"] == 1, SECONDS)
    with capturing(database, capture.state, tables=("public.t", "public.o"), stop=True) as again:
        assert again.finish() == 0, again.last_words()
    assert not operations(again) and operations(capture) == {"s": 2, "t": 2, "c": 1}
