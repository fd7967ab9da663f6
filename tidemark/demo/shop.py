"""The demo's database: a small shop, and the customers who keep it busy."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any, Self

import psycopg
from psycopg import sql

Connection = psycopg.Connection[tuple[Any, ...]]

TABLES: dict[str, list[str]] = {
    "public.customers": ["id"],
    "public.orders": ["id"],
    "public.order_items": ["order_id", "line"],
}
"""The shop's tables by ``schema.table``, each with its key."""

_DDL = """
CREATE TABLE customers (
    id bigint PRIMARY KEY, name text NOT NULL, email text NOT NULL, city text, born date,
    newsletter boolean NOT NULL, preferences jsonb, created timestamptz NOT NULL
);
CREATE TABLE orders (
    id bigint PRIMARY KEY, customer_id bigint NOT NULL, status text NOT NULL, total numeric(12,2) NOT NULL,
    placed timestamptz NOT NULL, shipped date, gift boolean NOT NULL, note text
);
CREATE TABLE order_items (
    order_id bigint, line integer, product text NOT NULL, quantity integer NOT NULL, price numeric(12,2) NOT NULL,
    PRIMARY KEY (order_id, line)
);
"""

_CUSTOMERS = """
INSERT INTO customers
SELECT n, 'Customer ' || n, 'customer' || n || '@shop.example',
       (ARRAY['Lisboa', 'Kraków', 'Malmö', 'Zürich'])[n % 5 + 1],  -- one in five has no city
       date '1950-01-01' + (n * 7919 % 20000)::integer, n % 3 = 0,
       jsonb_build_object('language', (ARRAY['pt', 'pl', 'sv', 'de'])[n % 4 + 1], 'page_size', 10 * (n % 5 + 1)),
       now() - n * interval '13 minutes'
FROM generate_series(1::bigint, %(customers)s) AS n
"""

_ORDERS = """
INSERT INTO orders
SELECT n, n * 7919 %% %(customers)s + 1, (ARRAY['placed', 'paid', 'shipped'])[n %% 3 + 1], n %% 50000 / 100.0,
       now() - n * interval '3 minutes', CASE WHEN n %% 3 = 2 THEN current_date - (n %% 300)::integer END, n %% 11 = 0,
       CASE WHEN n %% 17 = 0 THEN 'Ring twice, then leave it at № ' || n %% 100 END
FROM generate_series(1::bigint, %(orders)s) AS n
"""

_ITEMS = """
INSERT INTO order_items
SELECT n / 2 + 1, n %% 2 + 1, 'Product ' || n * 31 %% 5000, n %% 4 + 1, n %% 9000 / 100.0 + 0.99
FROM generate_series(0::bigint, %(items)s - 1) AS n
"""


