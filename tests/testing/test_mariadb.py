"""The MariaDB and MySQL fixtures themselves: what other tests rely on."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys

import pymysql
import pytest

from tidemark.protocol.errors import SourceError
from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.mariadb import MARIADB, MYSQL, Database, MariaDb, Product, fresh_database, no_source
from tidemark.testing.servers.mysql_family import Programs

ORPHAN = """
import os, signal, sys
from tidemark.testing.servers import mariadb
product = getattr(mariadb, sys.argv[1])
server = product.server(product.installed())
server.start()
print(server.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(params=[MARIADB, MYSQL], ids=["mariadb", "mysql"])
def product(request: pytest.FixtureRequest) -> Product:
    found: Product = request.param
    return found


@pytest.fixture
def programs(product: Product) -> Programs:
    found = product.installed()
    if found is None:
        pytest.skip(no_source(product))
    return found


@pytest.fixture
def server(product: Product, request: pytest.FixtureRequest) -> MariaDb:
    found: MariaDb = request.getfixturevalue(product.name.lower())
    return found


def test_server_keeps_a_binlog_of_full_rows(product: Product, request: pytest.FixtureRequest) -> None:
    database: Database = request.getfixturevalue(f"{product.name.lower()}_database")
    assert database.is_mysql == (product is MYSQL)
    with database.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT @@log_bin, @@binlog_format, @@binlog_row_image, database()")
        assert cursor.fetchone() == (1, "ROW", "FULL", database.name)
        cursor.execute("SHOW VARIABLES LIKE 'binlog_row_metadata'")
        assert cursor.fetchone() in (("binlog_row_metadata", "FULL"), None)  # MySQL 5.7 has none


def test_config_is_what_a_connector_needs(server: MariaDb) -> None:
    with pymysql.connect(**server.config()) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT @@version")
        assert cursor.fetchone() == (server.version,)


def test_database_goes_away_although_it_is_in_use(server: MariaDb) -> None:
    with fresh_database(server, "tidemark_test_gone") as fresh:
        left = fresh.connect(autocommit=False)
        with left.cursor() as cursor:
            cursor.execute("CREATE TABLE held (id int)")
            cursor.execute("SELECT * FROM held")
    with server.connect() as admin, admin.cursor() as cursor:
        cursor.execute("SHOW DATABASES LIKE 'tidemark_test_gone'")
        assert cursor.fetchone() is None
    with pytest.raises(pymysql.OperationalError):
        left.ping(reconnect=False)


def test_server_comes_back_from_kill_and_replicates_to_another(product: Product, programs: Programs) -> None:
    with (
        product.server(programs) as primary,
        product.server(programs, server_id=2, settings={"sync_binlog": "7"}) as replica,
    ):
        with primary.connect() as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE shop")
            cursor.execute("CREATE TABLE shop.users (id int PRIMARY KEY)")
            cursor.execute("INSERT INTO shop.users VALUES (1)")
        replica.replicate(primary)
        port = primary.port
        primary.kill()
        assert primary.pid is None
        primary.start()
        assert primary.port == port
        with primary.connect() as connection, connection.cursor() as cursor:
            cursor.execute("INSERT INTO shop.users VALUES (2)")

        with replica.connect() as connection, connection.cursor() as cursor:

            def both_rows() -> bool:
                cursor.execute("SELECT count(*) FROM information_schema.tables WHERE table_schema = 'shop'")
                if cursor.fetchone() != (1,):
                    return False
                cursor.execute("SELECT count(*) FROM shop.users")
                return bool(cursor.fetchone() == (2,))

            wait_until(both_rows, 30, "the replica has both rows")
            cursor.execute(f"SELECT @@sync_binlog, @@{'gtid_executed' if product is MYSQL else 'gtid_current_pos'}")
            setting, position = cursor.fetchone() or ("", "")
            assert setting == 7
            assert re.fullmatch(r"[0-9a-f-]{36}:1-4" if product is MYSQL else "0-1-4", position)


def test_server_takes_another_port_where_one_is_taken(product: Product, programs: Programs) -> None:
    server = product.server(programs)
    with socket.create_server((server.host, 0)) as taken:
        server.port = taken.getsockname()[1]
        with server:
            assert server.port != taken.getsockname()[1]
            server.connect().close()


def test_server_that_cannot_start_says_why_and_leaves_nothing(product: Product, programs: Programs) -> None:
    server = product.server(programs, settings={"no_such_setting": "1"})
    with pytest.raises(SourceError, match="no_such_setting") as caught, server:
        pass
    assert caught.value.code == "TM-DEMO-001"
    assert not server.data.parent.exists()


def test_server_ends_with_the_process_that_started_it(product: Product, programs: Programs) -> None:
    command = [sys.executable, "-c", ORPHAN, product.name.upper()]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    pid = int(ended.stdout)

    def gone() -> bool:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        return False

    wait_until(gone, 20, "the server is gone")
