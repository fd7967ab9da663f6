"""Chunks of several small tables in one snapshot: as each one by itself, and whatever does not fit is left out."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tests.captures.chunk_tails import tails
from tests.captures.postgres.chunk_reads import Table, opened
from tidemark.backfill.range_scan import ChunkPlan
from tidemark.captures.contract.chunk import Chunk, ChunkRequest
from tidemark.captures.postgres.chunks.copy_rows import LIMITS, ChunkLimits
from tidemark.captures.postgres.server.config import parse_endpoint, parse_resource
from tidemark.captures.postgres.server.session import connect
from tidemark.captures.postgres.tables.bindings import PostgresBinding, bound_tables
from tidemark.captures.postgres.tables.scan_target import ScanTarget
from tidemark.testing.servers.postgres import Database

TABLES = 12


def _request(binding: int) -> ChunkRequest:
    return ChunkRequest(binding, ChunkPlan(None, (), scan=True), 100)


@contextmanager
def together(database: Database, limits: ChunkLimits = LIMITS) -> Iterator[tuple[Table, list[ScanTarget]]]:
    statements = [
        "CREATE TYPE mood AS ENUM ('good', 'bad')",
        *(f"CREATE TABLE t{number} (id int PRIMARY KEY, v text, m mood)" for number in range(TABLES)),
        *(f"INSERT INTO t{number} VALUES ({number}, 'a', 'bad'), (99, NULL, NULL)" for number in range(TABLES)),
    ]
    with opened(database, *statements, table="t0", limits=limits) as table:
        yield table, targets(database)


def targets(database: Database) -> list[ScanTarget]:
    resources = [parse_resource({"schema": "public", "table": f"t{number}"}) for number in range(TABLES)]
    with connect(parse_endpoint(database.config())) as session:
        found = bound_tables(session, resources, "tidemark")
    bound = [(resource, each) for resource, each in zip(resources, found, strict=True) if each is not None]
    return [PostgresBinding(n, "t", resource, each, True).scan_target() for n, (resource, each) in enumerate(bound)]


def read(table: Table, asked: Sequence[ScanTarget]) -> list[Chunk | None]:
    return table.reader.read_together([_request(number) for number in range(len(asked))], asked)


def test_each_is_read_as_by_itself(database: Database) -> None:
    with together(database) as (table, asked):
        chunks = read(table, asked)
        for number, chunk in enumerate(chunks):
            one = table.reader.read(_request(number), asked[number])
            assert chunk is not None and chunk.end and chunk.fence is chunks[0].fence  # type: ignore[union-attr]
            assert tails(chunk.rows) == tails(one.rows) and list(chunk.rows.keys) == list(one.rows.keys)


def test_one_that_is_locked_has_the_others_wait_for_a_moment_only(database: Database) -> None:
    with together(database) as (table, asked):
        with database.connect() as other, other.transaction():
            other.execute("LOCK TABLE t5 IN ACCESS EXCLUSIVE MODE")
            began = time.monotonic()
            assert read(table, asked) == [None] * TABLES
            assert time.monotonic() - began < 8
            assert table.reader.read(_request(0), asked[0]).end
        assert None not in read(table, asked)


def test_one_that_was_altered_is_left_out(database: Database) -> None:
    with together(database) as (table, asked):
        table.session.execute("ALTER TABLE t3 ALTER v TYPE varchar(9)")
        assert [place for place, chunk in enumerate(read(table, asked)) if chunk is None] == [3]
        table.session.execute("ALTER TYPE mood RENAME VALUE 'bad' TO 'sad'")
        assert read(table, asked) == [None] * TABLES
        assert None not in read(table, targets(database))


def test_what_is_read_has_a_limit(database: Database) -> None:
    with together(database, ChunkLimits(chunk_bytes=1)) as (table, asked):
        chunks = read(table, asked)
        assert chunks[0] is not None and chunks[1:] == [None] * (TABLES - 1)
        assert len(table.reader.read(_request(1), asked[1]).rows)


def test_one_that_is_gone_is_left_to_be_read_alone(database: Database) -> None:
    with together(database) as (table, asked):
        table.session.execute("DROP TABLE t7")
        assert read(table, asked) == [None] * TABLES
        assert None not in read(table, [*asked[:7], *asked[8:]])
