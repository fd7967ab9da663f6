"""Deletes what compacted commits have replaced, once no reader that planned before can need it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.changelog.models import Replacement
from tidemark.protocol.errors import ChangeLogError
from tidemark.protocol.store import Store
from tidemark.runtime.changelog.files.commit_file import CommitFile, delete_all
from tidemark.runtime.changelog.files.named_segments import listed_commits, named_by

logger = logging.getLogger(__name__)


class Leftovers:
    """Deletes them; one object for as long as a process writes the log.

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
