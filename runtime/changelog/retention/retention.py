"""Moves the start of a log for its writer, and deletes what comes before it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.changelog.consumers import consumers
from tidemark.protocol.changelog.log_start import LogStart
from tidemark.runtime.changelog.files.commit_file import CommitFile, delete_all
from tidemark.runtime.changelog.files.named_segments import listed_commits
from tidemark.runtime.changelog.retention.needed import needed
from tidemark.runtime.changelog.retention.next_start import LogSizes, Retain, next_start

if TYPE_CHECKING:
    from tidemark.runtime.changelog.writer import LogWriter


class Retention:
    """Keeps of a log what is asked for, and what somebody needs.

    The start moves in steps: it does not move again before the files of the last step are gone. So whoever has planned
    to read them has the whole grace for it.

    Args:
        writer: Of the log. Its next commit says where the log begins.
        log: The same log, as it is read.
        retain: What stays; None to move nothing, and only to delete what comes before the start.
        captured: Returns the collections that are captured now.
        grace: How long files stay after the start has moved.
        commit: Returns once the writer has made a commit.
        go_on: Is asked every now and then; raises to end.
    """

    def __init__(
        self,
        writer: LogWriter,
        log: ChangeLog,
        retain: Retain | None,
        captured: Callable[[], Iterable[str]],
        grace: timedelta,
        commit: Callable[[], object],
        go_on: Callable[[], None],
    ) -> None:
        self._writer = writer
        self._log = log
        self._retain = retain
        self._captured = captured
        self._commit = commit
        self._removal = Removal(grace, go_on)
        self._sizes = LogSizes()
        self._is_read = False

    def once(self) -> None:
        """Deletes what is due, and moves the start of the log if it can.

        Raises:
            ChangeLogError: The log cannot be read or written, or a file of a consumer is damaged.
        """
        if self._retain is None and self._removal.is_done(self._writer.summary.log_start):
            return
        if not self._is_read:
            self._log.summary()  # It has what was replaced and removed so far. The rest this process does itself.
            self._is_read = True
        self._removal.remove(self._log)
        if self._retain is None or not self._removal.is_done(self._log.log_start):
            return
        keep = needed(self._writer.summary, self._captured(), consumers(self._log.store))
        now = datetime.now(UTC)
        if (start := next_start(self._log, self._retain, keep.offset, now, self._sizes)) is not None:
            self._writer.begin_at(start)
            self._commit()
            self._log.summary()  # It has the new start.
            self._removal.remove(self._log)


logger = logging.getLogger(__name__)


class Removal:
    """What comes before the start of a log. Deletes it, once no reader that planned before can need it.

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
