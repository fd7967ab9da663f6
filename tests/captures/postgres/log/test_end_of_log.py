"""How far a capture is behind the end of the log is true where the two are less than a page apart, too."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from tests.captures.postgres.log_reading import PostgresLog, capturing
from tests.captures.source_tables import prepare
from tidemark.captures.engine.source_life import SourceLife
from tidemark.captures.postgres.log.stream import NEAR_END_BYTES
from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.postgres import Database

SMALL = 4096


class Lag:
    """As the engine measures it, at a time that is set."""

    def __init__(self, reader: PostgresLog) -> None:
        self.now = 0.0
        self._reader = reader
        self._life = SourceLife(600, lambda: self.now)

    def __call__(self, *, more: int = 0) -> float | None:
        """Args: more: Bytes that the log has beyond its end."""
        batch = self._reader.read_once(SMALL)
        retained = self._reader.source.retained()
        assert retained.end is not None
        return self._life.lag(self._reader.log, replace(retained, end=retained.end + more), drained=batch.drained)


def test_a_transaction_that_is_being_read(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(database, "CREATE TABLE users (id int PRIMARY KEY, name text)")
    with capturing(database, "users") as reader:
        lag = Lag(reader)
        wait_until(lambda: lag() == 0, 30, "all is read")
        lag.now = 10
        rows = 3 * NEAR_END_BYTES // 1000
        prepare(database, f"INSERT INTO users SELECT n, repeat('x', 1000) FROM generate_series(1, {rows}) AS n")
        wait_until(lambda: (lag() or 0) and not reader.log.between_transactions, 30, "it reads in the middle")
        lag.now = 100
        behind = lag()
        assert not reader.log.between_transactions
        assert behind is not None and behind >= 90, "no moment after the transaction has been read to"
        wait_until(lambda: lag() == 0, 30, "all is read")
        assert len(reader.documents) == rows
        committed = reader.log.committed_at
        assert committed is not None
        monkeypatch.setattr(time, "time", lambda: committed - 3600)
        lag(more=1 << 30)
        lag.now = 150
        assert lag(more=1 << 30) == 50, "a clock that was set back does not make it shorter"


def test_a_server_that_has_written_a_part_of_a_record(database: Database) -> None:
    prepare(database, "CREATE TABLE users (id int PRIMARY KEY)")
    with capturing(database, "users") as reader:
        reader.read()
        log = reader.log
        for part in (1, 8000):
            written = log.position + part
            assert log.end_of(written) == written, "there may be a transaction, which is being decoded"

            def stands(written: int = written) -> bool:
                reader.read_once()
                return log.end_of(written) == log.position < written

            wait_until(stands, 30, "the server says that it stands")
        assert log.end_of(log.position + 9000) == log.position + 9000, "whole records of so much are sent"
        assert log.end_of(log.position) == log.position
