"""What snapshots see of the log: against the server, and for servers of other kinds by the rules alone."""

from __future__ import annotations

import re
from contextlib import closing
from typing import Any

import pytest

from tests.captures.mysql.captured_log import captured_log
from tests.captures.mysql.concurrent_writers import snapshots_under_inserts
from tests.captures.mysql.table_chunks import run, session_on, table_chunks
from tidemark.captures.mysql.chunks.fence import (
    GtidFence,
    MariadbFences,
    NothingCertain,
    PositionFence,
    WatermarkFences,
    create_watermark_table,
    fence_taker,
)
from tidemark.captures.mysql.server.replication import end_of_log, prepared_transactions, prepared_xids, server_name
from tidemark.captures.mysql.server.session import Session, connect
from tidemark.captures.mysql.terms.config import parse_endpoint
from tidemark.captures.mysql.terms.gtid import MariadbGtids, MysqlGtids, transaction_id
from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.mariadb import Database

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


def test_gtids_that_were_not_executed_are_hidden() -> None:
    fence = GtidFence(MysqlGtids(f"{UUID}:1-5:8"), 100)
    assert [fence.hides(f"{UUID}:{number}") for number in (1, 5, 6, 8, 9)] == [False, False, True, False, True]


def test_positions_after_what_is_visible_are_hidden() -> None:
    fence = PositionFence(visible=500, high=600)
    assert [fence.hides(500), fence.hides(501), fence.hides("500"), fence.hides("501")] == [False, True, False, True]


def test_a_transaction_is_known_by_position_on_its_server_and_by_gtid_on_others() -> None:
    fence = PositionFence(500, 500, "1:here:3306", MariadbGtids("0-1-7"))
    # On this server the position decides, whatever the numbers are: not every server gives them out in order.
    assert not fence.hides(transaction_id("0-2-9", "1:here:3306", 500))
    assert fence.hides(transaction_id("0-1-3", "1:here:3306", 501))
    assert not fence.hides(transaction_id("0-2-7", "2:there:3306", 10**15))
    assert fence.hides(transaction_id("0-2-8", "2:there:3306", 1))
    assert fence.hides(transaction_id("1-2-1", "2:there:3306", 1))
    assert PositionFence(500, 500, "1:here:3306").hides(transaction_id("0-1-1", "2:there:3306", 1))


def test_nothing_is_certain_of_tables_without_transactions(binlog_database: Database) -> None:
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY) ENGINE = MyISAM", "INSERT INTO t VALUES (1)")
    with table_chunks(binlog_database, "t") as chunks, session_on(binlog_database) as session:
        chunk = chunks.read()
        assert isinstance(chunk.fence, NothingCertain) and chunk.fence.hides("0-1-1@1:x:1:0")
        # Everything that the rows can show is in the log before it.
        assert chunk.fence.high == end_of_log(session)


def test_a_commit_is_visible_exactly_when_the_snapshot_shows_it(binlog_database: Database) -> None:
    if binlog_database.is_mysql:
        pytest.skip("MariaDB's fence")
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY)")
    with table_chunks(binlog_database, "t") as chunks, session_on(binlog_database) as session:
        before = chunks.read()
        run(binlog_database, "INSERT INTO t VALUES (1)")
        gtid, end = str(session.value("SELECT @@gtid_binlog_pos")), end_of_log(session)
        after = chunks.read()
        txn = transaction_id(gtid.split(",")[-1], server_name(session), end)
    assert (len(before.rows), len(after.rows)) == (0, 1)
    assert before.fence.hides(txn) and before.fence.high < end
    assert not after.fence.hides(txn) and after.fence.high == end


def test_fences_hold_under_concurrent_commits(binlog_database: Database) -> None:
    """Every row that a snapshot shows was committed at or before its fence, and every other one after it."""
    if binlog_database.is_mysql:
        pytest.skip("MariaDB's fence")
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY)", "FLUSH BINARY LOGS")
    gtids: dict[int, str] = {}

    def inserted(cursor: Any, key: int) -> None:
        cursor.execute("SELECT @@last_gtid")
        (gtids[key],) = cursor.fetchone()

    snapshots = snapshots_under_inserts(binlog_database, inserted)
    with session_on(binlog_database) as session:
        server, ends = server_name(session), _ends(session)
    for fence, seen in snapshots:
        visible = {key for key, gtid in gtids.items() if not fence.hides(transaction_id(gtid, server, ends[gtid]))}
        assert visible == seen


def _ends(session: Session) -> dict[str, int]:
    """Where each transaction of the present file ends, by GTID."""
    file = str(session.rows("SHOW MASTER STATUS")[0][0])
    number = int(file.rpartition(".")[2])
    gtid, ends = "", {}
    for _, _, kind, _, end, info in session.rows("SHOW BINLOG EVENTS IN %s", file):
        if kind == "Gtid":
            gtid = re.findall(r"\d+-\d+-\d+", str(info))[0]
        elif kind == "Xid":
            ends[gtid] = number << 40 | int(end)
    return ends


def test_watermarks_cover_everything_logged_before(mysql_database: Database) -> None:
    config = parse_endpoint(mysql_database.config())
    path = (mysql_database.name, "marks")
    run(mysql_database, create_watermark_table(path), "CREATE TABLE t (id INT PRIMARY KEY)")
    with closing(connect(config)) as session, closing(connect(config)) as other:
        fences = WatermarkFences(session, path)
        run(mysql_database, "INSERT INTO " + mysql_database.name + ".t VALUES (1)")
        end = end_of_log(other)
        fence = fences.open()
        session.rows("ROLLBACK")
        assert not fence.hides(end) and fence.hides(fence.high) and fence.high > end
        assert fences.logged() == [str(fence.high)]


def test_mariadb_is_told_by_its_own_means(binlog_database: Database) -> None:
    with session_on(binlog_database) as session:
        taker = fence_taker(session, parse_endpoint(binlog_database.config()))
        assert isinstance(taker, MariadbFences) != binlog_database.is_mysql
        fence = taker.open()
        session.rows("ROLLBACK")
        assert not any(map(fence.hides, taker.logged()))


def test_what_is_prepared_is_waited_for(binlog_database: Database) -> None:
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY)")
    with binlog_database.connect() as writer, writer.cursor() as cursor, session_on(binlog_database) as session:
        assert prepared_transactions(session) == []
        cursor.execute("XA START 'one two'")
        cursor.execute("INSERT INTO t VALUES (1)")
        cursor.execute("XA END 'one two'")
        cursor.execute("XA PREPARE 'one two'")
        (name,) = prepared_transactions(session)
        assert name == "xa:1:7:" + b"one two".hex()
        cursor.execute("XA COMMIT 'one two'")
        wait_until(lambda: not prepared_transactions(session), 60, "it is over")


def test_xids_are_any_bytes(binlog_database: Database) -> None:
    """As transaction managers make them."""
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY)")
    xid = "X'ff00c3',X'62',17"
    with captured_log(binlog_database, "t") as log, session_on(binlog_database) as session:
        with binlog_database.connect() as writer, writer.cursor() as cursor:
            for statement in (f"XA START {xid}", "INSERT INTO t VALUES (1)", f"XA END {xid}", f"XA PREPARE {xid}"):
                cursor.execute(statement)
            log.read()
            assert prepared_xids(session) == frozenset(log.log.log_position.prepared) == {xid.lower()}
            assert prepared_transactions(session) == ["xa:17:3:ff00c362"]
            assert session.value("SELECT 'ä'") == "ä"
            cursor.execute(f"XA COMMIT {xid}")
        assert [document["id"] for document in log.read()] == [1]
