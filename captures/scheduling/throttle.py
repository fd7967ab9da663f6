"""What delays chunks: a rate, hours of the day, replicas that lag. The log is never delayed."""

from __future__ import annotations

import time
from collections.abc import Callable

from captures.contract.source import BackfillOptions

LAG_SECONDS = 5.0
"""Seconds between two queries of the replicas' lag."""


class Throttle:
    """Decides when chunks may be started.

    Args:
        options: The configured limits.
        replica_lag: As of ``Source``.
        clock: Seconds that only go forward.
        wall: Seconds since the epoch.

    Attributes:
        reason: Why chunks wait, for people; empty while they may be started.
    """

    def __init__(
        self,
        options: BackfillOptions,
        replica_lag: Callable[[], float | None],
        clock: Callable[[], float],
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._options = options
        self._replica_lag = replica_lag
        self._clock = clock
        self._wall = wall
        self._paid_at = clock()
        self._lag: float | None = None
        self._lag_asked = clock() - LAG_SECONDS
        self.reason = ""

    def ask(self) -> None:
        """Queries the replicas' lag, if that is due. Raises SourceError."""
        limit, now = self._options.max_replica_lag, self._clock()
        if limit is not None and now - self._lag_asked >= LAG_SECONDS:
            self._lag_asked = now
            self._lag = self._replica_lag()

    def spend(self, rows: int, size: int) -> None:
        """Counts emitted rows and their bytes."""
        now = self._clock()
        seconds = 0.0
        if self._options.max_rows_per_second is not None:
            seconds = rows / self._options.max_rows_per_second
        if self._options.max_bytes_per_second is not None:
            seconds = max(seconds, size / self._options.max_bytes_per_second)
        self._paid_at = max(self._paid_at, now) + seconds

    def chunk_rows(self, rows: int, row_bytes: float) -> int:
        """The rows of a chunk that would have ``rows``, limited so that the rate is kept to within a chunk's time."""
        seconds = self._options.chunk_seconds
        if self._options.max_rows_per_second is not None:
            rows = min(rows, int(self._options.max_rows_per_second * seconds))
        if self._options.max_bytes_per_second is not None and row_bytes > 0:
            rows = min(rows, int(self._options.max_bytes_per_second * seconds / row_bytes))
        return max(1, rows)

    def remaining(self) -> float:
        """Seconds until a chunk may be started, by what is known now; 0 if one may be started."""
        now = self._clock()
        quiet = self._options.quiet_hours.remaining(self._wall()) if self._options.quiet_hours is not None else 0.0
        limit = self._options.max_replica_lag
        if quiet > 0:
            self.reason = "quiet hours"
            return quiet
        if limit is not None and self._lag is not None and self._lag > limit:
            self.reason = f"a replica is {self._lag:.1f} s behind"
            return max(0.0, self._lag_asked + LAG_SECONDS - now) or LAG_SECONDS
        self.reason = ""
        return max(0.0, self._paid_at - now)
