"""``secure_server``: MariaDB, then MySQL, with a certificate and with every method of authentication that they have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache

import pytest

from tests.captures.mysql.secure_server import SecureServer
from tidemark.testing.certificates import Authority
from tidemark.testing.servers.mariadb import MARIADB, MYSQL, Database, no_source

PRODUCTS = {product.name.lower(): product for product in (MARIADB, MYSQL)}


@pytest.fixture(scope="session")
def secure_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], SecureServer]]:
    """Starts one by the product's name, the first time that it is asked for."""
    with ExitStack() as running:

        @cache
        def started(name: str) -> SecureServer:
            product = PRODUCTS[name]
            programs = product.installed()
            if programs is None:
                pytest.skip(no_source(product))
            folder = tmp_path_factory.mktemp("certificates")
            authority, other = Authority(folder, "authority"), Authority(folder, "other")
            own = authority.sign("localhost")
            settings = {
                "ssl_ca": str(authority.certificate),
                "ssl_cert": str(own.certificate),
                "ssl_key": str(own.key),
                "max_connect_errors": "100000",
            }
            server = running.enter_context(product.server(programs, settings=settings))
            return SecureServer(server, authority, other)

        yield started


@pytest.fixture(params=list(PRODUCTS))
def secure_server(request: pytest.FixtureRequest, secure_servers: Callable[[str], SecureServer]) -> SecureServer:
    """Each product's server."""
    return secure_servers(request.param)


@pytest.fixture(params=list(PRODUCTS))
def binlog_database(request: pytest.FixtureRequest) -> Database:
    """A fresh database on each product's server."""
    fresh: Database = request.getfixturevalue(f"{request.param}_database")
    return fresh
