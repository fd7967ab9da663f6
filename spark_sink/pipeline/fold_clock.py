"""When a table's base is moved forward: folding it takes at most a share of the time."""

from __future__ import annotations

from spark_sink.pipeline.settings import FoldRule


class FoldClock:
    """One table's. All times are seconds of one clock that only goes forward.

    A cheap fold is repeated soon and an expensive one seldom. While a backfill fills a table, each fold costs what the
    table has become, and the next one waits in proportion: the number of folds grows with the logarithm of the size,
    and their total cost with the size.

    Args:
        rule: The share, and the most that a table may be stale.
    """

    def __init__(self, rule: FoldRule) -> None:
        self._rule = rule
        self._due = 0.0

    def folded(self, ended: float, cost: float) -> None:
        """A fold has ended.

        Args:
            ended: When.
            cost: Seconds that it took.
        """
        self._due = ended + cost * (1 / self._rule.share - 1)

    def is_due(self, now: float, stale_since: float) -> bool:
        """Whether to fold now.

        Args:
            now: The time.
            stale_since: Since when the base lacks an event.
        """
        ceiling = self._rule.max_staleness
        return now >= self._due or (ceiling is not None and now - stale_since >= ceiling)
