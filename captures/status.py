"""Status lines on stderr: how far each backfill is, how far behind the log is, how much log the source keeps for us."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from captures.backfills import Backfills
from captures.interface import LogStream, Source
from protocol.logs import STATUS, Progress, TableProgress

logger = logging.getLogger(__name__)

STATUS_SECONDS = 1.0
"""While something moves."""

QUIET_SECONDS = 30.0
"""While nothing does."""


class StatusReports:
    """Writes a status line now and then: often while things move, seldom while they do not."""

    def __init__(self, source: Source, backfills: Backfills, clock: Callable[[], float]) -> None:
        self._source = source
        self._backfills = backfills
        self._clock = clock
        self._reported_at = clock() - STATUS_SECONDS
        self._last = Progress()

    def report(self, position: int, log: LogStream, *, drained: bool) -> None:
        now = self._clock()
        if now - self._reported_at < STATUS_SECONDS:
            return
        progress = self._progress(position, log, drained=drained)
        quiet = progress.tables == self._last.tables and progress.position == self._last.position
        if quiet and now - self._reported_at < QUIET_SECONDS:
            return
        self._write(progress)

    def finish(self, position: int, log: LogStream) -> None:
        """The last line of a capture that is caught up."""
        self._write(self._progress(position, log, drained=True).model_copy(update={"caught_up": True}))

    def _write(self, progress: Progress) -> None:
        self._reported_at = self._clock()
        self._last = progress
        left = [table for table in progress.tables.values() if not table.done]
        message = f"backfilling {len(left)} of {len(progress.tables)} tables" if left else "following the log"
        logger.info(message, extra={"eventType": STATUS, **progress.model_dump()})

    def _progress(self, position: int, log: LogStream, *, drained: bool) -> Progress:
        lag = None
        if not drained and log.committed_at is not None:
            lag = max(0.0, round(time.time() - log.committed_at, 3))
        return Progress(
            tables={
                backfill.table.name: TableProgress(
                    rows_done=backfill.scan.rows,
                    rows_estimated=backfill.table.estimated_rows,
                    done=backfill.scan.done,
                )
                for backfill in self._backfills.tables
            },
            position=self._source.format_position(position),
            lag_seconds=lag,
            retained_bytes=self._source.retained_bytes(),
        )
