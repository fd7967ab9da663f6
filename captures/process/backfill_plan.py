"""The plan of a backfill: what a capture of an opened source would read."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence

from tidemark.backfill.range_scan import ChunkPlan
from tidemark.captures.contract.chunk import Chunk, ChunkReader, ChunkRequest
from tidemark.captures.contract.source import OpenedTable, Source
from tidemark.captures.scheduling.range_splitting import split_points
from tidemark.captures.scheduling.small_tables import TOGETHER, is_small
from tidemark.protocol.answers.plan import Plan, TablePlan
from tidemark.protocol.error_codes import Policy
from tidemark.protocol.errors import SourceError

logger = logging.getLogger(__name__)

SAMPLE_ROWS = 20_000
"""Rows of the sample chunk that measures a table's speed."""

SAMPLE_SECONDS = 10.0
"""After this time no more samples are read: a plan must be quick."""


def make_plan(source: Source, clock: Callable[[], float]) -> Plan:
    """Plans the backfill of every table of a source.

    Reads a sample chunk of each table, the largest first by the server's estimate, for ``SAMPLE_SECONDS``. A table that
    cannot be captured is not in the plan; one that cannot be read has no speed.

    Args:
        clock: A clock in seconds that never goes back.

    Raises:
        SourceError: The source is unreachable.
    """
    started = clock()
    speeds: dict[int, float] = {}
    readable = [table for table in source.tables if table.scan.reads]
    readable.sort(key=lambda table: -(table.estimated_rows or 0))
    if readable:
        with contextlib.closing(source.open_chunk_reader()) as reader:
            for tables in _samples(readable):
                if clock() - started > SAMPLE_SECONDS:
                    break
                speeds |= _speeds(reader, tables)
    ordered = sorted((table for table in source.tables if table.unfit is None), key=lambda table: -table.priority)
    readers = source.options.backfill.readers
    return Plan(readers=readers, tables={t.name: _plan(source, t, readers, speeds.get(t.binding)) for t in ordered})


def _plan(source: Source, table: OpenedTable, readers: int, speed: float | None) -> TablePlan:
    bounds = []
    if readers > 1 and table.scan.reads:
        bounds = split_points(source, table.binding, None, None, readers, physical=table.scan.by_places)
    return TablePlan(
        scan=table.scan.value,
        key=list(table.key),
        ranges=len(bounds) + 1,
        rows_estimated=table.estimated_rows,
        bytes_estimated=table.estimated_bytes,
        rows_per_second=None if speed is None else round(speed, 1),
    )


def _samples(tables: Sequence[OpenedTable]) -> Iterator[Sequence[OpenedTable]]:
    """The tables whose sample chunks are read together, as a capture reads them."""
    small = [table for table in tables if is_small(table) and not table.scan.by_places]
    together = {table.binding for table in small}
    for table in tables:
        if table.binding not in together:
            yield [table]
    for first in range(0, len(small), TOGETHER):
        yield small[first : first + TOGETHER]


def _speeds(reader: ChunkReader, tables: Sequence[OpenedTable]) -> dict[int, float]:
    """Rows per second of sample chunks, by binding, without those of tables that have no rows."""
    requests = [
        ChunkRequest(table.binding, ChunkPlan(None, (), scan=True, physical=table.scan.by_places), SAMPLE_ROWS)
        for table in tables
    ]
    chunks = reader.read_together(requests) if len(requests) > 1 else [None]
    speeds = {}
    for table, request, chunk in zip(tables, requests, chunks, strict=True):
        if chunk is None and (chunk := _sample(reader, table, request)) is None:
            continue
        rows = max(chunk.scanned, len(chunk.rows))
        if rows and chunk.seconds:
            speeds[table.binding] = rows / chunk.seconds
    return speeds


def _sample(reader: ChunkReader, table: OpenedTable, request: ChunkRequest) -> Chunk | None:
    try:
        return reader.read(request)
    except SourceError as error:
        if error.entry.policy is Policy.RETRY:
            raise
        extra = {"code": error.code, "remedy": error.remedy}
        logger.warning("planning %s: %s", table.name, error.message, extra=extra)
        return None