def fill(connection: Connection, rows: int) -> None:
    """Makes the shop with about ``rows`` rows in all, on the server: one customer to three orders to six items."""
    customers = max(rows // 10, 1)
    orders = max(rows * 3 // 10, 1)
    connection.execute(_DDL)
    connection.execute(_CUSTOMERS.replace("%(customers)s", str(customers)))
    connection.execute(_ORDERS, {"customers": customers, "orders": orders})
    connection.execute(_ITEMS, {"items": max(rows - customers - orders, 1)})
    connection.execute("ANALYZE")


def count(connection: Connection) -> dict[str, int]:
    """Rows of each table now."""
    counts = {}
    for table in TABLES:
        row = connection.execute(sql.SQL("SELECT count(*) FROM {}").format(_identifier(table))).fetchone()
        assert row is not None  # an aggregate always gives a row
        counts[table] = int(row[0])
    return counts


def columns(connection: Connection, table: str) -> list[str]:
    """The columns of a table, in order."""
    cursor = connection.execute(sql.SQL("SELECT * FROM {} LIMIT 0").format(_identifier(table)))
    return [column.name for column in cursor.description or ()]


class Customers:
    """A thread that orders, pays, ships, cancels and moves house until it is stopped.

    Args:
        dsn: The shop's database.
        rate: Transactions per second at most.
    """

    def __init__(self, dsn: str, rate: float = 150.0) -> None:
        self._dsn = dsn
        self._pause = 1 / rate
        self._random = Random(20)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="customers")
        self._failure: Exception | None = None
        self.done: Counter[str] = Counter()
        """What has been committed, by kind."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def stop(self) -> Counter[str]:
        """Ends after the transaction under way; raises what the thread died of."""
        self._stopping.set()
        self._thread.join()
        self.check()
        return self.done

    def check(self) -> None:
        """Raises what the thread died of, if it did."""
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            with psycopg.connect(self._dsn) as connection:
                self._serve(connection)
        except psycopg.Error as error:
            self._failure = error

    def _serve(self, connection: Connection) -> None:
        self._customers = _last(connection, "customers")
        self._orders = _last(connection, "orders")
        names, weights = zip(*((name, weight) for name, (weight, _) in _DEALINGS.items()), strict=True)
        while not self._stopping.is_set():
            name = self._random.choices(names, weights)[0]
            with connection.transaction():
                _DEALINGS[name][1](self, connection)
            self.done[name] += 1
            self._stopping.wait(self._pause)

    def _any_order(self) -> int:
        return self._random.randint(1, self._orders)

    def _order(self, connection: Connection) -> None:
        self._orders += 1
        prices = [self._random.randint(99, 9999) / 100 for _ in range(self._random.randint(1, 4))]
        connection.execute(
            "INSERT INTO orders VALUES (%s, %s, 'placed', %s, clock_timestamp(), NULL, false, NULL)",
            [self._orders, self._random.randint(1, self._customers), sum(prices)],
        )
        for line, price in enumerate(prices, start=1):
            connection.execute(
                "INSERT INTO order_items VALUES (%s, %s, %s, 1, %s)",
                [self._orders, line, f"Product {self._random.randint(0, 4999)}", price],
            )

    def _ship(self, connection: Connection) -> None:
        connection.execute(
            "UPDATE orders SET status = 'shipped', shipped = current_date WHERE id = %s", [self._any_order()]
        )

    def _cancel(self, connection: Connection) -> None:
        order = self._any_order()
        connection.execute("DELETE FROM order_items WHERE order_id = %s", [order])
        connection.execute("DELETE FROM orders WHERE id = %s", [order])

    def _move_house(self, connection: Connection) -> None:
        connection.execute(
            "UPDATE customers SET city = %s, preferences = preferences || %s::jsonb WHERE id = %s",
            [
                self._random.choice(["Lisboa", "Kraków", None]),
                f'{{"moved": {self._random.randint(1, 9)}}}',
                self._random.randint(1, self._customers),
            ],
        )

    def _renumber(self, connection: Connection) -> None:
        """Changes a key: one row goes away and another comes."""
        connection.execute(
            "UPDATE order_items SET line = line + 100 WHERE order_id = %s AND line = 1 "
            "AND NOT EXISTS (SELECT FROM order_items WHERE order_id = %s AND line = 101)",
            [order := self._any_order(), order],
        )


_DEALINGS: dict[str, tuple[int, Callable[[Customers, Connection], None]]] = {
    "orders placed": (40, Customers._order),
    "orders shipped": (30, Customers._ship),
    "orders cancelled": (10, Customers._cancel),
    "customers moved": (15, Customers._move_house),
    "items renumbered": (5, Customers._renumber),
}
"""What happens in the shop, with weights."""


def _last(connection: Connection, table: str) -> int:
    with connection.transaction():
        row = connection.execute(sql.SQL("SELECT max(id) FROM {}").format(_identifier(table))).fetchone()
    assert row is not None  # an aggregate always gives a row
    return int(row[0])


def _identifier(table: str) -> sql.Identifier:
    return sql.Identifier(*table.split("."))
