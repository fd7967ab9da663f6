"""Chunks of several small tables in one snapshot: as each one by itself, and whatever does not fit is left out."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from tests.captures.mysql.table_chunks import binding_of, documents, run
from tidemark.backfill.chunk_size import CHUNK_BYTES
from tidemark.backfill.range_scan import ChunkPlan
from tidemark.captures.contract.chunk import Chunk, ChunkRequest
from tidemark.captures.mysql.chunks.reader import SelectChunkReader
from tidemark.captures.mysql.chunks.scan_target import ScanTarget
from tidemark.captures.mysql.server import session
from tidemark.captures.mysql.terms.config import parse_endpoint
from tidemark.testing.servers.mariadb import Database

TABLES = 12


class Together:
    """A reader, and the tables t0, t1, … of a database."""

    def __init__(self, database: Database, reader: SelectChunkReader) -> None:
        self.database = database
        self.reader = reader
        self.targets = [ScanTarget.of(binding_of(database, f"t{number}")) for number in range(TABLES)]

    def read(self, *targets: ScanTarget) -> list[Chunk | None]:
        asked = targets or self.targets
        return self.reader.read_together([_request(number) for number in range(len(asked))], asked)


@contextmanager
def together(database: Database, chunk_bytes: int = CHUNK_BYTES) -> Iterator[Together]:
    run(database, *(f"CREATE TABLE t{number} (id INT PRIMARY KEY, v VARCHAR(200))" for number in range(TABLES)))
    run(database, *(f"INSERT INTO t{number} VALUES ({number}, 'a'), (99, NULL)" for number in range(TABLES)))
    with closing(SelectChunkReader(parse_endpoint(database.config()), chunk_bytes=chunk_bytes)) as reader:
        yield Together(database, reader)


def _request(binding: int) -> ChunkRequest:
    return ChunkRequest(binding, ChunkPlan(None, (), scan=True), 100)


def test_each_is_read_as_by_itself_with_few_statements(
    binlog_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with together(binlog_database) as tables:
        alone = [tables.reader.read(_request(n), target) for n, target in enumerate(tables.targets)]
        asked: list[str] = []
        ask = session.Session.rows

        def noted(on: session.Session, query: str, *parameters: object) -> list[tuple[Any, ...]]:
            asked.append(query)
            return ask(on, query, *parameters)

        monkeypatch.setattr(session.Session, "rows", noted)
        chunks = tables.read()
        assert len(asked) < 2 * TABLES  # Besides the statements that read the rows.
        assert all(chunk is not None for chunk in chunks)
        for chunk, one in zip(chunks, alone, strict=True):
            assert chunk is not None and chunk.end and chunk.fence is chunks[0].fence  # type: ignore[union-attr]
            assert documents(chunk.rows) == documents(one.rows) and list(chunk.rows.keys) == list(one.rows.keys)


def test_one_that_is_locked_has_the_others_wait_for_a_moment_only(binlog_database: Database) -> None:
    with together(binlog_database) as tables, binlog_database.connect() as other, other.cursor() as cursor:
        cursor.execute("LOCK TABLES t5 WRITE")
        began = time.monotonic()
        assert tables.read() == [None] * TABLES
        assert time.monotonic() - began < session.LOCK_SECONDS
        assert tables.reader.read(_request(0), tables.targets[0]).end
        cursor.execute("UNLOCK TABLES")
        assert None not in tables.read()


def test_one_that_was_altered_or_has_no_transactions_is_left_out(binlog_database: Database) -> None:
    with together(binlog_database) as tables:
        run(binlog_database, "ALTER TABLE t3 ADD w INT", "ALTER TABLE t4 ENGINE = MyISAM")
        tables.targets[4] = ScanTarget.of(binding_of(binlog_database, "t4"))
        chunks = tables.read()
        assert [place for place, chunk in enumerate(chunks) if chunk is None] == [3, 4]


def test_what_is_read_has_a_limit(binlog_database: Database) -> None:
    with together(binlog_database, chunk_bytes=1) as tables:
        chunks = tables.read()
        assert chunks[0] is not None and chunks[1:] == [None] * (TABLES - 1)
        assert tables.reader.read(_request(1), tables.targets[1]).rows.keys


def test_one_that_is_gone_is_left_to_be_read_alone(binlog_database: Database) -> None:
    with together(binlog_database) as tables:
        run(binlog_database, "DROP TABLE t7")
        assert tables.read() == [None] * TABLES
        assert None not in tables.read(*tables.targets[:7], *tables.targets[8:])
