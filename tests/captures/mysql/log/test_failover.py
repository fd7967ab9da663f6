"""A capture moves to another server by GTID, in the middle of a backfill, and back to errors where it cannot."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from tests.captures.mysql.server_pair import follow, server_pair
from tests.captures.mysql.table_chunks import run
from tests.captures.session import ConnectorEnded, bindings, session
from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.mariadb import MARIADB, MYSQL, Database

COMMAND = [sys.executable, "-m", "tidemark.connectors.mysql"]


@pytest.fixture(params=[MARIADB, MYSQL], ids=lambda product: product.name.lower())
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[Database, Database]]:
    """A primary with a table, and a replica of it."""
    # Of its own for each test: what is promoted and written to can follow the other one no more.
    with server_pair(request.param) as (primary, replica):
        follow(replica, primary)
        with primary.connect("") as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE shop")
        run(primary, "CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t SELECT seq, 0 FROM seq_1_to_3000")
        wait_until(lambda: in_step(primary, replica), 20, "the replica has everything")
        yield primary, replica


def table(database: Database) -> dict[tuple[int], int]:
    with database.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT id, v FROM t")
        return {(key,): value for key, value in cursor.fetchall()}


def in_step(primary: Database, replica: Database) -> bool:
    position: list[str] = []
    for database, variable in ((primary, "gtid_binlog_pos"), (replica, "gtid_slave_pos")):
        with database.connect("") as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT @@GLOBAL.{'gtid_executed' if database.is_mysql else variable}")
            position.append(str(cursor.fetchone()))
    return position[0] == position[1]


@pytest.mark.drawn(1)
def test_moving_to_a_replica_in_a_backfill_loses_nothing_and_repeats_nothing(pair: tuple[Database, Database]) -> None:
    primary, replica = pair
    options = {"backfill": {"chunk_rows": 10, "max_rate": "1000 rows"}}
    with session({**primary.config(), **options}, bindings("shop.t"), command=COMMAND) as before:
        before.until(lambda s: len(s.documents) >= 200)
        run(primary, "UPDATE t SET v = 1 WHERE id IN (5, 2900)", "DELETE FROM t WHERE id = 6")
        before.until(lambda s: any(doc["_meta"]["op"] == "d" for _, doc in s.documents))
        assert not before.done()
    # Nobody reads these from the first server any more.
    run(primary, "UPDATE t SET v = 2 WHERE id IN (7, 2950)", "INSERT INTO t VALUES (9001, 2)")
    wait_until(lambda: in_step(primary, replica), 20, "the replica has everything")
    assert replica.server is not None
    replica.server.stop_replicating()
    run(replica, "UPDATE t SET v = 3 WHERE id IN (8, 2999)")
    with session({**replica.config(), **options}, bindings("shop.t"), before.state, command=COMMAND) as after:
        after.until(lambda s: s.done() and (8,) in s.rows())
        run(replica, "UPDATE t SET v = 4 WHERE id = 1")
        after.until(lambda s: any(doc["id"] == 1 and doc.get("v") == 4 for _, doc in s.documents))
        before.documents += after.documents
    assert {key: row["v"] for key, row in before.rows().items()} == table(replica)
    snapshots = [doc["id"] for _, doc in before.documents if doc["_meta"]["source"].get("snapshot")]
    assert len(snapshots) == len(set(snapshots))


@pytest.mark.drawn(1)
def test_a_server_that_lacks_what_was_read_is_refused(pair: tuple[Database, Database]) -> None:
    primary, replica = pair
    assert replica.server is not None
    replica.server.stop_replicating()
    with session(primary.config(), bindings("shop.t"), command=COMMAND) as before:
        before.until(lambda s: s.done())
        run(primary, "INSERT INTO t VALUES (9001, 1)")
        before.until(lambda s: (9001,) in s.rows())
    with session(replica.config(), bindings("shop.t"), before.state, command=COMMAND) as after:
        with pytest.raises(ConnectorEnded):
            after.until(lambda s: s.done() and s.checkpoints > 5)
        wait_until(lambda: after.process.poll() is not None, 60, "the connector has ended")
        assert "TM-MY-016" in str(after.logs[-1])
    options = {"on_lost_position": "backfill"}
    with session({**replica.config(), **options}, bindings("shop.t"), before.state, command=COMMAND) as anew:
        anew.until(lambda s: s.done() and len(s.rows()) == 3000)
        assert {key: row["v"] for key, row in anew.rows().items()} == table(replica)
