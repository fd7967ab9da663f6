"""Keeps readers busy: while there are more readers than scans, the longest scan is cut into parts."""

from __future__ import annotations

from collections.abc import Iterable
from weakref import WeakKeyDictionary

from tidemark.backfill.keys import Key
from tidemark.backfill.range_scan import RangeScan
from tidemark.captures.contract.capabilities import SplitsPages
from tidemark.captures.contract.source import Source
from tidemark.captures.scheduling.table_backfill import TableBackfill

WORTH_CHUNKS = 4
"""A scan with fewer chunks left than this, by estimate, is not cut."""

LOOK_SECONDS = 0.2
"""Seconds between two attempts to cut a scan."""

AGAIN_SECONDS = 5.0
"""Seconds before a scan that could not be cut is tried again."""


class RangeSplitter:
    """Estimates the rest of each scan from the server's estimates, and cuts the longest one.

    The parts have about the same size by the server's statistics. If those are wrong, the readers of short parts get
    parts of the longer ones: skewed and sparse keys stay balanced.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._shares: WeakKeyDictionary[RangeScan, float | None] = WeakKeyDictionary()
        self._not_before: WeakKeyDictionary[RangeScan, float] = WeakKeyDictionary()
        self._look_at = 0.0

    def cut(self, tables: Iterable[TableBackfill], parts: int, now: float) -> None:
        """Cuts the longest scan into up to ``parts``, if one is worth it.

        Raises:
            SourceError: The source cannot be queried.
        """
        if now < self._look_at:
            return
        worth = [
            (left is None, left or 0.0, scan.rows, backfill, scan)
            for backfill in tables
            for scan in backfill.ranges.scans
            if not scan.finished and now >= self._not_before.get(scan, 0.0)
            for left in [self._left(backfill, scan)]
            if _worth(backfill, scan, left)
        ]
        # While a chunk is being read, its end is unknown. A cut might lie inside of it, and the rows
        # after the cut would be read twice.
        found = [each for each in worth if each[-1].splittable]
        if not worth or found:
            self._look_at = now + LOOK_SECONDS
        if not found:
            return
        # The rest of a scan beyond its estimate, or without one, is unknown: it comes first.
        _, _, _, backfill, scan = max(found, key=lambda each: each[:3])
        self._not_before[scan] = now + AGAIN_SECONDS
        binding, ahead, until = backfill.table.binding, scan.ahead, scan.range.until
        bounds = split_points(self._source, binding, ahead, until, parts, physical=scan.physical)
        cut = backfill.ranges.split(scan, bounds) if bounds else []
        left = self._left(backfill, scan)
        share = None if left is None else left / (len(cut) + 1)
        self._shares[scan] = None if share is None else scan.rows + share
        for part in cut:
            self._shares[part] = share

    def _left(self, backfill: TableBackfill, scan: RangeScan) -> float | None:
        """Rows that are left of a scan; None if unknown."""
        if scan not in self._shares:
            rows = backfill.table.estimated_rows
            unfinished = sum(not each.finished for each in backfill.ranges.scans)
            self._shares[scan] = (
                None if rows is None else scan.rows + max(0, rows - backfill.ranges.rows) / max(1, unfinished)
            )
        share = self._shares[scan]
        return None if share is None or share <= scan.rows else share - scan.rows


def split_points(
    source: Source, binding: int, cursor: Key | None, until: Key | None, parts: int, *, physical: bool
) -> list[Key]:
    """Keys or, for a ``physical`` scan, pages that cut its rest; see ``Source.split``. None if it cannot be cut.

    A table that is scanned by pages may have ranges by key, too.

    Raises:
        SourceError: The source cannot be queried.
    """
    if not physical:
        return source.split(binding, cursor, until, parts)
    return source.split_pages(binding, cursor, until, parts) if isinstance(source, SplitsPages) else []


def _worth(backfill: TableBackfill, scan: RangeScan, left: float | None) -> bool:
    return (scan.rows if left is None else left) >= WORTH_CHUNKS * backfill.size.rows
