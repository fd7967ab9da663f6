"""Replica identities that do not tell rows apart: of a table, and of partitions, which have their own."""

from __future__ import annotations

import pytest

from tests.captures.impatient import aside_of
from tests.captures.postgres.tables_that_change.capturing import SECONDS, capturing, held, kept, made
from tests.captures.session import Session, bindings, unary
from tests.captures.source_tables import endpoint, prepare
from tidemark.testing.servers.postgres import Database

OTHER = ["CREATE TABLE s (id int PRIMARY KEY)", "INSERT INTO s VALUES (1)"]
TABLE = [
    *OTHER,
    "CREATE TABLE t (id int PRIMARY KEY, a int NOT NULL UNIQUE)",
    "INSERT INTO t SELECT i, i FROM generate_series(1, 100) i",
]
PARTS = [
    *OTHER,
    "CREATE TABLE t (id int PRIMARY KEY, a int NOT NULL) PARTITION BY RANGE (id)",
    "CREATE TABLE p0 PARTITION OF t FOR VALUES FROM (0) TO (51)",
    "CREATE TABLE p1 PARTITION OF t FOR VALUES FROM (51) TO (10000)",
    "CREATE UNIQUE INDEX p1_a ON p1 (a)",
    "INSERT INTO t SELECT i, i FROM generate_series(1, 100) i",
]
BOTH = ("public.t", "public.s")


@pytest.mark.parametrize(
    ("table", "alter", "code", "named"),
    [
        (TABLE, "ALTER TABLE t REPLICA IDENTITY USING INDEX t_a_key", "TM-PG-032", "public.t"),
        (PARTS, "ALTER TABLE p1 REPLICA IDENTITY USING INDEX p1_a", "TM-PG-032", "public.p1"),
        (
            PARTS,
            "ALTER TABLE p0 REPLICA IDENTITY NOTHING; ALTER TABLE p1 REPLICA IDENTITY NOTHING",
            "TM-PG-018",
            "public.p0 has REPLICA IDENTITY NOTHING (and 1 more partitions)",
        ),
        (
            [*PARTS, "ALTER TABLE p1 REPLICA IDENTITY USING INDEX p1_a"],
            "DROP INDEX p1_a",
            "TM-PG-018",
            "public.p1",
        ),
    ],
)
def test_an_identity_without_the_key(
    any_database: Database, table: list[str], alter: str, code: str, named: str
) -> None:
    """It is refused before it is published: the server would refuse the application's own changes, or lose them."""
    prepare(any_database, *table, alter)
    status, _, logs = unary({"validate": {"config": endpoint(any_database), "bindings": bindings("public.t")}})
    assert status == 1
    assert logs[-1]["fields"]["code"] == code
    assert named in logs[-1]["message"]
    with capturing(any_database, made(any_database, *BOTH), tables=BOTH) as capture:
        capture.until(lambda c: aside_of(c, "t") is not None and kept(c, binding=1), SECONDS)
        prepare(any_database, "UPDATE t SET a = -a WHERE id = 60", "DELETE FROM t WHERE id = 70")
        with any_database.connect() as connection:
            published = connection.execute("SELECT tablename FROM pg_publication_tables").fetchall()
            assert published == [("s",)]
        remedy = logs[-1]["fields"]["remedy"]
        prepare(any_database, remedy.partition(": ")[2])
        capture.until(lambda c: aside_of(c, "t") is None and kept(c) == held(any_database), SECONDS)


@pytest.mark.parametrize(
    ("table", "alter", "back"),
    [
        (TABLE, "ALTER TABLE t REPLICA IDENTITY USING INDEX t_a_key", "ALTER TABLE t REPLICA IDENTITY DEFAULT"),
        (PARTS, "ALTER TABLE p1 REPLICA IDENTITY USING INDEX p1_a", "ALTER TABLE p1 REPLICA IDENTITY FULL"),
    ],
)
def test_an_identity_that_loses_the_key(database: Database, table: list[str], alter: str, back: str) -> None:
    """Changes whose row the log does not tell set the table aside, and do not stop the others."""
    prepare(database, *table)
    with capturing(database, tables=BOTH) as capture:
        capture.until(Session.done)
        prepare(database, alter, "UPDATE t SET id = id + 500 WHERE id = 60", "DELETE FROM t WHERE id > 70")
        capture.until(lambda c: aside_of(c, "t") is not None, SECONDS)
        prepare(database, "INSERT INTO s VALUES (2)")
        capture.until(lambda c: kept(c, binding=1) == held(database, "SELECT * FROM s"), SECONDS)
        prepare(database, back, "DELETE FROM t WHERE id = 55")
        capture.until(lambda c: aside_of(c, "t") is None and kept(c) == held(database), SECONDS)


def test_another_table_that_had_another_identity_for_a_while(database: Database) -> None:
    """The log shows the identity of that moment, which the table has no more when the log is read."""
    prepare(database, *TABLE)
    with capturing(database, tables=BOTH) as capture:
        capture.until(Session.done)
        with database.connect(autocommit=False) as connection:
            for statement in (
                "ALTER TABLE t RENAME TO t_old",
                "CREATE TABLE t (id int PRIMARY KEY, a int NOT NULL)",
                "CREATE UNIQUE INDEX t_other ON t (a)",
                "ALTER PUBLICATION tidemark ADD TABLE t",
                "ALTER TABLE t REPLICA IDENTITY USING INDEX t_other",
                "INSERT INTO t SELECT i, i FROM generate_series(1, 50) i",
                "UPDATE t SET a = a + 100 WHERE id < 10",
                "ALTER TABLE t REPLICA IDENTITY DEFAULT",
                "UPDATE t SET a = a + 1000 WHERE id > 40",
            ):
                connection.execute(statement.encode())
            connection.commit()
        prepare(database, "INSERT INTO s VALUES (2)", "DELETE FROM t WHERE id = 20")
        capture.until(lambda c: kept(c, binding=1) == held(database, "SELECT * FROM s"), SECONDS)
        capture.until(lambda c: kept(c) == held(database), SECONDS)


def test_identities_that_tell_rows_apart(database: Database) -> None:
    prepare(
        database,
        *PARTS,
        "ALTER TABLE p1 REPLICA IDENTITY FULL",
        "CREATE UNIQUE INDEX p0_both ON p0 (a, id)",
        "ALTER TABLE p0 REPLICA IDENTITY USING INDEX p0_both",
    )
    with capturing(database) as capture:
        capture.until(Session.done)
        prepare(
            database,
            "UPDATE t SET id = id + 500 WHERE id = 60",
            "UPDATE t SET id = 1000 WHERE id = 7",
            "DELETE FROM t WHERE id IN (8, 80)",
        )
        capture.until(lambda c: kept(c) == held(database), SECONDS)
