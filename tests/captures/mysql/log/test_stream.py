"""The log of a real server: transactions of every kind, positions, reconnecting."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

import pytest

from tests.captures.log_reader import plain
from tests.captures.mysql.captured_log import captured_log
from tests.captures.mysql.table_chunks import prepare_xa, run, session_on
from tidemark.captures.contract.errors import AnotherServer
from tidemark.captures.contract.log import Transaction
from tidemark.captures.mysql.log import events
from tidemark.captures.mysql.log.binlog_cursor import LogPlace
from tidemark.captures.mysql.log.connection import BinlogConnection, StreamLimits
from tidemark.captures.mysql.log.stream import BinlogLog
from tidemark.captures.mysql.server.session import connect
from tidemark.captures.mysql.terms.config import parse_endpoint
from tidemark.captures.mysql.terms.position import LogPosition, parse_position
from tidemark.protocol.errors import SourceError
from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.mariadb import Database, end_sessions


@contextmanager
def global_setting(database: Database, name: str, value: str) -> Iterator[None]:
    if name == "binlog_row_metadata" and database.is_mysql:
        value = value.replace("NO_LOG", "MINIMAL")  # the least that MySQL has
        if database.version.startswith("5."):
            if "FULL" in value:
                pytest.skip("MySQL 5.7 names no columns in its log")
            yield
            return
    with database.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT @@GLOBAL.{name}")
        before = cursor.fetchone()
        cursor.execute(f"SET GLOBAL {name} = {value}")
        try:
            yield
        finally:
            cursor.execute(f"SET GLOBAL {name} = %s", before)


def gtid(transaction: Transaction) -> str:
    """MariaDB's transactions are known by their place in the log too."""
    return str(transaction.txn).partition("@")[0]


def test_changes_keys_and_positions(binlog_database: Database) -> None:
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))")
    with captured_log(binlog_database, "t") as log:
        log.log.track(frozenset((0,)))
        run(
            binlog_database,
            "INSERT INTO t VALUES (1, 'a'), (2, NULL)",
            "UPDATE t SET v = 'b'",
            "UPDATE t SET id = 3 WHERE id = 2",
            "DELETE FROM t WHERE id = 1",
        )
        documents = log.read()
        assert plain(documents) == [
            ("c", {"id": 1, "v": "a"}),
            ("c", {"id": 2, "v": None}),
            ("u", {"id": 1, "v": "b"}),
            ("u", {"id": 2, "v": "b"}),
            ("d", {"id": 2, "v": "b"}),
            ("c", {"id": 3, "v": "b"}),
            ("d", {"id": 1, "v": "b"}),
        ]
        assert documents[3]["_meta"]["before"] == {"id": 2, "v": None}
        source = documents[1]["_meta"]["source"]
        assert (source["schema"], source["table"]) == (binlog_database.name, "t")
        assert source["cursor"].endswith(":1") and source["txid"] == gtid(log.transactions[0])
        assert [sorted(t.touched[0]._keys) for t in log.transactions] == [
            [b"1", b"2"],
            [b"1", b"2"],
            [b"2", b"3"],
            [b"1"],
        ]
        assert log.log.position == log.source.end_of_log()
        assert log.log.committed_at is not None


@pytest.mark.parametrize("by_gtid", [True, False])
def test_goes_on_from_any_position_exactly(binlog_database: Database, by_gtid: bool) -> None:
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY)")
    positions = []
    with captured_log(binlog_database, "t") as log:
        for number in range(5):
            run(binlog_database, f"INSERT INTO t VALUES ({number})")
            log.read()
            positions.append(str(log.log.log_position))
        lines = list(log.lines)
    for number, text in enumerate(positions):
        cursor = text if by_gtid else text.partition(";")[0] + ";"
        with captured_log(binlog_database, "t", cursor=cursor) as log:
            log.read()
            assert log.lines == lines[number + 1 :]


def test_xa_transactions_count_when_they_are_committed(binlog_database: Database) -> None:
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY)")
    with captured_log(binlog_database, "t") as log:
        log.log.track(frozenset((0,)))
        for xid in ("'kept'", "'dropped'"):
            insert = f"INSERT INTO t VALUES ({len(xid)}), (10{len(xid)})"
            prepare_xa(binlog_database, f"{xid}, 'branch', 7", insert)
        run(binlog_database, "INSERT INTO t VALUES (1)")
        assert plain(log.read()) == [("c", {"id": 1})]
        assert len(log.log.log_position.prepared) == 2
        run(binlog_database, "XA COMMIT 'kept', 'branch', 7", "XA ROLLBACK 'dropped', 'branch', 7")
        documents = log.read()
        assert plain(documents) == [("c", {"id": 6}), ("c", {"id": 106})]
        assert log.log.log_position.prepared == {}
        assert set(log.transactions[-1].touched[0]._keys) == {b"6", b"106"}
        assert gtid(log.transactions[-1]) == documents[0]["_meta"]["source"]["txid"]
        with binlog_database.connect() as connection, connection.cursor() as cursor:
            cursor.execute("XA START 'one'")
            cursor.execute("INSERT INTO t VALUES (2)")
            cursor.execute("XA END 'one'")
            cursor.execute("XA COMMIT 'one' ONE PHASE")
        assert plain(log.read()) == [("c", {"id": 2})]


