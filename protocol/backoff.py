"""How long to wait before something that failed is tried again: the runtime's starts, the captures' connections."""

from __future__ import annotations

from random import Random

FIRST_SECONDS = 0.5
LONGEST_SECONDS = 30.0


class Backoff:
    """Waits that grow with failures in a row, with jitter: many captures must not come back at the same moment.

    Whoever waits does so by itself, between other work or until it is interrupted. So this is no loop around a call.

    Args:
        first: Seconds to wait after a first failure; the wait doubles with each that follows.
        longest: Seconds that a wait has at most.
        random: Where the jitter comes from.

    Attributes:
        failures: In a row.
    """

    def __init__(
        self, first: float = FIRST_SECONDS, longest: float = LONGEST_SECONDS, *, random: Random | None = None
    ) -> None:
        self._first = first
        self._longest = longest
        self._random = random or Random()
        self.failures = 0

    def failed(self) -> float:
        """Counts a failure; how many seconds to wait, between half of the full wait and all of it."""
        wait = self.wait()
        self.failures += 1
        return wait

    def wait(self) -> float:
        """How many seconds to wait after a failure that does not count."""
        # From some number of failures on it is the longest in any case.
        full: float = min(self._first * 2 ** min(self.failures, 32), self._longest)
        return full * self._random.uniform(0.5, 1.0)

    def reset(self) -> None:
        """It worked."""
        self.failures = 0
