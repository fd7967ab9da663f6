"""How long to wait before something that failed is tried again."""

from __future__ import annotations

from tenacity import RetryCallState, Retrying, wait_random_exponential

LEAST_SECONDS = 0.25
LONGEST_SECONDS = 30.0

_WAIT = wait_random_exponential(multiplier=0.5, min=LEAST_SECONDS, max=LONGEST_SECONDS)
"""At random, so that many captures do not come back at the same moment; up to twice as long after each failure."""


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
