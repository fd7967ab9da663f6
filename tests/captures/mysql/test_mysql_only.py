"""What only MySQL has, from a server: tagged GTIDs, partial JSON, vectors, its fences, and a server without GTIDs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.captures.log_reader import plain
from tests.captures.mysql.captured_log import captured_log
from tests.captures.mysql.concurrent_writers import WRITERS, snapshots_under_inserts
from tests.captures.mysql.table_chunks import run, session_on, table_chunks
from tests.captures.remedies import statements
from tests.captures.session import bindings, session
from tidemark.captures.contract.errors import LostPosition
from tidemark.captures.mysql.chunks.fence import create_watermark_table
from tidemark.captures.mysql.server.session import Session
from tidemark.captures.mysql.terms.gtid import MysqlGtids
from tidemark.captures.mysql.terms.position import parse_position, position
from tidemark.protocol.errors import SourceError
from tidemark.testing.servers.mariadb import MYSQL, Database, no_source

COMMAND = [sys.executable, "-m", "tidemark.connectors.mysql"]


def needs(database: Database, *version: int) -> None:
    """Skips the test on a MySQL before this version."""
    with session_on(database) as session:
        if session.version < version:
            pytest.skip(f"MySQL has it since {'.'.join(map(str, version))}")


def test_tagged_gtids_are_read_and_gone_on_from(mysql_database: Database) -> None:
    needs(mysql_database, 8, 3)
    run(mysql_database, "CREATE TABLE t (id INT PRIMARY KEY)")
    with captured_log(mysql_database, "t") as log:
        run(
            mysql_database,
            "INSERT INTO t VALUES (1)",
            "SET gtid_next = 'AUTOMATIC:nightly'",
            "INSERT INTO t VALUES (2)",
            "INSERT INTO t VALUES (3)",
            "SET gtid_next = 'AUTOMATIC'",
            "INSERT INTO t VALUES (4)",
        )
        documents = log.read()
        assert [document["id"] for document in documents] == [1, 2, 3, 4]
        tags = [document["_meta"]["source"]["txid"].split(":")[1:-1] for document in documents]
        assert tags == [[], ["nightly"], ["nightly"], []]
        state = str(log.log.log_position)
        with session_on(mysql_database) as session:
            fence = log.source.visibility()
            assert not any(fence.hides(document["_meta"]["source"]["txid"]) for document in documents)
            executed = MysqlGtids(str(session.value("SELECT @@GLOBAL.gtid_executed")))
        read = parse_position(state).gtids
        assert ":nightly:" in read and executed.contains_all(MysqlGtids(read))
    run(mysql_database, "SET gtid_next = 'AUTOMATIC:nightly'", "INSERT INTO t VALUES (5)")
    # By GTIDs alone, as on another server: a set with tags has a form of its own.
    position = parse_position(state)
    for cursor in (state, f":0;{position.gtids}"):
        with captured_log(mysql_database, "t", cursor=cursor) as log:
            assert [document["id"] for document in log.read()] == [5]


def test_updates_of_a_part_of_a_json(mysql_database: Database) -> None:
    """``binlog_row_value_options = PARTIAL_JSON``: the log has what was changed, documents have all of it."""
    needs(mysql_database, 8, 0, 3)
    padding = "x" * 200  # the server logs the whole value where that is shorter
    run(
        mysql_database,
        "CREATE TABLE t (id INT PRIMARY KEY, j JSON, k JSON, v INT)",
        f"""INSERT INTO t VALUES (1, '{{"a": 1, "b": [1, 2, 3], "c": {{"d": "{padding}"}}}}', '[1, "{padding}"]', 0)""",
    )
    changes = [
        "j = JSON_SET(j, '$.a', 2)",
        "j = JSON_REPLACE(j, '$.b[1]', 'two'), k = JSON_REMOVE(k, '$[0]')",
        """j = JSON_SET(j, '$.c."new key"', CAST('{"deep": [null, true, 1.5]}' AS JSON)), v = 1""",
        "j = JSON_REMOVE(j, '$.b[0]', '$.c.d')",
        "j = JSON_SET(j, '$.a', CAST('2024-02-29 12:00:00.5' AS DATETIME(6))), k = JSON_SET(k, '$[5]', 0.25)",
        "j = NULL",
    ]
    with (
        captured_log(mysql_database, "t") as log,
        mysql_database.connect() as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("SET binlog_row_value_options = PARTIAL_JSON")
        for change in changes:
            cursor.execute(f"UPDATE t SET {change}")
            (logged,) = log.read()
            assert "unchanged" not in logged["_meta"]
            del logged["_meta"]
            with table_chunks(mysql_database, "t") as chunks:
                (read,) = chunks.scan(10)[1]
            assert (change, logged) == (change, read)


@pytest.mark.parametrize("image", ["MINIMAL", "NOBLOB"])
def test_a_part_of_a_json_of_which_the_log_does_not_have_the_rest(mysql_database: Database, image: str) -> None:
    """The row is read again, also when its backfill is over: the change cannot be applied to anything."""
    needs(mysql_database, 8, 0, 3)
    run(
        mysql_database,
        "CREATE TABLE t (id INT PRIMARY KEY, i JSON, j JSON, v INT)",
        f"""INSERT INTO t VALUES (1, '[0]', '{{"a": 1, "b": "{"x" * 200}"}}', 0), (2, NULL, '[]', 0)""",
    )
    with session(mysql_database.config(), bindings(f"{mysql_database.name}.t"), command=COMMAND) as capture:
        capture.until(lambda s: s.done())
        run(
            mysql_database,
            f"SET binlog_row_value_options = PARTIAL_JSON, binlog_row_image = {image}",
            "UPDATE t SET j = JSON_SET(j, '$.a', 2), v = 1 WHERE id = 1",
            "UPDATE t SET v = 1 WHERE id = 2",
        )
        capture.until(lambda s: (s.rows()[1,]["j"]["a"], s.rows()[2,]["v"]) == (2, 1) and s.done())
        assert capture.rows()[1,]["v"] == 1 and capture.rows()[2,]["j"] == []
        assert capture.rows()[1,]["i"] == [0]
        (change,) = (doc for _, doc in capture.documents if doc["_meta"]["op"] == "u" and doc["id"] == 1)
        # With NOBLOB the server logs the old value, too.
        assert change["_meta"].get("unchanged") == (["i", "j"] if image == "MINIMAL" else None)


def test_vectors(mysql_database: Database) -> None:
    needs(mysql_database, 9, 0)
    run(
        mysql_database,
        "CREATE TABLE t (id INT PRIMARY KEY, v VECTOR(3), w VECTOR, x TEXT CHARSET latin1, y TEXT CHARSET utf8mb4)",
    )
    expected = {"id": 1, "v": [0.1, -2.0, 3e30], "w": [7.0], "x": "ä", "y": "ö"}
    with captured_log(mysql_database, "t") as log:
        vectors = "STRING_TO_VECTOR('[0.1, -2, 3e30]'), STRING_TO_VECTOR('[7]')"
        run(mysql_database, f"INSERT INTO t VALUES (1, {vectors}, 'ä', 'ö')")
        assert plain(log.read()) == [("c", expected)]
    with table_chunks(mysql_database, "t") as chunks:
        assert chunks.scan(10)[1] == [expected]


def test_keys_that_the_server_adds(mysql_database: Database) -> None:
    """``sql_generate_invisible_primary_key``: a table without a key gets one that ``SELECT *`` does not show."""
    needs(mysql_database, 8, 0, 30)
    run(mysql_database, "SET sql_generate_invisible_primary_key = ON", "CREATE TABLE t (v INT)")
    with captured_log(mysql_database, "t") as log:
        run(mysql_database, "INSERT INTO t VALUES (7)", "ALTER TABLE t ADD COLUMN w INT FIRST, ALGORITHM = INSTANT")
        run(mysql_database, "INSERT INTO t (v) VALUES (8)", "ALTER TABLE t DROP COLUMN v", "DELETE FROM t")
        assert [op for op, _ in plain(log.read())] == ["c", "c", "d", "d"]
        assert log.documents[1]["my_row_id"] == 2 and log.documents[1]["v"] == 8
        assert not log.restarted


def test_what_a_fence_takes_for_visible_its_snapshot_shows(mysql_database: Database) -> None:
    run(mysql_database, "CREATE TABLE t (id INT PRIMARY KEY)")
    with captured_log(mysql_database, "t") as log:
        snapshots = snapshots_under_inserts(mysql_database)
        txids = {document["id"]: document["_meta"]["source"]["txid"] for document in log.read()}
    for fence, seen in snapshots:
        visible = {key for key, txid in txids.items() if not fence.hides(txid)}
        assert visible and visible <= seen
    # What commits between reading gtid_executed and opening the snapshot is seen, and taken for hidden: little.
    assert any(
        visible == seen for fence, seen in snapshots for visible in [{k for k in seen if not fence.hides(txids[k])}]
    )


def test_what_a_snapshot_shows_is_in_the_log_before_its_fence(mysql_database: Database) -> None:
    """The position is taken after the snapshot: one from before it would let a chunk out ahead of the log."""
    needs(mysql_database, 8, 2)
    run(mysql_database, "CREATE TABLE t (id INT PRIMARY KEY)")
    after: dict[int, int] = {}

    def inserted(cursor: Any, key: int) -> None:
        """Notes a position that lies behind this commit, and before the next one of the same writer."""
        cursor.execute("SHOW BINARY LOG STATUS")
        file, offset, *_ = cursor.fetchone()
        after[key] = position(file, offset)

    for fence, seen in snapshots_under_inserts(mysql_database, inserted):
        assert all(fence.high > after[key - WRITERS] for key in seen if key >= WRITERS)


@pytest.fixture
def without_gtids() -> Iterator[Database]:
    """A database on a server of its own with ``gtid_mode = OFF``."""
    programs = MYSQL.installed()
    if programs is None:
        pytest.skip(no_source(MYSQL))
    with MYSQL.server(programs, settings={"gtid_mode": "off", "enforce_gtid_consistency": "off"}) as server:
        with closing(server.connect()) as connection, closing(connection.cursor()) as cursor:
            cursor.execute("CREATE DATABASE shop")
        yield Database(
            server.host, server.port, server.user, server.password, programs.version, server=server, name="shop"
        )


def test_a_server_without_gtids(without_gtids: Database) -> None:
    """Backfilled beside changes, killed, and gone on with by file and position; a reset log is found."""
    database = without_gtids
    run(database, "CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t SELECT seq, 0 FROM seq_1_to_600")
    config = {**database.config(), "watermark_table": "shop.marks", "backfill": {"chunk_rows": 50}}
    bound = bindings("shop.t")
    elsewhere = {"cursor": "binlog.000001:4;", "source": {"product": "mysql", "server": "another", "base": "binlog"}}
    with session(config, bound, elsewhere, command=COMMAND) as refused:
        assert refused.finish() == 1
        assert refused.logs[-1]["fields"]["code"] == "TM-MY-016"
    with database.connect() as connection, connection.cursor() as cursor:
        assert not cursor.execute("SHOW TABLES LIKE 'marks'"), "nothing is made where the capture cannot go on"
    with session(config, bound, command=COMMAND) as first:
        first.until(lambda s: len(s.documents) >= 100)
        run(database, "UPDATE t SET v = 1 WHERE id % 7 = 0", "DELETE FROM t WHERE id % 11 = 0")
        first.until(lambda s: any(document["_meta"]["op"] == "d" for _, document in s.documents))
    assert database.server is not None
    database.server.kill()
    database.server.start()
    run(database, "INSERT INTO t VALUES (1000, 5)")
    with session(config, bound, first.state, command=COMMAND) as second:
        second.until(lambda s: s.done() and (1000,) in s.rows())
        first.documents += second.documents
        state = second.state
    with database.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT id, v FROM t")
        assert {key: row["v"] for key, row in first.rows().items()} == {(key,): v for key, v in cursor.fetchall()}
    cursor_of_state = str(state["cursor"])
    assert parse_position(cursor_of_state).gtids == ""
    with session_on(database) as at:
        reset_log(at)
        run(database, "INSERT INTO t VALUES (1001, 5)")
    with (
        pytest.raises(LostPosition) as caught,
        captured_log(database, "t", cursor=cursor_of_state, watermark_table="shop.marks"),
    ):
        pass
    assert caught.value.code == "TM-MY-016"


def test_a_log_without_gtids_that_was_reset_and_has_the_same_places(without_gtids: Database) -> None:
    """Transactions of the same sizes: the position is one of the new log, too."""
    database = without_gtids
    run(database, "CREATE TABLE t (id INT PRIMARY KEY)", create_watermark_table(("shop", "marks")))
    marks = {"watermark_table": "shop.marks"}
    with session_on(database) as at:
        reset_log(at)
        with captured_log(database, "t", **marks) as log:
            run(database, "INSERT INTO t VALUES (1)")
            log.read()
            state, identity = str(log.log.log_position), log.source.identity()
        run(database, "INSERT INTO t VALUES (2)")
        with captured_log(database, "t", cursor=state, identity=identity, **marks) as log:
            assert [document["id"] for document in log.read()] == [2]
        reset_log(at)
        run(database, "INSERT INTO t VALUES (3)", "INSERT INTO t VALUES (4)")
        places = [int(row[1]) for row in at.rows("SHOW BINLOG EVENTS")]
    assert parse_position(state).offset in places, "its place alone does not tell"
    with captured_log(database, "t", cursor=state, identity=identity, **marks) as log:
        with pytest.raises(LostPosition) as caught:
            log.read()
        assert caught.value.code == "TM-MY-016" and not log.lines


def _set_gtid_mode(database: Database, *modes: str) -> None:
    run(
        database,
        "SET GLOBAL enforce_gtid_consistency = ON",
        *(f"SET GLOBAL gtid_mode = {mode}" for mode in modes),
    )


def test_gtids_that_are_switched_on_and_off_while_a_log_is_read(without_gtids: Database) -> None:
    """Fences know transactions with and without GTIDs, and the position goes on by file where there are none."""
    database = without_gtids
    run(database, "CREATE TABLE t (id INT PRIMARY KEY)", create_watermark_table(("shop", "marks")))
    marks = {"watermark_table": "shop.marks"}
    with captured_log(database, "t", **marks) as log:
        run(database, "INSERT INTO t VALUES (1)")
        log.read()
        _set_gtid_mode(database, "OFF_PERMISSIVE", "ON_PERMISSIVE", "ON")
        run(database, "INSERT INTO t VALUES (2)")
        log.read()
        anonymous, named = (transaction.txn for transaction in log.transactions)
        assert isinstance(anonymous, int) and ":" in str(named)
        for _ in range(2):  # With the fences from before, and with others.
            fence = log.source.visibility()
            assert not fence.hides(anonymous) and not fence.hides(named)
            assert fence.hides(fence.high + 1) and fence.hides(f"{str(named).partition(':')[0]}:1000")
            log.source.reconnect()
    with captured_log(database, "t", **marks) as log:
        run(database, "INSERT INTO t VALUES (3)")
        log.read()
        state, identity = str(log.log.log_position), log.source.identity()
        assert parse_position(state).gtids
        _set_gtid_mode(database, "ON_PERMISSIVE", "OFF_PERMISSIVE")
        with pytest.raises(SourceError, match="gtid_mode is no longer ON"):
            log.source.visibility()
        log.source.reconnect()
        assert not log.source.visibility().hides(log.transactions[-1].txn)
        run(database, "INSERT INTO t VALUES (4)")
        log.reconnects = True
        assert [document["id"] for document in log.read()] == [4]
        assert not log.log.log_position.gtids
    _set_gtid_mode(database, "ON_PERMISSIVE", "ON")
    with captured_log(database, "t", cursor=state, identity=identity, **marks) as log:
        log.reconnects = True
        with pytest.raises(SourceError, match="TM-MY-011") as caught:
            log.read()
    run(database, *statements(caught.value.remedy))
    with captured_log(database, "t", cursor=state, identity=identity, **marks) as log:
        assert [document["id"] for document in log.read()] == [4]
        assert not parse_position(str(log.log.log_position)).gtids


def test_a_log_that_was_reset_is_found(mysql_database: Database) -> None:
    if MYSQL.installed() is None or mysql_database.server is None:
        pytest.skip("the server is not ours to reset")
    run(mysql_database, "CREATE TABLE t (id INT PRIMARY KEY)")
    with captured_log(mysql_database, "t") as log:
        run(mysql_database, "INSERT INTO t VALUES (1)")
        log.read()
        state = str(log.log.log_position)
    with session_on(mysql_database) as session:
        reset_log(session)
    # As many transactions again, and more: by number nothing is missing.
    run(mysql_database, *(f"INSERT INTO t VALUES ({number})" for number in range(2, 20)))
    with pytest.raises(LostPosition) as caught, captured_log(mysql_database, "t", cursor=state):
        pass
    assert caught.value.code == "TM-MY-016"


def reset_log(session: Session) -> None:
    session.rows("RESET BINARY LOGS AND GTIDS" if session.version >= (8, 2) else "RESET MASTER")
