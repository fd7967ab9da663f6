"""Numbers of chunks: with the place of a row in its chunk they tell the rows apart that are emitted at one position."""

from __future__ import annotations

import time


class Emissions:
    """Numbers, each greater than all before it, those of earlier sessions too: milliseconds since 1970."""

    def __init__(self) -> None:
        self._last = 0

    def next(self) -> int:
        self._last = max(self._last + 1, time.time_ns() // 1_000_000)
        return self._last
