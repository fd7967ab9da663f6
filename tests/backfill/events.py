"""Events of the log that a table is told one at a time."""

from __future__ import annotations

from tidemark.backfill.keys import Key, TouchedKeys
from tidemark.backfill.ranges import TableRanges


def observe(ranges: TableRanges, key: Key, partial: bool, inserted: bool = False) -> None:
    """The log touched a row; arguments as in ``TouchedKeys.add``."""
    touched = TouchedKeys()
    touched.add(key, partial, inserted)
    ranges.observe_all(touched)
