"""Compacts a log for its writer."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING

from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.errors import ChangeLogError
from tidemark.runtime.changelog.compaction.compact import compact
from tidemark.runtime.changelog.compaction.leftovers import Leftovers
from tidemark.runtime.changelog.compaction.runs import Run, RunLimits, compacted_runs, new_runs

if TYPE_CHECKING:
    from tidemark.runtime.changelog.writer import LogWriter

_DAMAGED = "TM-LOG-009"

Tell = Callable[[ChangeLogError], None]


class Compaction:
    """Compacts the commits of a log, for its writer.

    Args:
        writer: Of the log. Its next commit names what was compacted.
        log: The same log, as it is read.
        grace: How long the files stay that were replaced.
        commit: Returns once the writer has made a commit.
        tell: Is called with the damage because of which commits stay as they are.
        go_on: Is asked every now and then; raises to end. Then what was begun is undone.

    Attributes:
        compacted: How many commits were, so far.
    """

    def __init__(
        self,
        writer: LogWriter,
        log: ChangeLog,
        grace: timedelta,
        commit: Callable[[], object],
        tell: Tell,
        go_on: Callable[[], None],
    ) -> None:
        self._writer = writer
        self._log = log
        self._commit = commit
        self._tell = tell
        self._go_on = go_on
        self._leftovers = Leftovers(grace, go_on)
        self._numbers = count()
        self._walked = -1
        self.compacted = 0

    def once(self, limits: RunLimits) -> None:
        """Compacts what is due by some limits, and deletes what was replaced long enough ago.

        Raises:
            ChangeLogError: The log cannot be read or written.
        """
        newest = self._writer.summary.number
        if newest - self._walked >= limits.due:
            self._log.summary()  # It has the replacements.
            for run in new_runs(self._log, limits):
                self._compact(run)
            self._walked = newest
            while run_of_compacted := next(compacted_runs(self._log, limits), None):
                if not self._compact(run_of_compacted):
                    break
        self._leftovers.remove(self._log)

    def _compact(self, run: Run) -> bool:
        writer = self._writer
        try:
            replacement = compact(self._log, run, writer.summary.number + 1, writer.epoch, self._numbers, self._go_on)
        except ChangeLogError as error:
            if error.code != _DAMAGED:
                raise
            self._tell(error)
            return False
        writer.replace(replacement)
        self._commit()
        self._log.summary()  # It has the replacement.
        self.compacted += run.commits[-1].number - run.first + 1
        return True
