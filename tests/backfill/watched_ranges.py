"""Ranges of the model's tables."""

from __future__ import annotations

from tests.backfill.consumer import Work
from tidemark.backfill.range_scan import Range
from tidemark.backfill.ranges import TableRanges
from tidemark.protocol.messages import JsonObject


class WatchedRanges(TableRanges):
    """Tells when it begins again by itself."""

    def watched_by(self, work: dict[str, Work]) -> None:
        self._work = work

    def _begin(self, whole: Range) -> None:
        super()._begin(whole)
        if hasattr(self, "_work"):
            self._work[self.table] = Work()


def unordered(state: JsonObject) -> JsonObject:
    return {**state, "rereads": sorted(state["rereads"])}