def test_a_prepared_transaction_of_before_the_restart_is_read_again(binlog_database: Database) -> None:
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY, v TEXT)")
    with captured_log(binlog_database, "t") as log:
        update = "UPDATE t SET v = 'b' WHERE id = 1"  # without it MySQL locks what comes after, too
        prepare_xa(binlog_database, "'x'", "INSERT INTO t VALUES (1, 'a')", update)
        run(binlog_database, "INSERT INTO t VALUES (2, 'c')", "FLUSH BINARY LOGS", "INSERT INTO t VALUES (3, 'd')")
        log.read()
        state = str(log.log.log_position)
    run(binlog_database, "XA COMMIT 'x'", "INSERT INTO t VALUES (4, 'e')")
    with captured_log(binlog_database, "t", cursor=state) as log:
        log.log.track(frozenset((0,)))
        documents = log.read()
        assert plain(documents) == [("c", {"id": 1, "v": "a"}), ("u", {"id": 1, "v": "b"}), ("c", {"id": 4, "v": "e"})]
        cursors = [document["_meta"]["source"]["cursor"] for document in documents]
        assert [cursor.rpartition(":")[2] for cursor in cursors] == ["0", "1", "0"]
        assert log.log.log_position.prepared == {}
        assert list(map(gtid, log.transactions)) == [
            documents[0]["_meta"]["source"]["txid"],
            documents[2]["_meta"]["source"]["txid"],
        ]
        assert parse_position(str(log.log.log_position)) == log.log.log_position


def test_a_prepared_transaction_too_large_to_be_held_is_read_again(binlog_database: Database) -> None:
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY, v TEXT)")
    with captured_log(binlog_database, "t", limits=StreamLimits(held_bytes=100_000)) as log:
        insert = "INSERT INTO t SELECT seq, repeat('x', 100) FROM seq_1_to_20000"
        prepare_xa(binlog_database, "'large'", insert)
        run(binlog_database, "INSERT INTO t VALUES (0, '')")
        assert len(log.read()) == 1
        run(binlog_database, "XA COMMIT 'large'", "INSERT INTO t VALUES (-1, '')")
        assert [document["id"] for document in log.read(limit=1000)] == [*range(1, 20001), -1]
        assert len(log.transactions) == 3 and len(log.read_sizes) > 4


def test_every_row_of_a_transaction_has_a_place_of_its_own(binlog_database: Database) -> None:
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE u (id INT PRIMARY KEY)")
    with captured_log(binlog_database, "t", "u") as log:
        with binlog_database.connect(autocommit=False) as connection, connection.cursor() as cursor:
            for statement in ("INSERT INTO t VALUES (1), (2)", "INSERT INTO u VALUES (1)", "DELETE FROM t"):
                cursor.execute(statement)
            connection.commit()
        run(binlog_database, "INSERT INTO t VALUES (3)")
        places = [tuple(map(int, d["_meta"]["source"]["cursor"].rsplit(":", 2)[1:])) for d in log.read()]
        assert len(places) == 6 and places == sorted(set(places))


def test_events_that_do_not_say_where_they_end_follow_one_another() -> None:
    place = LogPlace(LogPosition("binlog.000001", 100))
    starts = []
    for kind, size, end in (
        (events.MARIADB_GTID, 40, 140),
        (events.TABLE_MAP, 30, 0),
        (events.WRITE_ROWS_V1, 50, 0),
        (events.FORMAT_DESCRIPTION, 90, 0),  # what the server makes up is not in the log
        (events.WRITE_ROWS_V1, 50, 0),
        (events.XID, 31, 391),
    ):
        place.move(kind, size, end)
        starts.append(place.event_start)
    assert starts == [100, 140, 170, 170, 220, 360]
    assert place.order == LogPosition("binlog.000001", 391).order


