"""The random workload: it does what tests rely on it to do."""

from __future__ import annotations

import psycopg
import pytest

from tests.servers.deadline import wait_until
from tests.servers.postgres import Connection, Database
from tests.workload.tables import TABLES, create_tables
from tests.workload.writers import Workload


def contents(connection: Connection) -> list[object]:
    return [
        row
        for table, key in TABLES.items()
        for row in connection.execute(f"SELECT t::text FROM {table} AS t ORDER BY {', '.join(key)}").fetchall()
    ]


def without_times(database: Database, seed: int) -> list[object]:
    """What one writer of this seed leaves, without the columns that hold the time of day."""
    with database.connect() as connection:
        connection.execute("DROP TABLE IF EXISTS accounts, entries, labels")
        create_tables(connection, 300)
        with Workload(database, writers=1, seed=seed, keys=300, transactions=200, truncate=True) as workload:
            done = workload.finish()
        assert done["committed"] > 100
        assert done["rolled back"] > 0
        connection.execute("ALTER TABLE accounts DROP COLUMN opened")
        connection.execute("ALTER TABLE entries DROP COLUMN at, DROP COLUMN day")
        return contents(connection)


def test_one_writer_does_the_same_again_for_the_same_seed(database: Database) -> None:
    first = without_times(database, 1)
    assert without_times(database, 1) == first
    assert without_times(database, 2) != first


def test_writers_change_every_table_and_stop_when_told(database: Database) -> None:
    with database.connect() as connection:
        create_tables(connection, 1000)
        counts = "SELECT n_tup_ins - 1000, n_tup_upd, n_tup_del FROM pg_stat_user_tables WHERE relname = 'accounts'"
        with Workload(database, writers=3, keys=1000) as workload:
            wait_until(lambda: all(n > 20 for n in connection.execute(counts).fetchone() or [0]), 60, "some of each")
            done = workload.stop()
        before = contents(connection)
        assert done["committed"] > 50
        assert contents(connection) == before


def test_big_values_are_stored_out_of_line(database: Database) -> None:
    with database.connect() as connection:
        create_tables(connection, 100)
        sizes = connection.execute(
            "SELECT relname, pg_relation_size(reltoastrelid) FROM pg_class WHERE relname IN ('accounts', 'labels')"
        ).fetchall()
        assert len(sizes) == 2
        assert all(size > 0 for _, size in sizes)


def test_a_writer_that_dies_says_why(database: Database) -> None:
    with database.connect() as connection:
        create_tables(connection, 10)
        workload = Workload(database, writers=2)
        with workload:
            connection.execute("DROP TABLE entries, labels, accounts")
            wait_until(lambda: workload.failed, 60, "a writer notices")
            with pytest.raises(psycopg.errors.UndefinedTable):
                workload.stop()
