"""Which files of a table can hold a row that the tail of the log changes. No file is opened to decide it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import Any, Self

import pyarrow as pa

from tidemark.spark_sink.formats.data_files import KeyBounds

Key = tuple[Any, ...]
"""Values of the key's columns, comparable with those of ``KeyBounds``; None is a null."""

_MOST_COMPARED = 1000
"""Keys that are held against one file, one by one. More of them near a file very likely hit it."""


class ChangedKeys:
    """Keys that are known one by one.

    Args:
        keys: In any order.
    """

    def __init__(self, keys: Iterable[Key]) -> None:
        listed = list(keys)
        # A key with a null in it can only be in a file whose bounds are unknown.
        self._keys = sorted((key for key in listed if None not in key), key=lambda key: key[0])
        self._first = [key[0] for key in self._keys]
        self._any = bool(listed)

    @classmethod
    def of(cls, keys: pa.Table) -> Self:
        """The keys of a table that has no other columns."""
        return cls(zip(*(column.to_pylist() for column in keys.columns), strict=True))

    def may_hit(self, bounds: KeyBounds) -> bool:
        """Whether a changed key may lie within the bounds."""
        low, high = bounds.low, bounds.high
        if low is None or high is None:
            return self._any
        near = self._keys[bisect_left(self._first, low[0]) : bisect_right(self._first, high[0])]
        if len(low) == 1 or len(near) > _MOST_COMPARED:
            return bool(near)
        return any(all(a <= value <= b for a, value, b in zip(low, key, high, strict=True)) for key in near)


class ChangedBoxes:
    """Keys of which only boxes are known, one for each segment.

    Args:
        boxes: Bounds of the keys; unknown bounds may hold any.
    """

    def __init__(self, boxes: Sequence[KeyBounds]) -> None:
        self._boxes = boxes

    def may_hit(self, bounds: KeyBounds) -> bool:
        """Whether a changed key may lie within the bounds."""
        return any(_overlap(box, bounds) for box in self._boxes)


def _overlap(one: KeyBounds, other: KeyBounds) -> bool:
    if one.low is None or one.high is None or other.low is None or other.high is None:
        return True
    return all(
        low <= other_high and other_low <= high
        for low, high, other_low, other_high in zip(one.low, one.high, other.low, other.high, strict=True)
    )
