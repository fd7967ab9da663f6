"""A commit that is in the binlog, and so in the capture, before any snapshot shows it.

A primary with semi-synchronous replication that waits ``AFTER_SYNC`` for a replica which never answers holds a commit
exactly there. Whoever reads the row then reads what it was before.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.captures.mysql.table_chunks import run, session_on
from tests.captures.session import Session, bindings, session
from tidemark.captures.mysql.chunks.fence import MariadbFences
from tidemark.captures.mysql.terms.gtid import transaction_id
from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.mariadb import Database, no_source
from tidemark.testing.servers.mariadb_server import MariaDbServer, installed_programs

COMMAND = [sys.executable, "-m", "tidemark.connectors.mysql"]
SEMI_SYNC = {
    "rpl_semi_sync_master_wait_point": "AFTER_SYNC",
    "rpl_semi_sync_master_timeout": "3600000",
    "rpl_semi_sync_master_wait_no_slave": "on",
}


@pytest.fixture
def shop() -> Iterator[Database]:
    programs = installed_programs()
    if programs is None:
        pytest.skip(no_source())
    with MariaDbServer(programs, settings=SEMI_SYNC) as server:
        made = Database(server.host, server.port, server.user, server.password, server=server, name="shop")
        with made.connect("") as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE shop")
        run(made, "CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t SELECT seq, 0 FROM seq_1_to_3000")
        yield made


@contextmanager
def held_commit(shop: Database, statement: str) -> Iterator[None]:
    """Inside, the statement is committed in the binlog, and nobody sees it."""
    run(shop, "SET GLOBAL rpl_semi_sync_master_enabled = ON")
    committing = threading.Thread(target=run, args=(shop, statement))
    committing.start()
    try:
        wait_until(lambda: _waiting(shop), 20, "the commit waits for a replica")
        yield
    finally:
        run(shop, "SET GLOBAL rpl_semi_sync_master_enabled = OFF")
        committing.join()


def _waiting(shop: Database) -> bool:
    with shop.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SHOW STATUS LIKE 'Rpl_semi_sync_master_wait_sessions'")
        return str(cursor.fetchone()) == "('Rpl_semi_sync_master_wait_sessions', '1')"


def seen(shop: Database, key: int) -> int:
    with shop.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT v FROM t WHERE id = %s", [key])
        (value,) = cursor.fetchone() or (None,)
    assert isinstance(value, int)
    return value


def log_gave(capture: Session, key: int) -> bool:
    return any(doc["_meta"]["op"] == "u" and doc["id"] == key for _, doc in capture.documents)


def test_a_chunk_that_reads_the_row_of_before_does_not_undo_the_change(shop: Database) -> None:
    config = {**shop.config(), "backfill": {"chunk_rows": 10, "max_rate": "1000 rows"}}
    with session(config, bindings("shop.t"), command=COMMAND) as capture:
        capture.until(lambda s: len(s.documents) >= 10)
        with held_commit(shop, "UPDATE t SET v = 1 WHERE id = 3000"):
            capture.until(lambda s: log_gave(s, 3000))
            assert not capture.done()
            capture.until(lambda s: s.done())
            assert seen(shop, 3000) == 0
            assert capture.rows()[3000,]["v"] == 1
            assert len(capture.rows()) == 3000
            assert capture.state["hidden"], "the state names what was emitted and is not visible"
        # Once it is visible, checkpoints no longer name it.
        run(shop, "UPDATE t SET v = 2 WHERE id = 1")
        capture.until(lambda s: log_gave(s, 1) and not s.state.get("hidden"))


def test_what_is_not_visible_is_hidden_also_where_another_server_logged_it(shop: Database) -> None:
    """It is known there by its GTID, which counts as logged here before it is visible."""
    with session_on(shop) as reader:
        before = str(reader.value("SELECT @@gtid_binlog_pos"))
        with held_commit(shop, "UPDATE t SET v = 1 WHERE id = 7"):
            logged = str(reader.value("SELECT @@gtid_binlog_pos"))
            assert logged != before
            fence = MariadbFences(reader).open()
            reader.rows("ROLLBACK")
            assert fence.hides(transaction_id(logged, "2:elsewhere:3306", 1))
        fence = MariadbFences(reader).open()
        reader.rows("ROLLBACK")
        assert not fence.hides(transaction_id(logged, "2:elsewhere:3306", 1))


def test_a_capture_that_begins_behind_the_commit_waits_until_it_is_visible(shop: Database) -> None:
    with (
        held_commit(shop, "UPDATE t SET v = 1 WHERE id = 7"),
        session(shop.config(), bindings("shop.t"), command=COMMAND) as capture,
    ):
        # Its log begins after the change, so only chunks can have it.
        capture.until(lambda s: any("waits for transactions" in str(log) for log in s.logs))
        assert seen(shop, 7) == 0 and not capture.documents
        run(shop, "SET GLOBAL rpl_semi_sync_master_enabled = OFF")
        capture.until(lambda s: s.done())
        assert capture.rows()[7,]["v"] == 1


def test_a_snapshot_that_lacks_what_was_emitted_is_not_read(shop: Database) -> None:
    """Of a table without a key: it was emptied downstream, with the change that no snapshot shows yet."""
    run(shop, "CREATE TABLE k (id INT, v INT)", "INSERT INTO k SELECT seq, 0 FROM seq_1_to_20")
    bound = bindings("shop.k", scan="snapshot")
    with session(shop.config(), bound, command=COMMAND) as capture:
        capture.until(lambda s: s.done())
        with held_commit(shop, "UPDATE k SET v = 1 WHERE id = 7"):
            capture.until(lambda s: log_gave(s, 7))
            for sequence, action in enumerate(("backfill", *["resume"] * 6), start=1):
                capture.send({"control": {"sequence": sequence, "action": action, "tables": ["shop.k"]}})
                capture.until(lambda s, of=sequence: s.state.get("control") == of)  # type: ignore[misc]
            assert not capture.done()
        capture.until(lambda s: s.done())
    last = max(place for place, (_, doc) in enumerate(capture.documents) if doc["_meta"]["op"] == "t")
    assert sorted(doc["v"] for _, doc in capture.documents[last + 1 :]) == [0] * 19 + [1]


def test_a_capture_that_starts_again_meanwhile_does_not_read_the_row_of_before(shop: Database) -> None:
    config = {**shop.config(), "backfill": {"chunk_rows": 10, "max_rate": "1000 rows"}}
    with session(config, bindings("shop.t"), command=COMMAND) as capture:
        capture.until(lambda s: len(s.documents) >= 10)
        with held_commit(shop, "UPDATE t SET v = 1 WHERE id = 3000"):
            capture.until(lambda s: log_gave(s, 3000))
            assert not capture.done()
            capture.close()
            with session(config, bindings("shop.t"), capture.state, command=COMMAND) as again:
                again.until(lambda s: s.checkpoints >= 1)
                assert not again.done()
                run(shop, "SET GLOBAL rpl_semi_sync_master_enabled = OFF")
                again.until(lambda s: s.done())
                assert all(doc["v"] == 1 for _, doc in again.documents if doc["id"] == 3000)
