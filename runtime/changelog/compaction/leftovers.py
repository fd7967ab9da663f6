"""Deletes what compacted commits have replaced, once no reader that planned before can need it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import msgspec

from tidemark.protocol.changelog import ChangeLog, layout
from tidemark.protocol.changelog.models import Replacement
from tidemark.protocol.changelog.unreadable import unreadable
from tidemark.protocol.errors import ChangeLogError
from tidemark.protocol.store import Store
from tidemark.runtime.changelog.files.failures import writing

logger = logging.getLogger(__name__)


class _Path(msgspec.Struct):
    path: str


class _Named(msgspec.Struct):
    """The segments that a file of commits names: all that is needed of thousands of such files."""

    segments: list[_Path] = []


class Leftovers:
    """Deletes them; one object for as long as a process writes the log.

    Args:
        grace: How long what was replaced stays.
        go_on: Is asked between two files; raises to end.
    """

    def __init__(self, grace: timedelta, go_on: Callable[[], None]) -> None:
        self._grace = grace
        self._go_on = go_on
        self._gone: set[str] = set()

    def remove(self, log: ChangeLog) -> int:
        """Deletes what is due, and returns how many files.

        Of each commit the segments go before the commit itself: whoever is killed in between finds the rest by it.

        Raises:
            ChangeLogError: ``TM-LOG-008`` a file cannot be deleted; others as ``ChangeLog``.
        """
        now = datetime.now(UTC)
        due = [one for one in log.replacements if now - one.time >= self._grace and one.path not in self._gone]
        if not due:
            return 0
        names = [name for path in _listed(log.store) if (name := path.rpartition("/")[2])]
        removed = sum(self._remove_replaced(log.store, names, one) for one in due)
        self._gone.update(one.path for one in due)
        if removed:
            logger.debug("removed %d files that compacted commits stand for from %s", removed, log.store.place)
        return removed

    def _remove_replaced(self, store: Store, names: list[str], by: Replacement) -> int:
        live = set(named_by(store, by.path))
        removed = 0
        for name in names:
            path = f"{layout.COMMITS}/{name}"
            if path == by.path or not _is_within(name, by):
                continue
            self._go_on()
            segments = [] if layout.summary_number(name) is not None else named_by(store, path)
            with writing():
                for segment in segments:
                    if segment not in live:
                        store.delete(segment)
                        removed += 1
                store.delete(path)
            removed += 1
        return removed


def unnamed_segments(store: Store, paths: list[str]) -> Iterator[str]:
    """The joined segments among these that no file names: their writer was killed before it made one."""
    live: set[str] = set()
    for path in _listed(store, after=f"{layout.COMMITS}/compacted-"):
        if layout.compacted_range(path.rpartition("/")[2]) is not None:
            live.update(named_by(store, path))
    return (path for path in paths if path not in live)


def named_by(store: Store, path: str) -> list[str]:
    """The segments that a commit or compacted ones name; none where the file is gone by now."""
    where = store.where(path)
    try:
        found = msgspec.json.decode(store.read(path), type=_Named)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise unreadable(where, error) from None
    except msgspec.DecodeError:
        raise ChangeLogError("TM-LOG-002", f"{where} is damaged: it is not a commit") from None
    return [segment.path for segment in found.segments]


def _is_within(name: str, by: Replacement) -> bool:
    """Whether a file is of commits that were replaced. The summary after the last of them stays."""
    if (number := layout.commit_number(name)) is not None:
        return by.first <= number <= by.last
    if (number := layout.summary_number(name)) is not None:
        return by.first <= number < by.last
    compacted = layout.compacted_range(name)
    return compacted is not None and by.first <= compacted[0] and compacted[1] <= by.last


def _listed(store: Store, after: str = "") -> Iterator[str]:
    try:
        yield from (entry.path for entry in store.list(layout.COMMITS, after=after))
    except OSError as error:
        raise unreadable(store.where(layout.COMMITS), error) from None
