"""Tables without a key: one snapshot, and the log from exactly there on, so that every row counts as often as it is."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from random import Random
from typing import Any

import pymysql
import pytest
from pymysql.constants import ER

from tests.captures.mysql.table_chunks import binding_of, run
from tests.captures.session import Json, Session, bindings, session
from tidemark.backfill.range_scan import ChunkPlan
from tidemark.captures.contract.capabilities import Begun
from tidemark.captures.contract.chunk import ChunkRequest
from tidemark.captures.mysql.chunks.fence import GtidFence, PositionFence, ServerFence
from tidemark.captures.mysql.chunks.scan_target import ScanTarget
from tidemark.captures.mysql.chunks.snapshot_scans import SnapshotScan, in_snapshot, shows_all
from tidemark.captures.mysql.database import MysqlDatabase
from tidemark.captures.mysql.terms.config import parse_endpoint
from tidemark.captures.mysql.terms.gtid import MysqlGtids
from tidemark.captures.mysql.terms.position import LogPosition
from tidemark.protocol.errors import SourceError
from tidemark.protocol.messages import Binding
from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.mariadb import Database

COMMAND = [sys.executable, "-m", "tidemark.connectors.mysql"]
Row = tuple[Any, ...]
WRITERS = 3
TRANSACTIONS = 700
"""Of each writer, at most."""


def bound(database: Database) -> list[Json]:
    return bindings(f"{database.name}.t", scan="snapshot")


def table_of(database: Database) -> Counter[Row]:
    with closing(database.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT a, b FROM t")
        return Counter(cursor.fetchall())


def added_up(documents: Sequence[tuple[int, Json]]) -> Counter[Row]:
    """How often there is each row: what came counts one more, what went one less, since the table was emptied last."""
    found: Counter[Row] = Counter()
    for _, document in documents:
        meta = document["_meta"]
        if meta["op"] == "t":
            found.clear()
            continue
        row = (document.get("a"), document.get("b"))
        found[row] += -1 if meta["op"] == "d" else 1
        if meta["op"] == "u":
            found[meta["before"]["a"], meta["before"]["b"]] -= 1
    return Counter({row: count for row, count in found.items() if count})


def in_order(documents: Sequence[tuple[int, Json]]) -> Counter[Row]:
    """The same, by whoever applies them one after another in the order of ``cursor``, and takes away what is there."""
    found: Counter[Row] = Counter()
    for _, document in sorted(_placed(documents), key=lambda each: each[0]):
        meta = document["_meta"]
        if meta["op"] == "t":
            found.clear()
        for row in [meta["before"]] if meta["op"] == "u" else [document] if meta["op"] == "d" else []:
            found[row["a"], row["b"]] -= 1
            assert found[row["a"], row["b"]] >= 0, "a row went before it came"
        if meta["op"] in "cu":
            found[document["a"], document["b"]] += 1
    return +found


def _placed(documents: Sequence[tuple[int, Json]]) -> Iterator[tuple[tuple[str, int, int], Json]]:
    """The documents with their places. The begin of a backfill comes right after the document before it."""
    place = "", 0, 0
    for _, document in documents:
        if "cursor" in document["_meta"]["source"]:
            file, offset, row = document["_meta"]["source"]["cursor"].rsplit(":", 2)
            place = file, int(offset), int(row)
        yield place, document


def until_equal(capture: Session, database: Database, seconds: float = 60) -> None:
    looked_at = -1

    def equal(capture: Session) -> bool:
        nonlocal looked_at
        if capture.checkpoints == looked_at or not capture.done():
            return False
        looked_at = capture.checkpoints
        return added_up(capture.documents) == table_of(database)

    capture.until(equal, seconds)


@pytest.fixture
def keyless(binlog_database: Database) -> Database:
    """``t`` with 2,000 rows, of which many are the same."""
    values = ", ".join(f"({n % 300}, {'NULL' if n % 7 == 0 else n % 3})" for n in range(2000))
    run(binlog_database, "CREATE TABLE t (a INT, b VARCHAR(9))", f"INSERT INTO t VALUES {values}")
    return binlog_database


def write(connection: pymysql.Connection[Any], random: Random, number: int) -> None:
    """A transaction: one in ten is taken back, and one in ten goes in two phases."""
    a = random.randrange(300)
    statements = (
        f"INSERT INTO t VALUES ({a}, '{a % 3}'), ({a}, '{a % 3}')",
        f"DELETE FROM t WHERE a = {a} LIMIT 1",
        f"UPDATE t SET b = '{random.randrange(3)}' WHERE a = {a} LIMIT 2",
        f"UPDATE t SET a = {random.randrange(300)} WHERE a = {a} LIMIT 1",
    )
    with connection.cursor() as cursor:
        kind = random.random()
        if kind < 0.1:
            for step in ("XA START", statements[0], "XA END", "XA PREPARE", "XA COMMIT"):
                cursor.execute(f"{step} 'x{number}'" if step.startswith("XA") else step)
            return
        for _ in range(random.randint(1, 4)):
            cursor.execute(random.choice(statements))
    if kind < 0.2:
        connection.rollback()
    else:
        connection.commit()


@contextmanager
def written_to(database: Database) -> Iterator[None]:
    """Rows come, go and change meanwhile, by several writers."""
    stop = threading.Event()

    def work(writer: int) -> None:
        random = Random(writer)
        with closing(database.connect(autocommit=False)) as connection:
            for number in range(writer, WRITERS * TRANSACTIONS, WRITERS):
                if stop.is_set():
                    return
                try:
                    write(connection, random, number)
                except pymysql.OperationalError as error:
                    if error.args[0] not in (ER.LOCK_WAIT_TIMEOUT, ER.LOCK_DEADLOCK):  # locks that another one has
                        raise
                    connection.rollback()

    with ThreadPoolExecutor(WRITERS) as pool:
        writers = [pool.submit(work, writer) for writer in range(WRITERS)]
        try:
            yield
        finally:
            stop.set()
        for writer in writers:
            writer.result()


def scanned(capture: Session) -> list[Json]:
    """The documents of the table's chunks."""
    return [
        document
        for _, document in capture.documents
        if document["_meta"]["source"].get("snapshot") and document["_meta"]["op"] == "c"
    ]


