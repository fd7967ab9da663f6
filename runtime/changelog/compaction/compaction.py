"""Compacts a log for its writer, and deletes what was replaced."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING

from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.changelog.models import Replacement
from tidemark.protocol.errors import ChangeLogError
from tidemark.protocol.store import Store
from tidemark.runtime.changelog.compaction.compact import compact
from tidemark.runtime.changelog.compaction.runs import Run, RunLimits, compacted_runs, new_runs
from tidemark.runtime.changelog.files.commit_file import CommitFile, delete_all
from tidemark.runtime.changelog.files.named_segments import listed_commits, named_by

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
        self._leftovers = _Leftovers(grace, go_on)
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


logger = logging.getLogger(__name__)


class _Leftovers:
    """What compacted commits have replaced. Deletes it, once no reader that planned before can need it.

    Args:
        grace: How long what was replaced stays.
        go_on: Is asked every now and then; raises to end.
    """

    def __init__(self, grace: timedelta, go_on: Callable[[], None]) -> None:
        self._grace = grace
        self._go_on = go_on
        self._gone: set[str] = set()

    def remove(self, log: ChangeLog) -> None:
        """Deletes what is due.

        Raises:
            ChangeLogError: ``TM-LOG-008`` a file cannot be deleted; others as ``ChangeLog``.
        """
        now = datetime.now(UTC)
        due = [one for one in log.replacements if now - one.time >= self._grace and one.path not in self._gone]
        if not due:
            return
        files = [file for path in listed_commits(log.store) if (file := CommitFile.of(path)) is not None]
        removed = sum(self._remove_replaced(log.store, files, one) for one in due)
        self._gone.update(one.path for one in due)
        if removed:
            logger.debug("removed %d files that compacted commits stand for from %s", removed, log.store.place)

    def _remove_replaced(self, store: Store, files: list[CommitFile], by: Replacement) -> int:
        replaced = [file for file in files if file.path != by.path and _is_replaced(file, by)]
        return delete_all(store, replaced, self._go_on, _live(store, by))


def _is_replaced(file: CommitFile, by: Replacement) -> bool:
    """Whether it is of commits that were replaced. The summary after the last of them stays."""
    return by.first <= file.first and file.last <= by.last - file.is_summary


def _live(store: Store, by: Replacement) -> set[str]:
    """The segments of compacted commits. Their file must be there: of others nothing says what may go."""
    if not (found := named_by(store, by.path)) and not store.exists(by.path):
        raise ChangeLogError("TM-LOG-004", f"{store.where(by.path)} is missing")
    return set(found)
