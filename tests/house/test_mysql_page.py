"""The ini files and the SQL of docs/mysql.md, taken by real servers, are enough for a capture."""

from __future__ import annotations

from configparser import ConfigParser

import pytest

from tests.house.files import ROOT, blocks
from tidemark.captures.mysql.database import MysqlDatabase
from tidemark.protocol.messages import Binding
from tidemark.testing.missing import lacks
from tidemark.testing.servers.mariadb import MARIADB, MYSQL, Product, source

PAGE = ROOT / "docs" / "mysql.md"


def settings(of: Product) -> dict[str, str]:
    """What the page has in its ini files: the second one is for MySQL alone."""
    known: dict[str, str] = {}
    for block in list(blocks(PAGE, "ini"))[: 1 if of is MARIADB else 2]:
        ini = ConfigParser(inline_comment_prefixes="#")
        ini.read_string(block)
        known |= ini["mysqld"]
    return known


@pytest.mark.parametrize("product", [MARIADB, MYSQL], ids=lambda product: product.name.lower())
def test_a_server_with_the_ini_file_and_a_user_is_all_that_a_capture_needs(product: Product) -> None:
    found = source(product)
    if found is None or found.programs is None:
        pytest.skip(lacks(f"no {product.name} that tests start by themselves", product.remedy))
    create_user, rights, select = (line.partition("--")[0] for line in next(blocks(PAGE, "sql")).splitlines())
    if product is MARIADB:
        rights = rights.replace("REPLICATION CLIENT", "BINLOG MONITOR")
    ini = settings(product)
    with product.server(found.programs, settings=ini) as server:
        with server.connect() as admin, admin.cursor() as cursor:
            for name in ini:
                cursor.execute("SHOW GLOBAL VARIABLES LIKE %s", [name])
                assert cursor.fetchone(), name
            for statement in ("CREATE DATABASE shop", "CREATE TABLE shop.orders (id INT PRIMARY KEY)"):
                cursor.execute(statement)
            for statement in (create_user, rights, select):
                cursor.execute(statement)
        config = {"host": server.host, "port": server.port, "user": "cdc", "password": "choose one"}
        bound = Binding(
            resource_config={"schema": "shop", "table": "orders"},
            resource_path=["shop", "orders"],
            state_key="shop%2Forders",
        )
        connector = MysqlDatabase()
        assert [one.recommended_name for one in connector.discover(config)] == ["shop/orders"]
        assert connector.validate(config, [bound]) == [["shop", "orders"]]
