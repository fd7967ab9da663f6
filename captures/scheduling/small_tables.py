"""Small tables, of which chunks are read together: a snapshot and a fence for each would cost more than their rows.

Each chunk keeps a window of its own, which begins before the snapshot is opened that it shares with the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import nsmallest

from tidemark.backfill.range_scan import RangeScan
from tidemark.captures.contract.source import OpenedTable
from tidemark.captures.scheduling.table_backfill import TableBackfill

SMALL_BYTES = 256 * 1024
SMALL_ROWS = 1_000
"""A table that the server estimates to be no larger than this, in bytes on its disk and in rows, is a small one."""

TOGETHER = 64
"""The most small tables of which chunks are read together. They are locked for as long as that takes."""


def is_small(table: OpenedTable) -> bool:
    """By the server's estimates. Of what they are wrong about, the first rows are read, and the others alone."""
    rows, size = table.estimated_rows, table.estimated_bytes
    return size is not None and size <= SMALL_BYTES and (rows is None or rows <= SMALL_ROWS)


def reads_whole(backfill: TableBackfill, scan: RangeScan) -> bool:
    """Whether the next chunk of a scan is to be a whole small table."""
    what = scan.range
    bounded = what.cursor is not None or what.until is not None or what.where is not None
    return not (scan.physical or bounded) and is_small(backfill.table)


def read_together(
    first: TableBackfill, idle: Mapping[int, Sequence[RangeScan]], tables: Sequence[TableBackfill]
) -> list[TableBackfill]:
    """The table whose turn it is, and if it is a small one, others whose turn would come next.

    Args:
        idle: The scans that may start a chunk, by binding.
        tables: All tables, by binding.
    """
    if not reads_whole(first, idle[first.table.binding][0]):
        return [first]
    alike = [tables[each] for each, scans in idle.items() if reads_whole(tables[each], scans[0])]
    return nsmallest(TOGETHER, (each for each in alike if each.priority == first.priority), lambda each: each.turn)
