"""What delays chunks: a rate, hours of the day, replicas that lag. The log is never delayed."""

from __future__ import annotations

import time
from collections.abc import Callable

from tidemark.captures.contract.options import BackfillConfig

LAG_SECONDS = 5.0
"""Seconds between two queries of the replicas' lag."""


class Throttle:
    """Decides when chunks may be started.

    Args:
        config: The configured limits.
        replica_lag: As of ``Source``.
        clock: Seconds that only go forward.

    Attributes:
        reason: Why chunks wait, for people; empty while they may be started.
    """

    def __init__(
        self, config: BackfillConfig, replica_lag: Callable[[], float | None], clock: Callable[[], float]
    ) -> None:
        self._config = config
        self._replica_lag = replica_lag
        self._clock = clock
        self._paid_at = clock()
        self._lag: float | None = None
        self._lag_asked = clock() - LAG_SECONDS
        self.reason = ""

    def ask(self) -> None:
        """Queries the replicas' lag, if that is due. Raises SourceError."""
        limit, now = self._config.max_replica_lag, self._clock()
        if limit is not None and now - self._lag_asked >= LAG_SECONDS:
            self._lag_asked = now
            self._lag = self._replica_lag()

    def spend(self, rows: int, size: int) -> None:
        """Counts emitted rows and their bytes."""
        rate = self._config.max_rate
        if rate is not None:
            self._paid_at = max(self._paid_at, self._clock()) + (rows if rate.of_rows else size) / rate.amount

    @property
    def limits_rate(self) -> bool:
        """Whether rows may come at a certain rate only."""
        return self._config.max_rate is not None

    def chunk_rows(self, rows: int, row_bytes: float) -> int:
        """The rows of a chunk that would have ``rows``, limited so that the rate is kept to within a chunk's time."""
        rate = self._config.max_rate
        if rate is not None and (rate.of_rows or row_bytes > 0):
            rows = min(rows, int(rate.amount * self._config.chunk_seconds / (1.0 if rate.of_rows else row_bytes)))
        return max(1, rows)

    def remaining(self) -> float:
        """Seconds until a chunk may be started, by what is known now; 0 if one may be started."""
        now = self._clock()
        quiet = self._config.quiet_hours.remaining(time.time()) if self._config.quiet_hours is not None else 0.0
        limit = self._config.max_replica_lag
        if quiet > 0:
            self.reason = "quiet hours"
            return quiet
        if limit is not None and self._lag is not None and self._lag > limit:
            self.reason = f"a replica is {self._lag:.1f} s behind"
            return max(0.0, self._lag_asked + LAG_SECONDS - now) or LAG_SECONDS
        self.reason = ""
        return max(0.0, self._paid_at - now)
