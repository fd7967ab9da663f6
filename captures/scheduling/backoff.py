"""The wait before a retry."""

from __future__ import annotations

import random

FIRST_SECONDS = 0.5
LONGEST_SECONDS = 30.0

HELD_SECONDS = 0.1
"""Wait before a chunk is tried again that was of no use, though nothing is wrong with it."""


class Backoff:
    """Counts failures and gives the wait after each.

    Tenacity's waits belong to its loop, which sleeps between calls. Here a retry is due at a time, and the log is read
    until then.
    """

    def __init__(self) -> None:
        self._next: float
        self.reset()

    def failed(self) -> float:
        """Counts a failure; returns the seconds to wait.

        The wait doubles with each failure. Half of it is random, so that many captures do not reconnect at once.
        """
        self.failures += 1
        half = self._next / 2
        self._next = min(2 * self._next, LONGEST_SECONDS)
        return half + random.uniform(0, half)

    def reset(self) -> None:
        """Counts a success: the next wait is the shortest."""
        self.failures = 0
        """In a row."""
        self._next = FIRST_SECONDS
