"""The wait before a retry."""

from __future__ import annotations

from tenacity import RetryCallState, Retrying, wait_exponential, wait_random_exponential

FIRST_SECONDS = 0.5
LONGEST_SECONDS = 30.0

HELD_SECONDS = 0.1
"""Wait before a chunk is tried again that was of no use, though nothing is wrong with it."""

_HALF = {"multiplier": FIRST_SECONDS / 2, "max": LONGEST_SECONDS / 2}
_WAIT = wait_exponential(**_HALF) + wait_random_exponential(**_HALF)
"""The wait doubles with each failure. Half of it is random, so that many captures do not reconnect at once."""


class Backoff:
    """Counts failures and gives the wait after each: tenacity's waits without its loop.

    That loop sleeps between calls. Here a retry is due at a time, and the log is read until then.
    """

    def __init__(self) -> None:
        self._state = RetryCallState(Retrying(), None, (), {})
        self.reset()

    def failed(self) -> float:
        """Counts a failure; returns the seconds to wait."""
        self.failures += 1
        self._state.attempt_number = self.failures
        return _WAIT(self._state)

    def reset(self) -> None:
        """Counts a success: the next wait is the shortest."""
        self.failures = 0
        """In a row."""
