"""The MariaDB fixtures themselves: what other tests rely on."""

from __future__ import annotations

import os
import subprocess
import sys

import pymysql
import pytest

from tests.servers.deadline import wait_until
from tests.servers.mariadb import Database, MariaDb, fresh_database, no_source
from tests.servers.mariadb_server import MariaDbServer, Programs, installed_programs

ORPHAN = """
import os, signal
from tests.servers.mariadb_server import MariaDbServer, installed_programs
server = MariaDbServer(installed_programs())
server.start()
print(server.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def programs() -> Programs:
    found = installed_programs()
    if found is None:
        pytest.skip(no_source())
    return found


def test_server_keeps_a_binlog_of_full_rows(mariadb_database: Database) -> None:
    with mariadb_database.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT @@log_bin, @@binlog_format, @@binlog_row_image, @@binlog_row_metadata, database()")
        assert cursor.fetchone() == (1, "ROW", "FULL", "FULL", mariadb_database.name)


def test_config_is_what_a_connector_needs(mariadb: MariaDb) -> None:
    with pymysql.connect(**mariadb.config()) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT @@version")
        assert cursor.fetchone() == (mariadb.version,)


def test_database_goes_away_although_it_is_in_use(mariadb: MariaDb) -> None:
    with fresh_database(mariadb, "tidemark_test_gone") as fresh:
        left = fresh.connect(autocommit=False)
        with left.cursor() as cursor:
            cursor.execute("CREATE TABLE held (id int)")
            cursor.execute("SELECT * FROM held")
    with mariadb.connect() as admin, admin.cursor() as cursor:
        cursor.execute("SHOW DATABASES LIKE 'tidemark_test_gone'")
        assert cursor.fetchone() is None
    with pytest.raises(pymysql.OperationalError):
        left.ping(reconnect=False)


def test_server_comes_back_from_kill_and_replicates_to_another(programs: Programs) -> None:
    with (
        MariaDbServer(programs) as primary,
        MariaDbServer(programs, server_id=2, settings={"binlog_row_metadata": "MINIMAL"}) as replica,
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
            cursor.execute("SELECT @@gtid_current_pos, @@binlog_row_metadata")
            position, metadata = cursor.fetchone() or ("", "")
            assert position.startswith("0-1-")
            assert metadata == "MINIMAL"


def test_server_ends_with_the_process_that_started_it(programs: Programs) -> None:
    ended = subprocess.run([sys.executable, "-c", ORPHAN], capture_output=True, text=True, timeout=60, check=False)
    pid = int(ended.stdout)

    def gone() -> bool:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        return False

    wait_until(gone, 20, "the server is gone")