def truncations(capture: Session) -> list[int]:
    """Where the table was emptied, among the documents."""
    return [place for place, (_, document) in enumerate(capture.documents) if document["_meta"]["op"] == "t"]


def test_every_row_counts_as_often_as_the_table_has_it(keyless: Database) -> None:
    config = {**keyless.config(), "backfill": {"chunk_rows": 50, "readers": 2}}
    with session(config, bound(keyless), command=COMMAND) as capture:
        with written_to(keyless):
            capture.until(lambda s: s.done(), 60)
        until_equal(capture, keyless)
        last = [0, *truncations(capture)][-1]
        assert in_order(capture.documents[last:]) == table_of(keyless)
        cursors = [document["_meta"]["source"]["cursor"] for document in scanned(capture)]
        assert len(cursors) == len(set(cursors)) > 1000
        (warned, *_) = [line["message"] for line in capture.logs if "in one transaction" in line["message"]]
        assert "t has no key" in warned


def test_a_scan_that_breaks_off_begins_again(keyless: Database) -> None:
    slow = {**keyless.config(), "backfill": {"chunk_rows": 50, "max_rate": "1000 rows"}}
    with written_to(keyless):
        with session(slow, bound(keyless), command=COMMAND) as capture:
            capture.until(scanned)
        assert not capture.done()
        with session(keyless.config(), bound(keyless), capture.state, command=COMMAND) as again:
            again.documents[:0] = capture.documents
            again.until(lambda s: s.done(), 60)
            assert len(truncations(again)) > len(truncations(capture))
    # What is done is not read again.
    with session(keyless.config(), bound(keyless), again.state, command=COMMAND) as last:
        last.documents[:0] = again.documents
        until_equal(last, keyless)
        assert truncations(last) == truncations(again)


def test_a_snapshot_that_the_server_ends_is_taken_again(binlog_database: Database) -> None:
    values = ", ".join(f"({n}, 'x', REPEAT('x', 300000))" for n in range(20))
    run(binlog_database, "CREATE TABLE t (a INT, b VARCHAR(9), c LONGTEXT)", *[f"INSERT INTO t VALUES {values}"] * 2)
    config = {**binlog_database.config(), "backfill": {"chunk_rows": 1, "max_rate": "20 rows"}}
    reading = (
        "SELECT id FROM information_schema.processlist WHERE command = 'Query' AND info LIKE 'SELECT `a`, `b`, `c` %'"
    )
    with session(config, bound(binlog_database), command=COMMAND) as capture:
        capture.until(scanned)
        before = len(truncations(capture))
        with closing(binlog_database.connect()) as admin, admin.cursor() as cursor:
            cursor.execute(reading)
            ((thread,),) = cursor.fetchall()
            cursor.execute(f"KILL {thread}")
            cursor.execute("UPDATE t SET b = 'y' WHERE a = 1")
        capture.until(lambda s: len(truncations(s)) > before)
        state = capture.state
        documents = capture.documents
    with session(binlog_database.config(), bound(binlog_database), state, command=COMMAND) as again:
        again.documents[:0] = documents
        until_equal(again, binlog_database)


def test_a_transaction_prepared_before_the_capture_is_waited_for(keyless: Database) -> None:
    with closing(keyless.connect()) as connection, connection.cursor() as cursor:
        for statement in ("XA START 'x'", "INSERT INTO t VALUES (1000, 'x')", "XA END 'x'", "XA PREPARE 'x'"):
            cursor.execute(statement)
        with session(keyless.config(), bound(keyless), command=COMMAND) as capture:
            capture.until(lambda s: any("waits for transactions" in line["message"] for line in s.logs))
            assert not scanned(capture)
            cursor.execute("XA COMMIT 'x'")
            until_equal(capture, keyless)
            assert added_up(capture.documents)[1000, "x"] == 1


