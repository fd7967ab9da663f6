"""The demo's shop: its size, and that its customers do everything the demo claims."""

from __future__ import annotations

import psycopg
import pytest

from tidemark.demo import shop
from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.postgres import Database


@pytest.mark.parametrize("rows", [10, 3000])
def test_the_shop_has_about_as_many_rows_as_asked_for(database: Database, rows: int) -> None:
    with database.connect() as connection:
        shop.fill(connection, rows)
        counts = shop.count(connection)
    assert sum(counts.values()) == rows
    assert all(counts.values())
    assert set(counts) == set(shop.TABLES)


def test_customers_do_every_kind_of_thing(database: Database) -> None:
    with database.connect() as connection:
        shop.fill(connection, 3000)
        before = shop.count(connection)
        with shop.Customers(database.dsn, rate=1e6) as customers:
            wait_until(lambda: len(customers.done) == 5, 60, "all five kinds of dealings")
            done = customers.stop()
        assert shop.count(connection) != before
    assert done == customers.done


def test_customers_say_what_they_died_of(database: Database) -> None:
    with database.connect() as connection:
        shop.fill(connection, 100)
    with shop.Customers(database.dsn, rate=1e6) as customers:
        with database.connect() as connection:
            connection.execute("DROP TABLE order_items")

        def failed() -> bool:
            try:
                customers.check()
            except psycopg.errors.UndefinedTable:
                return True
            return False

        wait_until(failed, 60, "the customers notice")
        with pytest.raises(psycopg.errors.UndefinedTable):
            customers.stop()
