"""XA transactions over the end of a session: prepared at one server and committed at another, or before the capture."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.captures.log_reader import plain
from tests.captures.mysql.captured_log import captured_log
from tests.captures.mysql.log.test_events import SERVER
from tests.captures.mysql.server_pair import follow, server_pair
from tests.captures.mysql.table_chunks import prepare_xa, run
from tidemark.captures.contract.errors import LostPosition
from tidemark.captures.mysql.log.xa_transactions import Recall
from tidemark.captures.mysql.terms.gtid import MysqlGtids
from tidemark.captures.mysql.terms.position import LogPosition, PreparedPlace
from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.mariadb import MARIADB, MYSQL, Database


@pytest.fixture(params=[MARIADB, MYSQL], ids=lambda product: product.name.lower())
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[Database, Database]]:
    """A primary with a table, and a replica of it whose files are others."""
    with server_pair(request.param) as (primary, replica):
        if request.param is MYSQL:
            for database in (primary, replica):
                reset(database)
        with replica.connect("") as connection, connection.cursor() as cursor:
            cursor.execute("FLUSH BINARY LOGS")
            cursor.execute("FLUSH BINARY LOGS")
        follow(replica, primary)
        with primary.connect("") as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE shop")
        run(primary, "CREATE TABLE t (id INT PRIMARY KEY, v INT)", "CREATE TABLE other (id INT PRIMARY KEY)")
        replicated(primary, replica)
        yield primary, replica


def reset(database: Database) -> None:
    """Empties the log, which has what was done to the server itself."""
    with database.connect("") as connection, connection.cursor() as cursor:
        cursor.execute("SELECT CAST(SUBSTRING_INDEX(@@version, '.', 2) AS DECIMAL(4, 2)) >= 8.2")
        (modern,) = cursor.fetchone()
        cursor.execute("RESET BINARY LOGS AND GTIDS" if modern else "RESET MASTER")


def replicated(primary: Database, replica: Database) -> None:
    variable = "gtid_executed" if primary.is_mysql else "gtid_binlog_pos"

    def executed(database: Database) -> str:
        with database.connect("") as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT @@GLOBAL.{variable}")
            return str(cursor.fetchone())

    wait_until(lambda: executed(primary) == executed(replica), 30, "the replica has everything")


def promote(replica: Database) -> None:
    run(replica, "STOP SLAVE" if not modern_words(replica) else "STOP REPLICA")


def modern_words(database: Database) -> bool:
    with database.connect("") as connection, connection.cursor() as cursor:
        cursor.execute("SELECT @@version")
        (version,) = cursor.fetchone()
    return database.is_mysql and not str(version).startswith("5.7")


def keep_last_log(database: Database) -> None:
    """Purges the binary logs but the last."""
    with database.connect() as connection, connection.cursor() as cursor:

        def purged() -> bool:
            cursor.execute("SHOW BINARY LOGS")
            files = [str(row[0]) for row in cursor.fetchall()]
            cursor.execute(f"PURGE BINARY LOGS TO '{files[-1]}'")
            return len(files) == 1

        # A file is kept until the engines need it no more to recover, which is soon.
        wait_until(purged, 20, "the older logs are gone")


def test_a_transaction_without_a_gtid_is_found_on_no_other_server() -> None:
    recall = Recall("x'61',x'',1", PreparedPlace("", 0), f"{SERVER}:7", LogPosition("log.000001", 100))
    with pytest.raises(LostPosition, match="TM-MY-053"):
        recall.start(MysqlGtids(f"{SERVER}:1-7"))


def test_prepared_at_one_server_and_committed_at_another(pair: tuple[Database, Database]) -> None:
    primary, replica = pair
    with captured_log(primary, "t") as log:
        identity = log.source.identity()
        run(primary, "INSERT INTO t VALUES (1, 1)")
        prepare_xa(primary, "'a', 'b', 3", "INSERT INTO t VALUES (2, 2)", "UPDATE t SET v = 3 WHERE id = 1")
        prepare_xa(primary, "'dropped'", "INSERT INTO t VALUES (9, 9)")
        prepare_xa(primary, "'late'", "INSERT INTO t VALUES (10, 10)")
        run(primary, "INSERT INTO other VALUES (1)", "INSERT INTO t VALUES (3, 3)")
        assert plain(log.read()) == [("c", {"id": 1, "v": 1}), ("c", {"id": 3, "v": 3})]
        state = str(log.log.log_position)
        # Prepared at the first, and read at the second.
        prepare_xa(primary, "'unread'", "INSERT INTO t VALUES (4, 4)")
    replicated(primary, replica)
    promote(replica)
    with captured_log(replica, "t", cursor=state, identity=identity) as log:
        log.log.track(frozenset((0,)))
        run(replica, "INSERT INTO other VALUES (2)", "XA COMMIT 'a', 'b', 3", "XA ROLLBACK 'dropped'")
        run(replica, "INSERT INTO t VALUES (5, 5)")
        assert plain(log.read()) == [("c", {"id": 2, "v": 2}), ("u", {"id": 1, "v": 3}), ("c", {"id": 5, "v": 5})]
        assert set(log.transactions[0].touched[0]._keys) == {b"1", b"2"}
        identity, state = log.source.identity(), str(log.log.log_position)
        assert len(log.log.log_position.prepared) == 2
    # And over the end of a session there.
    with captured_log(replica, "t", cursor=state, identity=identity) as log:
        run(replica, "XA COMMIT 'unread'", "DELETE FROM t WHERE id = 5")
        assert plain(log.read()) == [("c", {"id": 4, "v": 4}), ("d", {"id": 5, "v": 5})]
        assert not log.restarted
        run(replica, "FLUSH BINARY LOGS", "DELETE FROM t WHERE id = 3")
        assert len(log.read()) == 1
        state = str(log.log.log_position)
    keep_last_log(replica)
    with captured_log(replica, "t", cursor=state, identity=identity) as log:
        run(replica, "XA COMMIT 'late'")
        with pytest.raises(LostPosition, match="TM-MY-053"):
            log.read()