def test_the_log_is_begun_anew_while_a_chunk_is_read(keyless: Database) -> None:
    slowly = "a = 0 AND SLEEP(0.1) = 0"
    binding = Binding(
        resource_config={"schema": keyless.name, "table": "t", "scan": "snapshot", "where": slowly},
        resource_path=[keyless.name, "t"],
        state_key="t",
    )
    request = ChunkRequest(0, ChunkPlan(None, (), scan=True, physical=True), 1000)
    with ExitStack() as stack:
        source = stack.enter_context(closing(MysqlDatabase().open(keyless.config(), [binding])))
        start = source.start_position(None, None)
        stack.enter_context(closing(source.open_log(start)))
        reader = stack.enter_context(closing(source.open_chunk_reader()))
        assert reader.read(request).rewritten
        source.await_snapshot(0, None)
        assert source.begin_snapshot(0, ()) is Begun.OPEN
        with ThreadPoolExecutor(1) as pool:
            reading = pool.submit(reader.read, request)
            wait_until(lambda: asked(keyless, slowly), 60, "the rows are being read")
            source.start_over()
            assert len(reading.result().rows) == 7
        # The next scan is not the one that was given up.
        assert reader.read(request).rewritten


def test_a_scan_goes_on_only_where_the_last_chunk_ended(keyless: Database) -> None:
    """What a chunk took from the snapshot that was of no use is gone: the rows would be missing."""
    target = ScanTarget.of(binding_of(keyless, "t", scan="snapshot"))
    begin = ChunkRequest(0, ChunkPlan(None, (), scan=False, physical=True), 10)
    request = replace(begin, plan=replace(begin.plan, scan=True))
    with closing(SnapshotScan(parse_endpoint(keyless.config()))) as scan:
        scan.read(begin, target)
        first = scan.read(request, target)
        assert len(first.rows) and not first.rewritten
        assert scan.read(request, target).rewritten


def asked(database: Database, part: str) -> bool:
    with closing(database.connect()) as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT 1 FROM information_schema.processlist WHERE info LIKE %s AND id <> CONNECTION_ID()", [f"%{part}%"]
        )
        return cursor.fetchone() is not None


GTID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


@pytest.mark.parametrize(
    ("fence", "gtid", "position", "left_out"),
    [
        (PositionFence(100, 100), "0-1-7", 100, True),
        (PositionFence(100, 100), "0-1-8", 101, False),
        (PositionFence(100, 120), "", 110, None),  # between a row of ours and the snapshot
        (PositionFence(100, 120), "", 121, False),
        (GtidFence(MysqlGtids(f"{GTID}:1-5"), 100), f"{GTID}:5", 100, True),
        (GtidFence(MysqlGtids(f"{GTID}:1-5"), 100), f"{GTID}:6", 100, None),  # perhaps visible already
        (GtidFence(MysqlGtids(f"{GTID}:1-5"), 100), f"{GTID}:6", 101, False),
        (GtidFence(MysqlGtids(f"{GTID}:1-5"), 100), "", 100, None),  # of before GTIDs were switched on
    ],
)
def test_what_a_snapshot_has_of_the_log(fence: ServerFence, gtid: str, position: int, left_out: bool | None) -> None:
    assert in_snapshot(fence, gtid, position) is left_out


def test_a_snapshot_must_show_all_that_was_emitted() -> None:
    at = LogPosition("log.000001", 100, f"{GTID}:1-5")
    assert shows_all(PositionFence(at.order, at.order), at)
    assert not shows_all(PositionFence(at.order - 1, at.order - 1), at)
    assert shows_all(GtidFence(MysqlGtids(f"{GTID}:1-6"), 0), at)
    assert not shows_all(GtidFence(MysqlGtids(f"{GTID}:1-4:6"), 0), at)


def test_what_cannot_be_read_in_one_snapshot_is_refused(binlog_database: Database) -> None:
    run(binlog_database, "CREATE TABLE t (a INT) ENGINE = MyISAM")
    binding = Binding(
        resource_config={"schema": binlog_database.name, "table": "t", "scan": "snapshot"},
        resource_path=[binlog_database.name, "t"],
        state_key="t",
    )
    with pytest.raises(SourceError, match=r"TM-MY-022.*MyISAM"):
        MysqlDatabase().validate(binlog_database.config(), [binding])
    run(binlog_database, "ALTER TABLE t ENGINE = InnoDB")
    MysqlDatabase().validate(binlog_database.config(), [binding])
    with pytest.raises(SourceError, match=r"TM-MY-022.*TRUNCATE"):
        MysqlDatabase().validate({**binlog_database.config(), "truncate": "ignore"}, [binding])
