"""Two servers of one product, the second of which can follow the first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tidemark.testing.servers.mariadb import Database, Product, no_source


@contextmanager
def server_pair(product: Product) -> Iterator[tuple[Database, Database]]:
    """What will be the database ``shop`` on each, which nobody has made; skips the test without an installation."""
    programs = product.installed()
    if programs is None:
        pytest.skip(no_source(product))
    with ExitStack() as stack:
        servers = [stack.enter_context(product.server(programs, server_id=number)) for number in (21, 22)]
        first, second = (
            Database(s.host, s.port, s.user, s.password, product.name, server=s, name="shop") for s in servers
        )
        yield first, second


def follow(replica: Database, primary: Database) -> None:
    """Makes one server a replica of the other."""
    assert replica.server is not None and primary.server is not None
    replica.server.replicate(primary.server)
