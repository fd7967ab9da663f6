"""The progress of a run."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol

from tidemark.protocol.errors import TidemarkError
from tidemark.spark_sink.run.report import Applied, PlannedPart

logger = logging.getLogger(__name__)


class Progress(Protocol):
    """Receives the progress of a run. Calls come one at a time, from the thread of the run."""

    def planned(self, parts: Sequence[PlannedPart]) -> None:
        """A batch was planned, and its parts are applied next."""

    def applied(self, applied: Applied) -> None:
        """A part was applied and committed."""

    def set_aside(self, table: str, kind: str, error: TidemarkError) -> None:
        """A table was set aside."""


class BothProgress:
    """Tells the progress to two."""

    def __init__(self, first: Progress, second: Progress) -> None:
        self._each = first, second

    def planned(self, parts: Sequence[PlannedPart]) -> None:
        for one in self._each:
            one.planned(parts)

    def applied(self, applied: Applied) -> None:
        for one in self._each:
            one.applied(applied)

    def set_aside(self, table: str, kind: str, error: TidemarkError) -> None:
        for one in self._each:
            one.set_aside(table, kind, error)


class LoggedProgress:
    """Logs the progress."""

    def planned(self, parts: Sequence[PlannedPart]) -> None:
        for part in parts:
            logger.info(
                "%s %s: %s (%s) for %d events, %.1f MB, that may touch %d files",
                part.table, part.kind, part.way, part.reason, part.events, part.bytes / 1e6, part.files,
            )  # fmt: skip

    def applied(self, applied: Applied) -> None:
        part, cost = applied.part, applied.cost
        logger.info(
            "%s %s: %d events in %.1f s and %.1f CPU s; %.1f MB read, %.1f MB written; at offset %d",
            part.table, part.kind, part.events, cost.seconds, cost.cpu_seconds,
            cost.bytes_read / 1e6, cost.bytes_written / 1e6, part.end,
        )  # fmt: skip

    def set_aside(self, table: str, kind: str, error: TidemarkError) -> None:
        logger.error("%s %s is set aside: %s %s", table, kind, error, error.remedy)
