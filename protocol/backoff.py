"""How long to wait before something that failed is tried again."""

from __future__ import annotations

from random import Random

FIRST_SECONDS = 0.5
"""The wait after a first failure; it doubles with each that follows."""

LONGEST_SECONDS = 30.0


class Backoff:
    """Waits that grow with failures in a row, with jitter: many captures must not come back at the same moment.

    Args:
        random: Where the jitter comes from.

    Attributes:
        failures: In a row.
    """

    def __init__(self, random: Random) -> None:
        self._random = random
        self.failures = 0

    def failed(self) -> float:
        """Counts a failure; how many seconds to wait, between half of the full wait and all of it."""
        full: float = min(FIRST_SECONDS * 2 ** min(self.failures, 10), LONGEST_SECONDS)
        self.failures += 1
        return full * self._random.uniform(0.5, 1.0)

    def reset(self) -> None:
        """It worked."""
        self.failures = 0
