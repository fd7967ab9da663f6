"""XA COMMIT on MariaDB: in the log, and behind the snapshot's position, before it is visible.

With a full-text index it takes InnoDB long enough to become visible that snapshots are opened meanwhile.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pymysql
import pytest

from tests.captures.mysql.captured_log import captured_log
from tests.captures.mysql.table_chunks import run, session_on
from tests.captures.session import Session, bindings, session
from tidemark.captures.mysql.chunks.fence import MariadbFences, PositionFence
from tidemark.captures.mysql.chunks.snapshot_scans import in_snapshot, shows_all
from tidemark.captures.mysql.server.replication import server_name
from tidemark.captures.mysql.server.session import Session as Asking
from tidemark.captures.mysql.terms.gtid import transaction_id
from tidemark.captures.mysql.terms.position import LogPosition
from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.mariadb import Database

COMMAND = [sys.executable, "-m", "tidemark.connectors.mysql"]
ROWS = 1_000
HERE = "1:here:3306"
XID = "x'61',x'',1"


@pytest.fixture
def texts(mariadb_database: Database) -> Database:
    """A table with a full-text index."""
    run(
        mariadb_database,
        "CREATE TABLE t (id INT PRIMARY KEY, v INT, body TEXT, FULLTEXT (body)) ENGINE = InnoDB",
        f"INSERT INTO t SELECT seq, 0, CONCAT('word', seq, REPEAT(CONCAT(' other', seq), 20)) FROM seq_1_to_{ROWS}",
    )
    return mariadb_database


@contextmanager
def committing(database: Database, number: int) -> Iterator[threading.Thread]:
    """Inside, an XA transaction that sets ``v`` of each row to ``number`` is being committed by a thread."""
    name = f"'{database.name[-8:]}{number}'"
    with database.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"XA START {name}")
        cursor.execute(f"UPDATE t SET v = {number}, body = CONCAT(body, ' more{number}')")
        cursor.execute(f"XA END {name}")
        cursor.execute(f"XA PREPARE {name}")
        commit = threading.Thread(target=cursor.execute, args=(f"XA COMMIT {name}",))
        commit.start()
        try:
            yield commit
        finally:
            commit.join()


def snapshots(session: Asking, commit: threading.Thread) -> Iterator[tuple[PositionFence, int]]:
    """Fences as long as it is being committed, and one after that, each with the value that its snapshot shows."""
    fences = MariadbFences(session)
    more = True
    while more:
        more = commit.is_alive()
        fence = fences.open()
        value = int(session.value("SELECT v FROM t WHERE id = 1"))
        session.rows("ROLLBACK")
        yield fence, value


def last_commit(session: Asking) -> tuple[str, str, int]:
    """The last XA COMMIT of the log: its GTID, its xid and its end."""
    file = str(session.rows("SHOW MASTER STATUS")[0][0])
    gtid, found = "", ("", "", 0)

    def events() -> Any:
        try:
            return session.rows("SHOW BINLOG EVENTS IN %s", file)
        except pymysql.OperationalError:
            return None  # Of a file whose last event is just being written.

    for _, _, kind, _, end, info in wait_until(events, 20, "the events of the log"):
        if kind == "Gtid":
            gtid = re.findall(r"\d+-\d+-\d+", str(info))[0]
        elif kind == "Query" and (match := re.search(r"XA COMMIT (X'.*',X'.*',\d+)", str(info))):
            found = gtid, match[1].lower(), LogPosition(file, int(end)).order
    return found


def test_an_xa_commit_is_hidden_until_snapshots_show_it(texts: Database) -> None:
    behind = 0
    with session_on(texts) as session:
        for number in range(1, 6):
            run(texts, "FLUSH BINARY LOGS")
            with committing(texts, number) as commit:
                seen = list(snapshots(session, commit))
            gtid, xid, end = last_commit(session)
            here = transaction_id(gtid, server_name(session), end, xid)
            elsewhere = transaction_id(gtid, "2:there:3306", 1, xid)
            for fence, value in seen:
                if value != number:
                    assert fence.hides(here) and fence.hides(elsewhere)
                    assert not shows_all(fence, LogPosition("log.000001", 4), {xid}) or end > fence.high
                    behind += end <= fence.visible
            last, value = seen[-1]
            assert value == number and not last.hides(here) and not last.hides(elsewhere)
            if behind:
                return
    pytest.fail("no snapshot was behind the commit and did not show it: the test shows nothing")


def test_a_fence_hides_what_was_listed_and_what_came_later() -> None:
    fence = PositionFence(500, 500, HERE, None, 400, frozenset({XID}))
    assert fence.hides(transaction_id("0-1-1", HERE, 300, XID))
    assert not fence.hides(transaction_id("0-1-1", HERE, 400, "x'62',x'',1"))
    assert fence.hides(transaction_id("0-1-1", HERE, 401, "x'62',x'',1"))
    assert not fence.hides(transaction_id("0-1-1", HERE, 500))
    # Tables without a key: what cannot be told has them read again.
    assert in_snapshot(fence, "0-1-1", 300, "x'62',x'',1") is True
    assert in_snapshot(fence, "0-1-1", 300, XID) is None
    assert in_snapshot(fence, "0-1-1", 450, "x'62',x'',1") is None
    assert in_snapshot(fence, "0-1-1", 501, XID) is False


def test_rows_of_xa_commits_are_not_undone_by_chunks(texts: Database) -> None:
    config = {**texts.config(), "backfill": {"chunk_rows": 100, "max_rate": "2000 rows", "readers": 2}}
    number = 0
    with session(config, bindings(f"{texts.name}.t"), command=COMMAND) as capture:
        capture.until(lambda s: len(s.documents) > 0)
        while not capture.done():
            number += 1
            with committing(texts, number):
                capture.until(partial(log_gave, number))
        capture.until(lambda s: all(row["v"] == number for row in s.rows().values()))
        assert len(capture.rows()) == ROWS


def log_gave(number: int, capture: Session) -> bool:
    return any(document["v"] == number for _, document in capture.documents)


def test_the_log_remembers_which_xa_commits_may_not_be_visible(texts: Database) -> None:
    """A table without a key is read in one snapshot, which has to show all of them."""
    run(texts, "FLUSH BINARY LOGS")  # The server shows no file with the huge rows of other tests.
    with captured_log(texts, "t") as log:
        with committing(texts, 1):
            pass
        log.read()
        with session_on(texts) as other:
            _, xid, _ = last_commit(other)
        assert set(log.log.committing) == {xid}
        with texts.connect() as connection, connection.cursor() as cursor:
            prepare(cursor, f"'{texts.name[-8:]}1'")
            log.read()
            # Another one has the xid now.
            assert not log.log.committing
            # A log that is opened here knows it for one that is not over.
            state, identity = str(log.log.log_position), log.source.identity()
            with captured_log(texts, "t", cursor=state, identity=identity) as again:
                assert not again.log.committing
            with captured_log(texts, "t", cursor=state.rpartition(";")[0], identity=identity) as again:
                assert set(again.log.committing) == {xid}
            cursor.execute(f"XA ROLLBACK '{texts.name[-8:]}1'")


def prepare(cursor: Any, name: str) -> None:
    for statement in (f"XA START {name}", "INSERT INTO t VALUES (0, 0, '')", f"XA END {name}", f"XA PREPARE {name}"):
        cursor.execute(statement)
