"""How long to wait before something that failed is tried again."""

from __future__ import annotations

from tenacity import RetryCallState, Retrying, wait_exponential, wait_random_exponential

FIRST_SECONDS = 0.5
LONGEST_SECONDS = 30.0

_HALF = {"multiplier": FIRST_SECONDS / 2, "max": LONGEST_SECONDS / 2}
_WAIT = wait_exponential(**_HALF) + wait_random_exponential(**_HALF)
"""Twice as long after each failure; half of it at random, so that many captures do not come back at one moment."""


class Backoff:
    """Counts failures, and says how long to wait: tenacity's waits without its loop.

    That loop sleeps between calls. A table or a connection is due at a time, between other work, and the log is never
    left unread for it.
    """

    def __init__(self) -> None:
        self._state = RetryCallState(Retrying(), None, (), {})
        self.reset()

    def failed(self) -> float:
        """Counts a failure; how many seconds to wait."""
        self.failures += 1
        self._state.attempt_number = self.failures
        return _WAIT(self._state)

    def reset(self) -> None:
        """It worked."""
        self.failures = 0
        """In a row."""
