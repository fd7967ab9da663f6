"""Whether the source lives, and how far the capture is behind it.

A source that is silent may have anything to say: its lag is unknown, and never 0. So it is asked for a sign of life.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from tidemark.captures.contract.log import LogStream, silence_limit
from tidemark.captures.contract.source import RetainedLog

FENCE_SECONDS = 0.05
"""How often to ask the server for the end of its log, while something waits for the log to reach a position."""

CLOCKS_SECONDS = 1.0
"""If the server's clock is ahead of ours by more, the two say nothing of the lag."""

LOOKS = 1000
"""The most positions of the log's end that are remembered while the capture is behind."""


class SourceLife:
    """Asks the source for signs of life, and measures the lag.

    Args:
        heartbeat_seconds: The source is asked at least twice in this time.
        clock: Seconds that only go forward.

    Attributes:
        limit: Seconds without a sign of life after which the lag is unknown.
    """

    def __init__(self, heartbeat_seconds: float, clock: Callable[[], float]) -> None:
        self.limit = silence_limit(heartbeat_seconds)
        self._clock = clock
        self._asked_at = -self.limit
        self._ends: deque[tuple[float, int]] = deque()
        self._reached_at: float | None = None

    def ask(self, log: LogStream, *, waits: bool) -> None:
        """Asks for a sign of life if it is time.

        Args:
            waits: Something waits for the log to reach a position of the source.
        """
        half = self.limit / 2
        if not waits and log.silent_seconds < half:
            return
        now = self._clock()
        if now - self._asked_at >= (FENCE_SECONDS if waits else half):
            self._asked_at = now
            log.request_progress()

    def is_silent(self, log: LogStream) -> bool:
        """Whether no sign of life came for too long."""
        return log.silent_seconds >= self.limit

    def lag(self, log: LogStream, retained: RetainedLog, *, drained: bool) -> float | None:
        """Seconds that the capture is behind the source: 0 if it has read everything, None if that is unknown.

        Args:
            retained: What the source says of its log now.
            drained: Nothing more could be read.
        """
        if self.is_silent(log):
            return None
        now = self._clock()
        if self._reached(log, retained, now) and drained and log.between_transactions:
            return 0.0
        # All that was in the log at one moment has been read: the rest is younger.
        ages = [] if self._reached_at is None else [now - self._reached_at]
        if log.committed_at is not None:
            by_clocks = time.time() - log.committed_at
            if by_clocks > -CLOCKS_SECONDS:
                ages.append(by_clocks)
        # The server's clock may be somewhat ahead of ours. Only who has read everything is not behind.
        return max(0.001, round(min(ages), 3)) if ages else None

    def _reached(self, log: LogStream, retained: RetainedLog, now: float) -> bool:
        """Whether the log was read to where it ended when this was asked last; the first time, to where it ends now."""
        if retained.end is None:
            return True  # The server sends each event at once.
        if self._ends and retained.end < self._ends[-1][1]:
            self._ends.clear()  # It is another log.
            self._reached_at = None
        first = not self._ends and self._reached_at is None
        # The position of a transaction that is being read may be near the end, with all of the transaction before it.
        while self._ends and log.between_transactions and self._ends[0][1] <= log.position:
            self._reached_at = self._ends.popleft()[0]
        reached = not self._ends
        # When there are too many, the lag is rather too long than too short.
        since = now if len(self._ends) < LOOKS else self._ends.pop()[0]
        self._ends.append((since, retained.end))
        if first and retained.end <= log.position:
            self._reached_at = now
        return self._reached_at == now if first else reached
