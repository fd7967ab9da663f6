"""Deletes what comes before the start of a log, once no reader that planned before can need it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.changelog.log_start import LogStart
from tidemark.runtime.changelog.files.commit_file import CommitFile, delete_all
from tidemark.runtime.changelog.files.named_segments import listed_commits

logger = logging.getLogger(__name__)


class Removal:
    """Deletes it; one object for as long as a process writes the log.

    Args:
        grace: How long files stay after the start of the log has moved.
        go_on: Is asked every now and then; raises to end.
    """

    def __init__(self, grace: timedelta, go_on: Callable[[], None]) -> None:
        self._grace = grace
        self._go_on = go_on
        self._removed = 0

    def is_done(self, start: LogStart) -> bool:
        """Whether nothing is left to delete before the start of the log."""
        return start.number == self._removed

    def remove(self, log: ChangeLog) -> None:
        """Deletes what is due.

        Raises:
            ChangeLogError: ``TM-LOG-008`` a file cannot be deleted; others as ``ChangeLog``.
        """
        start = log.log_start
        if self.is_done(start) or (start.moved is not None and datetime.now(UTC) - start.moved < self._grace):
            return
        files = [file for path in listed_commits(log.store) if (file := CommitFile.of(path)) is not None]
        before = [file for file in files if file.last < start.number - file.is_summary]
        removed = delete_all(log.store, before, self._go_on)
        self._removed = start.number
        if removed:
            logger.info("removed %d files before offset %d from %s", removed, start.offset, log.store.place)
