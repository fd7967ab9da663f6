"""An opened source: what it answers about its log, and how it goes on after its connection was lost."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.captures.mysql.table_chunks import run
from tidemark.captures.mysql.chunks.fence import GtidFence, PositionFence
from tidemark.captures.mysql.database import MysqlDatabase
from tidemark.captures.mysql.source import MysqlSource
from tidemark.protocol.errors import SourceError
from tidemark.protocol.fields import message_of
from tidemark.protocol.messages import Binding
from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.mariadb import Database


@contextmanager
def opened(database: Database, **config: object) -> Iterator[MysqlSource]:
    binding = message_of(
        Binding,
        {
            "collection": {"name": "t"},
            "resourceConfig": {"schema": database.name, "table": "t"},
            "resourcePath": [database.name, "t"],
            "stateKey": "t",
        },
    )
    source = MysqlDatabase().open({**database.config(), **config}, [binding])
    assert isinstance(source, MysqlSource)
    try:
        yield source
    finally:
        source.close()


@pytest.fixture
def table(binlog_database: Database) -> Database:
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    return binlog_database


def test_positions_come_back_from_their_text(table: Database) -> None:
    with opened(table) as source:
        position = source.start_position(None, None)
        assert position == source.end_of_log()
        text, identity = source.format_position(position), source.identity()
        assert source.start_position(text, identity) == position
        run(table, "INSERT INTO t VALUES (1, 1)")
        assert source.start_over() == source.end_of_log() > position


def test_what_was_prepared_before_holds_up_what_begins_now(table: Database) -> None:
    with opened(table) as source, table.connect() as writer, writer.cursor() as cursor:
        assert source.passed(source.barrier())
        cursor.execute("XA START 'x'")
        cursor.execute("INSERT INTO t VALUES (1, 1)")
        cursor.execute("XA END 'x'")
        cursor.execute("XA PREPARE 'x'")
        barrier = source.barrier()
        assert not source.passed(barrier)
        cursor.execute("XA COMMIT 'x'")
        wait_until(lambda: source.passed(barrier), 60, "nothing is prepared any more")


def test_lines_of_chunks_and_truncations(table: Database) -> None:
    position = 7 << 40 | 1234
    with opened(table) as source:
        head = source.chunk_head(0, position).line
        assert b'"snapshot":true' in head and re.search(rb"\.000007:1234:\d{13}$", head)
        assert source.chunk_head(0, position).line != head  # Rows of different chunks have different places.
        assert b'"op":"t"' in source.truncation(0, position)
    with opened(table, truncate="ignore") as source:
        assert source.truncation(0, position) == b""


def test_a_lost_connection_is_opened_again(table: Database) -> None:
    with opened(table) as source:
        # As the engine sees it: a retryable error, then reconnect.
        thread = source._session.connection.thread_id()
        run(table, f"KILL {thread}")
        with pytest.raises(SourceError) as caught:
            source.end_of_log()
        assert (caught.value.code, caught.value.entry.policy) == ("TM-MY-020", "retry")
        source.reconnect()
        assert source.end_of_log() > 0
        assert isinstance(source.visibility(), GtidFence if table.is_mysql else PositionFence)


def test_the_log_behind_the_position_is_measured(table: Database) -> None:
    with opened(table) as source:
        assert source.retained().size is None
        log = source.open_log(source.start_position(None, None))
        try:
            before = source.retained().size
            run(table, f"INSERT INTO t VALUES {', '.join(f'({n}, {n})' for n in range(1000))}", "FLUSH BINARY LOGS")
            after = source.retained().size
        finally:
            log.close()
        assert before is not None and after is not None and after - before > 9000
        assert source.retained().limit is None and source.replica_lag() is None


def test_a_table_that_is_gone_is_said(binlog_database: Database) -> None:
    with pytest.raises(SourceError) as caught, opened(binlog_database):
        pass
    assert caught.value.code == "TM-MY-007"
