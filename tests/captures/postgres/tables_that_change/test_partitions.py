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