def test_what_earlier_files_called_the_tables_is_forgotten(binlog_database: Database) -> None:
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY)")
    with captured_log(binlog_database, "t") as log:
        run(binlog_database, "INSERT INTO t VALUES (1)", "ALTER TABLE t ADD v INT", "INSERT INTO t VALUES (2, 2)")
        assert len(log.read()) == 2 and len(log.log._maps) == 2
        run(binlog_database, "FLUSH BINARY LOGS")
        log.read()
        assert not log.log._maps


def test_savepoints_and_rollbacks(binlog_database: Database) -> None:
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE m (id INT PRIMARY KEY) ENGINE = MyISAM")
    with captured_log(binlog_database, "t", "m") as log:
        with binlog_database.connect(autocommit=False) as connection, connection.cursor() as cursor:
            cursor.execute("INSERT INTO t VALUES (1)")
            cursor.execute("SAVEPOINT s")
            cursor.execute("INSERT INTO t VALUES (2)")
            cursor.execute("ROLLBACK TO s")
            cursor.execute("INSERT INTO t VALUES (3)")
            cursor.execute("COMMIT")
            cursor.execute("INSERT INTO t VALUES (4)")
            cursor.execute("ROLLBACK")
        assert plain(log.read()) == [("c", {"id": 1}), ("c", {"id": 3})]
        assert not log.restarted
        if binlog_database.is_mysql:
            return  # with GTIDs it refuses the rest
        # Tables without transactions keep what was rolled back elsewhere; whatever the log then says, the stream must
        # come out equal, or ask for a backfill.
        with binlog_database.connect(autocommit=False) as connection, connection.cursor() as cursor:
            cursor.execute("INSERT INTO t VALUES (5)")
            cursor.execute("SAVEPOINT s")
            cursor.execute("INSERT INTO m VALUES (6)")
            cursor.execute("INSERT INTO t VALUES (7)")
            cursor.execute("ROLLBACK TO s")
            cursor.execute("COMMIT")
            cursor.execute("INSERT INTO t VALUES (8)")
            cursor.execute("INSERT INTO m VALUES (9)")
            cursor.execute("ROLLBACK")
        written = plain(log.read())
        assert ("c", {"id": 6}) in written and ("c", {"id": 9}) in written and ("c", {"id": 5}) in written
        gone = [row["id"] for _, row in written if row["id"] in (7, 8)]
        assert not gone or 0 in log.restarted


@pytest.mark.parametrize("engine", ["MyISAM", "Aria", "Aria TRANSACTIONAL=0", "MEMORY"])
def test_tables_without_transactions(binlog_database: Database, engine: str) -> None:
    if binlog_database.is_mysql and engine.startswith("Aria"):
        pytest.skip("MariaDB's")
    run(binlog_database, f"CREATE TABLE t (id INT PRIMARY KEY) ENGINE = {engine}")
    with captured_log(binlog_database, "t") as log:
        run(binlog_database, "INSERT INTO t VALUES (1), (2)", "UPDATE t SET id = id + 10 ORDER BY id DESC")
        assert len(log.read()) == 6
        assert len(log.transactions) == 2


def test_statements_over_several_tables_and_load_data(binlog_database: Database, tmp_path: Any) -> None:
    run(
        binlog_database,
        "CREATE TABLE a (id INT PRIMARY KEY, v INT)",
        "CREATE TABLE b (id INT PRIMARY KEY, v INT)",
        "CREATE TABLE other (id INT PRIMARY KEY)",
        "INSERT INTO a VALUES (1, 0), (2, 0)",
        "INSERT INTO b VALUES (1, 0), (2, 0)",
    )
    file = tmp_path / "rows"
    file.write_text("".join(f"{n}\t{n}\n" for n in range(3, 1003)))
    with captured_log(binlog_database, "a", "b") as log, global_setting(binlog_database, "local_infile", "1"):
        with binlog_database.connect(local_infile=True) as connection, connection.cursor() as cursor:
            cursor.execute("UPDATE a JOIN b USING (id) SET a.v = 5, b.v = 6")
            cursor.execute("INSERT INTO other VALUES (1)")
            cursor.execute(f"LOAD DATA LOCAL INFILE '{file}' INTO TABLE a")
            cursor.execute("DELETE a, b FROM a JOIN b USING (id)")
        documents = log.read()
        assert [op for op, _ in plain(documents)] == ["u"] * 4 + ["c"] * 1000 + ["d"] * 4
        assert {d["_meta"]["source"]["table"] for d in documents[:4]} == {"a", "b"}
        assert len(log.transactions) == 3


