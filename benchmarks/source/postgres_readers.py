"""Readers of chunks: the same table read as documents and as columns, each in a process of its own.

    python -m benchmarks.source.postgres_readers [--rows 1000000] [--rounds 3] [--chunk 100000]

Processor time of the reader and of the server is told, and not that of who takes the rows.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import closing
from functools import partial

from benchmarks.processor_time import timed
from benchmarks.results import in_turn, report
from benchmarks.source.postgres_server import config, published_table
from tidemark.backfill.range_scan import ChunkPlan
from tidemark.captures.contract.chunk import ChunkRequest
from tidemark.captures.contract.chunk_rows import ReadRows
from tidemark.captures.postgres.chunks.opened_reader import open_reader
from tidemark.captures.postgres.server.config import parse_endpoint, parse_resource
from tidemark.captures.postgres.server.session import ReaderEndpoint, connect
from tidemark.captures.postgres.tables.bindings import PostgresBinding, bound_tables
from tidemark.captures.postgres.tables.scan_target import ScanTarget


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--chunk", type=int, default=100_000)
    arguments = parser.parse_args()
    with published_table(arguments.rows) as (running, _):
        parsed = parse_endpoint(config(running))
        endpoint = ReaderEndpoint.of(parsed)
        with connect(parsed) as session:
            resource = parse_resource({"schema": "public", "table": "bench"})
            (table,) = bound_tables(session, [resource], "bench")
        if table is None:
            sys.exit("the table is not there")
        target = PostgresBinding(0, "bench", resource, table, True).scan_target()
        sides = {
            name: partial(
                timed, running, partial(in_a_process, partial(read, endpoint, target, arguments, columns=columns))
            )
            for name, columns in (("as documents", False), ("as columns", True))
        }
        report(f"{arguments.rows:,} rows", in_turn(sides, arguments.rounds), arguments.rows)


def read(endpoint: ReaderEndpoint, target: ScanTarget, arguments: argparse.Namespace, *, columns: bool) -> None:
    """Reads the whole table, chunk by chunk."""
    with closing(open_reader(endpoint, columns=columns)) as reader:
        cursor, count, end = None, 0, False
        while not end:
            chunk = reader.read(ChunkRequest(0, ChunkPlan(cursor, (), scan=True), arguments.chunk), target)
            rows: ReadRows = chunk.rows
            cursor, end = rows.keys[-1] if len(rows) else cursor, chunk.end
            count += len(rows)
    if count != arguments.rows:
        sys.exit(f"{count} of {arguments.rows} rows were read")


def in_a_process(work: Callable[[], None]) -> None:
    """Does work in a fork of this process, and waits for it."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        finally:
            traceback.print_exc()
            os._exit(1)
    if os.waitpid(child, 0)[1]:
        sys.exit("a reader failed")


if __name__ == "__main__":
    main()
