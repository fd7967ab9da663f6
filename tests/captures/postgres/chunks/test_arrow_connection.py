"""A connection that reads columns can be left at any moment: by another thread, and when the server falls silent."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from tidemark.captures.postgres.chunks.arrow_connection import ArrowConnection, StreamBroken
from tidemark.captures.postgres.chunks.copy_rows import LIMITS, ChunkLimits
from tidemark.captures.postgres.server.config import parse_endpoint
from tidemark.captures.postgres.server.session import ReaderEndpoint
from tidemark.protocol.errors import SourceError
from tidemark.testing.halted import halted
from tidemark.testing.servers.postgres import Database

MANY_ROWS = "SELECT repeat('x', 1000) FROM generate_series(1, 1000000)"


def connected(database: Database, limits: ChunkLimits = LIMITS) -> ArrowConnection:
    return ArrowConnection(ReaderEndpoint.of(parse_endpoint(database.config())), limits)


READER = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'COPY (SELECT repeat%'"
"""The server's process that sends them."""


def test_another_thread_cancels_while_rows_are_awaited(database: Database) -> None:
    with closing(connected(database)) as connection, ThreadPoolExecutor(1) as pool:
        with pytest.raises(StreamBroken), connection.query(MANY_ROWS, 100_000) as (_, arrays):
            next(arrays)
            with halted(database, READER):
                rest = pool.submit(lambda: sum(array.length for array in arrays))
                connection.cancel()
            rest.result(timeout=60)
        assert connection.canceled
        assert connection.text("SELECT 'a text'", "t") == "a text"


def test_a_server_that_is_silent_loses_the_connection(database: Database) -> None:
    with closing(connected(database, ChunkLimits(answer_seconds=0.5))) as connection:
        with pytest.raises(StreamBroken), connection.query(MANY_ROWS, 100_000) as (_, arrays):
            next(arrays)
            with halted(database, READER):
                for _ in arrays:
                    pass
        with pytest.raises(SourceError, match="TM-PG-020"):
            connection.execute("ROLLBACK", "t")


def test_a_query_is_ended_early(database: Database) -> None:
    with closing(connected(database)) as connection:
        for _ in range(3):
            connection.execute("BEGIN", "t")
            with connection.query(MANY_ROWS, 100_000) as (_, arrays):
                next(arrays)
                connection.end_query(arrays)
            connection.execute("ROLLBACK", "t")
        assert connection.text("SELECT 'a text'", "t") == "a text"


def test_errors_hold_no_values(database: Database) -> None:
    with closing(connected(database)) as connection:
        with pytest.raises(SourceError) as failed:
            connection.execute("TABLE gone", "public.gone")
        assert failed.value.code == "TM-PG-007" and 'relation "gone" does not exist' in str(failed.value)
        with pytest.raises(StreamBroken) as broken, connection.query("SELECT 'secret'::int", 1) as (_, arrays):
            next(arrays)
        assert "secret" not in str(broken.value)