def test_compressed_events(binlog_database: Database) -> None:
    """Of MariaDB each event, of MySQL each transaction."""
    setting = "binlog_transaction_compression" if binlog_database.is_mysql else "log_bin_compress"
    if binlog_database.version.startswith("5."):
        pytest.skip("MySQL 5.7 compresses nothing")
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY, v LONGTEXT)")
    with captured_log(binlog_database, "t") as log, global_setting(binlog_database, setting, "1"):
        run(
            binlog_database,
            "INSERT INTO t VALUES (1, repeat('a', 1000)), (2, 'b')",
            "UPDATE t SET v = repeat('c', 2000)",
            "DELETE FROM t WHERE v = repeat('c', 2000) AND id = 1",
            f"TRUNCATE TABLE t /* {'x' * 1000} */",
        )
        assert [op for op, _ in plain(log.read())] == ["c", "c", "u", "u", "d", "t"]


def test_row_images_without_every_column(binlog_database: Database) -> None:
    run(
        binlog_database,
        "CREATE TABLE t (id INT, part INT, v INT DEFAULT 3, b BLOB, PRIMARY KEY (id, part))",
        "INSERT INTO t VALUES (1, 1, 5, 'x')",
    )
    with captured_log(binlog_database, "t") as log:
        log.log.track(frozenset((0,)))
        with binlog_database.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SET binlog_row_image = MINIMAL")
            cursor.execute("UPDATE t SET v = 6")
            cursor.execute("INSERT INTO t (id, part) VALUES (2, 2)")
            cursor.execute("UPDATE t SET part = 9 WHERE id = 1")
            cursor.execute("DELETE FROM t WHERE id = 2")
            cursor.execute("SET binlog_row_image = NOBLOB")
            cursor.execute("UPDATE t SET v = 7")
        documents = log.read()
    assert plain(documents) == [
        ("u", {"id": 1, "part": 1, "v": 6}),
        ("c", {"id": 2, "part": 2}),
        ("d", {"id": 1, "part": 1}),
        ("c", {"id": 1, "part": 9}),
        ("d", {"id": 2, "part": 2}),
        ("u", {"id": 1, "part": 9, "v": 7}),
    ]
    metas = [document["_meta"] for document in documents]
    assert [meta.get("unchanged") for meta in metas] == [["b"], ["v", "b"], None, ["v", "b"], None, ["b"]]
    assert metas[0]["before"] == {"id": 1, "part": 1}
    assert metas[5]["before"] == {"id": 1, "part": 9, "v": 6}
    update, insert, moved, deleted, _ = [t.touched[0] for t in log.transactions]
    assert update.partial(b"1\x001") and not update.incomplete()
    assert insert.incomplete() == [b"2\x002"]
    assert moved.incomplete() == [b"1\x009"] and not moved.partial(b"1\x001")
    assert not deleted.partial(b"2\x002")


def test_rows_that_come_incomplete_are_named_where_keys_are_not_tracked(binlog_database: Database) -> None:
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    with captured_log(binlog_database, "t") as log:
        run(binlog_database, "SET binlog_row_image = MINIMAL", "INSERT INTO t (id) VALUES (4)")
        log.read()
    (transaction,) = log.transactions
    assert transaction.incomplete == [(0, b"4")] and not transaction.touched


def test_a_large_transaction_comes_in_pieces(binlog_database: Database) -> None:
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY, v TEXT)")
    with captured_log(binlog_database, "t") as log:
        run(binlog_database, "INSERT INTO t SELECT seq, repeat('x', 200) FROM seq_1_to_50000")
        assert len(log.read(limit=100_000)) == 50000
        assert len(log.transactions) == 1
        # About as much log as was asked for, and the megabyte to the end of a transaction that may be near.
        assert len([size for size in log.read_sizes if size]) > 1 and max(log.read_sizes) < 6_000_000


def test_a_row_of_more_than_a_packet(binlog_database: Database) -> None:
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY, v LONGTEXT)")
    with captured_log(binlog_database, "t") as log, global_setting(binlog_database, "max_allowed_packet", "1 << 26"):
        run(
            binlog_database,
            "INSERT INTO t VALUES (1, repeat('ä', 9 << 20)), (2, 'x')",
            "INSERT INTO t VALUES (3, 'y')",
        )
        documents = log.read()
        assert [(d["id"], len(d["v"])) for d in documents] == [(1, 9 << 20), (2, 1), (3, 1)]
    # With max_allowed_packet as before, this file's events can no longer be listed by the server.
    run(binlog_database, "FLUSH BINARY LOGS")


