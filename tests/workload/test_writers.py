"""The random workload: it does what tests rely on it to do."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

import psycopg
import pymysql
import pytest

from tests.workload.source import TABLES
from tests.workload.tables import Database, create_tables, source_of
from tests.workload.writers import Workload
from tidemark.demo.comparison import Row
from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.postgres import Postgres


def contents(database: Database, without: frozenset[str] = frozenset()) -> list[object]:
    """All rows of all tables, without some columns."""
    source = source_of(database)
    found: list[object] = []
    for table, key in source.tables().items():
        held = source.contents(table, key)
        kept = [place for place, name in enumerate(held.columns) if name not in without]
        found += [(table, at, [row[place] for place in kept]) for at, row in held.rows]
    return found


def left_by_one_writer(database: Database, seed: int) -> list[object]:
    """What one writer of this seed leaves, without the columns that hold the time of day."""
    execute(database, *(f"DROP TABLE IF EXISTS {table}" for table in TABLES))
    create_tables(database, 300)
    with Workload(database, writers=1, seed=seed, keys=300, transactions=200, truncate=True) as workload:
        done = workload.finish()
    assert done["committed"] > 100
    assert done["rolled back"] > 0
    return contents(database, frozenset({"opened", "at", "day"}))


def execute(database: Database, *statements: str) -> None:
    with (
        closing(source_of(database).connect(autocommit=True)) as connection,
        closing(connection.cursor()) as cursor,
    ):
        for statement in statements:
            cursor.execute(statement)


def test_one_writer_does_the_same_again_for_the_same_seed(each_database: Database) -> None:
    first = left_by_one_writer(each_database, 1)
    assert left_by_one_writer(each_database, 1) == first
    assert left_by_one_writer(each_database, 2) != first


def test_writers_change_every_table_and_stop_when_told(each_database: Database) -> None:
    create_tables(each_database, 1000)
    before = {table: set(map(str, rows)) for table, rows in by_table(each_database).items()}
    with Workload(each_database, writers=3, keys=1000) as workload:

        def changed() -> bool:
            return all(len(set(map(str, rows)) - before[table]) > 20 for table, rows in by_table(each_database).items())

        wait_until(changed, 60, "some changes of each table", every=0.2)
        done = workload.stop()
    assert done["committed"] > 50
    after = contents(each_database)
    assert contents(each_database) == after


def by_table(database: Database) -> dict[str, Sequence[Row]]:
    source = source_of(database)
    return {table: source.contents(table, key).rows for table, key in source.tables().items()}


def test_big_values_are_stored_out_of_line(database: Postgres) -> None:
    create_tables(database, 100)
    with database.connect() as connection:
        sizes = connection.execute(
            "SELECT relname, pg_relation_size(reltoastrelid) FROM pg_class WHERE relname IN ('accounts', 'labels')"
        ).fetchall()
        assert len(sizes) == 2
        assert all(size > 0 for _, size in sizes)


def test_a_writer_that_dies_says_why(each_database: Database) -> None:
    create_tables(each_database, 10)
    workload = Workload(each_database, writers=2)

    def drop() -> bool:
        try:
            execute(each_database, "DROP TABLE entries, labels, accounts")
        except psycopg.errors.DeadlockDetected:
            return False  # A writer had one of the tables, and waited for another.
        return True

    with workload:
        wait_until(drop, 60, "the tables are dropped")
        wait_until(lambda: workload.failed, 60, "a writer notices")
        with pytest.raises((psycopg.errors.UndefinedTable, pymysql.err.ProgrammingError)):
            workload.stop()
