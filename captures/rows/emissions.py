"""Numbers of chunks: together with a row's place in its chunk they distinguish rows emitted at one position."""

from __future__ import annotations

import time


class Emissions:
    """Numbers greater than all earlier ones, those of earlier sessions included: milliseconds since 1970."""

    def __init__(self) -> None:
        self._last = 0

    def next(self) -> int:
        self._last = max(self._last + 1, time.time_ns() // 1_000_000)
        return self._last
