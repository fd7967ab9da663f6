"""Compacts a log for its writer: at once, or while it is written, in a thread that gives way to all others."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING

from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.errors import ChangeLogError
from tidemark.runtime.changelog.compaction.compact import compact
from tidemark.runtime.changelog.compaction.leftovers import Leftovers
from tidemark.runtime.changelog.compaction.runs import EVERYTHING, Run, RunLimits, compacted_runs, new_runs

if TYPE_CHECKING:
    from tidemark.runtime.changelog.writer import LogWriter

LOOK_SECONDS = 1.0
"""Between two looks at how much has come, and whether somebody asks."""

_NICENESS = 10
_DAMAGED = "TM-LOG-009"

Tell = Callable[[ChangeLogError], None]


class CompactionStoppedError(Exception):
    """It was asked to end: what was begun is undone."""


class Compaction:
    """Compacts the commits of a log, for its writer.

    Args:
        writer: Of the log. Its next commit names what was compacted.
        grace: How long the files stay that were replaced.
        commit: Returns once the writer has made a commit.
        tell: Is called with the damage because of which commits stay as they are.
        stopped: Set to end at once.

    Attributes:
        compacted: How many commits were, so far.
        removed: How many files were deleted.
    """

    def __init__(
        self,
        writer: LogWriter,
        grace: timedelta,
        commit: Callable[[], object],
        tell: Tell,
        stopped: threading.Event | None = None,
    ) -> None:
        self._writer = writer
        self._commit = commit
        self._tell = tell
        self._stopped = stopped or threading.Event()
        self._leftovers = Leftovers(grace, self._go_on)
        self._numbers = count()
        self._log = ChangeLog(writer.store)
        self._walked = -1
        self.compacted = 0
        self.removed = 0

    def once(self, limits: RunLimits) -> None:
        """Compacts what is due by some limits, and deletes what was replaced long enough ago.

        Raises:
            ChangeLogError: The log cannot be read or written.
            CompactionStoppedError: It was asked to end.
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
        self.removed += self._leftovers.remove(self._log)

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

    def _go_on(self) -> None:
        if self._stopped.is_set():
            raise CompactionStoppedError


class CompactionThread:
    """Does so in the background until it is closed. What fails is told, and tried again later.

    Args:
        writer: Of the log.
        limits: What is due.
        grace: How long the files stay that were replaced.
        tell: Is called with what failed, once for each message.
        asked: Whether somebody asks that everything is compacted.
        done: Says that it is.
    """

    def __init__(
        self,
        writer: LogWriter,
        limits: RunLimits,
        grace: timedelta,
        tell: Callable[[Exception], None],
        asked: Callable[[], bool],
        done: Callable[[], None],
    ) -> None:
        self._stopped = threading.Event()
        self._writer = writer
        self._limits = limits
        self._grace = grace
        self._tell = tell
        self._asked = asked
        self._done = done
        self._told: set[str] = set()
        self._thread = threading.Thread(target=self._run, name="compaction", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends it, and waits until it has."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)  # On Linux: of this thread alone.
        compaction: Compaction | None = None
        while not self._stopped.wait(LOOK_SECONDS):
            try:
                asked = self._asked()
                if compaction is None:
                    compaction = Compaction(
                        self._writer, self._grace, self._wait_for_commit, self._tell_once, self._stopped
                    )
                compaction.once(EVERYTHING if asked else self._limits)
                if asked:
                    self._done()
            except CompactionStoppedError:
                return
            except Exception as error:  # noqa: BLE001 - nobody else would tell it, and the capture goes on
                self._tell_once(error)

    def _tell_once(self, error: Exception) -> None:
        if (message := str(error)) not in self._told:
            self._told.add(message)
            self._tell(error)

    def _wait_for_commit(self) -> None:
        while self._writer.replacing:
            if self._stopped.wait(0.1):
                raise CompactionStoppedError
