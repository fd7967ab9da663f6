"""XA transactions that are prepared before a table is backfilled, or before the connector is killed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.captures.mysql.table_chunks import prepare_xa, run
from tests.captures.session import bindings, session
from tests.conformance.test_rereads import causes, kept
from tidemark.captures.mysql.tables.table_changes import PREPARED_BEFORE
from tidemark.testing.servers.mariadb import Database

COMMAND = [sys.executable, "-m", "tidemark.connectors.mysql"]


@pytest.fixture
def table(binlog_database: Database) -> Iterator[Database]:
    """A database with a table of two rows."""
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1), (2, 2)")
    yield binlog_database
    with binlog_database.connect() as connection, connection.cursor() as cursor:
        cursor.execute("XA RECOVER")
        for _, first, _, xid in cursor.fetchall():  # of a test that failed: the table could not be dropped
            name = xid if isinstance(xid, str) else xid.decode()
            cursor.execute("XA ROLLBACK %s, %s", [name[:first], name[first:]])


def values(rows: dict[tuple[Any, ...], dict[str, Any]]) -> dict[int, int]:
    return {key[0]: row["v"] for key, row in rows.items()}


def test_prepared_before_the_capture_and_committed_in_it(table: Database) -> None:
    prepare_xa(table, "'gone'", "DELETE FROM t WHERE id = 1", "INSERT INTO t VALUES (3, 3)")
    prepare_xa(table, "'kept', 'b'", "UPDATE t SET v = 20 WHERE id = 2", "INSERT INTO t VALUES (4, 4)")
    with session(table.config(), bindings(f"{table.name}.t"), command=COMMAND) as capture:
        capture.until(lambda s: any("waits for transactions" in line["message"] for line in s.logs))
        run(table, "INSERT INTO t VALUES (5, 5)", "XA ROLLBACK 'gone'")
        assert capture.rows() == {} and not capture.done()
        run(table, "XA COMMIT 'kept', 'b'")
        capture.until(lambda s: s.done())
        assert values(capture.rows()) == {1: 1, 2: 20, 4: 4, 5: 5}


def test_prepared_and_the_connector_is_killed_before_the_commit(table: Database) -> None:
    with session(table.config(), bindings(f"{table.name}.t"), command=COMMAND) as before:
        before.until(lambda s: s.done())
        prepare_xa(table, "'kept'", "UPDATE t SET v = 20 WHERE id = 2", "INSERT INTO t VALUES (4, 4)")
        prepare_xa(table, "'gone'", "DELETE FROM t WHERE id = 1")
        run(table, "INSERT INTO t VALUES (5, 5)")
        before.until(lambda s: (5,) in s.rows())
        assert values(before.rows()) == {1: 1, 2: 2, 5: 5}
    run(table, "XA ROLLBACK 'gone'", "XA COMMIT 'kept'", "INSERT INTO t VALUES (6, 6)")
    with session(table.config(), bindings(f"{table.name}.t"), before.state, command=COMMAND) as after:
        after.until(lambda s: (6,) in s.rows())
        before.documents += after.documents
    assert values(before.rows()) == {1: 1, 2: 20, 4: 4, 5: 5, 6: 6}


def test_a_user_who_may_not_see_prepared_transactions_reads_the_table_again(table: Database) -> None:
    if not table.is_mysql or table.version.startswith("5."):
        pytest.skip("MySQL asks for XA_RECOVER_ADMIN since 8.0")
    user, password = f"{table.name[-20:]}_xa", "a password"
    run(
        table,
        f"CREATE USER {user}@'%' IDENTIFIED BY '{password}'",
        f"GRANT REPLICATION SLAVE, REPLICATION CLIENT, SELECT ON *.* TO {user}@'%'",
    )
    run(table, "CREATE TABLE followed (id INT PRIMARY KEY)")
    prepare_xa(table, "'unseen'", "UPDATE t SET v = 20 WHERE id = 2", "INSERT INTO t VALUES (4, 4)")
    both = bindings(f"{table.name}.t") + bindings(f"{table.name}.followed", scan="none")
    config = {**table.config(), "user": user, "password": password}
    try:
        with session(config, both, command=COMMAND) as capture:
            capture.until(lambda s: s.done())
            assert values(capture.rows()) == {1: 1, 2: 2}
            run(table, "XA COMMIT 'unseen'")
            capture.until(lambda s: s.done() and values(s.rows()) == {1: 1, 2: 20, 4: 4})
            assert causes(kept(capture, "t")).keys() == {PREPARED_BEFORE.name}
            # What cannot be read again is not emptied.
            assert {binding for binding, document in capture.documents if document["_meta"]["op"] == "t"} == {0}
            assert any("XA_RECOVER_ADMIN" in line["message"] for line in capture.logs)
    finally:
        run(table, f"DROP USER {user}@'%'")