def test_reconnecting_in_the_middle_of_a_transaction_repeats_nothing(binlog_database: Database) -> None:
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY, v TEXT)")
    with captured_log(binlog_database, "t") as log:
        run(binlog_database, "INSERT INTO t VALUES (0, '')")
        log.read()
        log.log.track(frozenset((0,)))
        run(binlog_database, "INSERT INTO t SELECT seq, repeat('x', 800) FROM seq_1_to_40000")
        while log.log.between_transactions:
            log.read_once(1000)
        with binlog_database.connect() as admin:
            end_sessions(admin, "command LIKE %s", ["Binlog Dump%"])
        with pytest.raises(SourceError) as caught:
            while not log.log.between_transactions:
                log.read_once(1000)
        assert caught.value.code == "TM-MY-020"
        before = len(log.lines)
        assert 1 < before < 40000
        log.log.reconnect()
        assert not log.log.between_transactions
        log.read()
        assert [d["id"] for d in log.documents] == list(range(40001))
        assert len(log.transactions) == 2
        assert len(log.transactions[1].touched[0]) == 40000


def test_reconnecting_in_a_transaction_in_which_a_table_was_set_aside_loses_nothing(binlog_database: Database) -> None:
    run(
        binlog_database,
        "CREATE TABLE t (id INT PRIMARY KEY, v TEXT)",
        "CREATE TABLE other (id INT PRIMARY KEY, day DATE)",
    )
    with captured_log(binlog_database, "t", "other") as log:
        run(
            binlog_database,
            "SET sql_mode = ''",
            "BEGIN",
            *(f"INSERT INTO other VALUES ({number}, '2026-01-01')" for number in range(5)),
            "INSERT INTO other VALUES (5, '0000-00-00')",
            "INSERT INTO t SELECT seq, repeat('x', 800) FROM seq_1_to_20000",
            "COMMIT",
        )
        while len(log.lines) < 100:
            log.read_once(1000)
        assert set(log.set_aside) == {1} and not log.log.between_transactions
        with binlog_database.connect() as admin:
            end_sessions(admin, "command LIKE %s", ["Binlog Dump%"])
        with pytest.raises(SourceError):
            while not log.log.between_transactions:
                log.read_once(1000)
        log.log.reconnect()
        log.read()
        documents = log.documents
    assert [d["id"] for d in documents if "v" in d] == list(range(1, 20_001))
    assert [d["id"] for d in documents if "day" in d] == list(range(5))


def test_another_replica_with_the_same_server_id_is_said(binlog_database: Database) -> None:
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY)")
    with captured_log(binlog_database, "t", server_id=4711) as one:
        run(binlog_database, "INSERT INTO t VALUES (1)")
        one.read()
        with captured_log(binlog_database, "t", server_id=4711) as other, pytest.raises(SourceError) as caught:
            other.read()
            for _ in range(1000):
                one.read_once()
        assert caught.value.code == "TM-MY-042" and "4711" in caught.value.message


@pytest.mark.parametrize(
    ("place", "code"),
    [
        (LogPosition("", 0, "0-77-12345678"), "TM-MY-016"),
        (LogPosition("binlog.999999", 4), "TM-MY-015"),
        (LogPosition("binlog.000002", 1 << 30), "TM-MY-016"),
    ],
)
def test_a_place_that_the_log_does_not_have_is_an_error(
    binlog_database: Database, place: LogPosition, code: str
) -> None:
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY)", "FLUSH BINARY LOGS")
    mysql = binlog_database.is_mysql
    if mysql and place.gtids:
        with session_on(binlog_database) as session:
            place = replace(place, gtids=f"{session.value('SELECT @@server_uuid')}:1-12345678")
    with captured_log(binlog_database, "t") as log:
        start = replace(place, file=log.log.log_position.file) if place.offset > 4 else place
        config = parse_endpoint(binlog_database.config())

        def connected(position: LogPosition) -> BinlogConnection:
            return BinlogConnection(connect(config), 4712, position)

        tables, in_snapshot = log.source.captured, log.source.snapshots.leaves_out
        with (
            closing(BinlogLog(connected, start, tables, in_snapshot, mariadb=not mysql)) as other,
            pytest.raises(SourceError) as caught,
        ):
            # A descriptor that is always ready, as /dev/null is, has reads return before the server has answered.
            wait_until(lambda: other.read(1 << 20, 0.05, 0) is None, 60, "the server refuses the place")
        assert caught.value.code == code


def test_another_server_at_the_same_address_ends_the_session(binlog_database: Database) -> None:
    if binlog_database.is_mysql:
        pytest.skip("a server of MySQL is known by its uuid, which stays")
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY)")
    with captured_log(binlog_database, "t") as log, global_setting(binlog_database, "server_id", "4713"):
        log.log.reconnect()
        with pytest.raises(AnotherServer) as caught:
            log.read_once()
        assert caught.value.code == "TM-MY-054"
