"""A server that is told to stop stops at once, whatever a capture of it is doing, and the capture goes on after it."""

from __future__ import annotations

import sys
import time
from functools import partial

import pytest

from tests.captures.mysql.table_chunks import run
from tests.captures.session import Session, bindings, session
from tests.examples import sample
from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.mariadb import MARIADB, MYSQL, Database, Product, no_source

COMMAND = [sys.executable, "-m", "tidemark.connectors.mysql"]

DEADLINE = 30.0
"""In seconds."""


@pytest.mark.drawn(1)
@pytest.mark.slow
@pytest.mark.parametrize("product", [MARIADB, MYSQL], ids=lambda product: product.name.lower())
def test_stops(product: Product) -> None:
    """While the capture is idle, and then while nobody takes what it captures."""
    programs = product.installed()
    if programs is None:
        pytest.skip(no_source(product))
    with product.server(programs) as server:
        shop = Database(server.host, server.port, server.user, server.password, product.name, server, "shop")
        with shop.connect("") as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE shop")
        run(shop, "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v LONGTEXT)")
        with session(shop.config(), bindings("shop.t"), command=COMMAND) as capture:
            capture.until(Session.done)
            for stop, held in enumerate([False, *sample([True, True], [True])]):
                if held:
                    capture.hold()
                    run(shop, "INSERT INTO t (v) VALUES (REPEAT('x', 100000))")
                    for _ in range(9):
                        run(shop, "INSERT INTO t (v) SELECT v FROM t WHERE id <= 20 ORDER BY id DESC LIMIT 100")
                    wait_until(lambda: capture.full, 30, "the pipe is full")
                began = time.monotonic()
                server.stop(seconds=DEADLINE)
                seconds = time.monotonic() - began
                capture.let_go()
                server.start()
                assert seconds < DEADLINE, f"stop {stop} of the server hung"
                run(shop, f"INSERT INTO t (v) VALUES ('after {stop}')")
                capture.until(partial(came, f"after {stop}"), 60)


def came(value: str, capture: Session) -> bool:
    return any(doc.get("v") == value for _, doc in capture.documents)
