"""Moves the start of a log for its writer, and deletes what comes before it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.changelog.consumers import consumers
from tidemark.runtime.changelog.retention.needed import needed
from tidemark.runtime.changelog.retention.next_start import LogSizes, Retain, next_start
from tidemark.runtime.changelog.retention.removal import Removal

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
