"""Decides when a table is folded: folds take at most a share of the time."""

from __future__ import annotations

from spark_sink.pipeline.settings import FoldRule


class FoldClock:
    """The clock of one table. All times are seconds of a monotonic clock.

    Cheap folds come often, expensive folds rarely. While a backfill fills a table, the cost of a fold grows with the
    table, and the next fold waits in proportion. So the number of folds grows with the logarithm of the size, and their
    total cost with the size.

    Args:
        rule: The fold rule.
    """

    def __init__(self, rule: FoldRule) -> None:
        self._rule = rule
        self._due = 0.0

    def folded(self, ended: float, cost: float) -> None:
        """A fold has ended.

        Args:
            ended: The time of its end.
            cost: Its duration in seconds.
        """
        self._due = ended + cost * (1 / self._rule.share - 1)

    def is_due(self, now: float, stale_since: float) -> bool:
        """Whether to fold now.

        Args:
            now: The time.
            stale_since: The time since which the base lacks an event.
        """
        ceiling = self._rule.max_staleness
        return now >= self._due or (ceiling is not None and now - stale_since >= ceiling)
