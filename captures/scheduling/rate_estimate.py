"""The smoothed rate of a count, and when the count will reach a goal."""

from __future__ import annotations

import math

SMOOTH_SECONDS = 30.0
"""Seconds after which a measurement weighs about a third of a current one."""

LEAST_SECONDS = 3.0
"""Seconds of measurements before there is an estimate."""


class RateEstimate:
    """An exponentially weighted mean of a count's rate. Weights depend on time: samples may be irregular.

    The mean is divided by its collected weight, so it is right from the first sample on and does not start at zero.
    """

    def __init__(self) -> None:
        self._begin(None)

    def _begin(self, sample: tuple[float, int] | None) -> None:
        self._last = sample
        self._measured = self._mean = self._weight = 0.0

    def note(self, now: float, count: int) -> None:
        """Takes the count at a time, in seconds that never decrease. A smaller count than before starts again."""
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
        """Seconds until the count has grown by ``more``; None if it does not grow, or there is no estimate yet."""
        if more <= 0:
            return 0.0
        speed = self.per_second
        return more / speed if self._measured >= LEAST_SECONDS and speed > 0 else None
