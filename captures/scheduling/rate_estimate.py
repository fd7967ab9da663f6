"""How fast a count moves, smoothed, and when it will be where it is to go."""

from __future__ import annotations

import math

SMOOTH_SECONDS = 30.0
"""What was measured this long ago counts for about a third of what is measured now."""

LEAST_SECONDS = 3.0
"""Before so much time was measured, nothing is foretold."""


class RateEstimate:
    """An exponentially weighted mean of a count's rate, with weights by time: samples may come as they like.

    The mean is divided by the weight it has collected, so it is right from the first sample on instead of starting at
    zero.
    """

    def __init__(self) -> None:
        self._begin(None)

    def _begin(self, sample: tuple[float, int] | None) -> None:
        self._last = sample
        self._measured = self._mean = self._weight = 0.0

    def note(self, now: float, count: int) -> None:
        """The count at a time in seconds that never decreases. A smaller count than before starts again."""
        if self._last is None or count < self._last[1]:
            self._begin((now, count))
            return
        then, before = self._last
        if now <= then:
            return
        fresh = 1.0 - math.exp((then - now) / SMOOTH_SECONDS)
        self._mean += fresh * ((count - before) / (now - then) - self._mean)
        self._weight += fresh * (1.0 - self._weight)
        self._measured += now - then
        self._last = (now, count)

    @property
    def per_second(self) -> float:
        return self._mean / self._weight if self._weight > 0 else 0.0

    def seconds_for(self, more: float) -> float | None:
        """How long the count needs to grow by ``more``; None when it does not move, or nothing can be said yet."""
        if more <= 0:
            return 0.0
        speed = self.per_second
        return more / speed if self._measured >= LEAST_SECONDS and speed > 0 else None
