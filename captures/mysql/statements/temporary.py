"""Temporary tables of the sessions that write the log: what is done to them is done to no captured table.

A session that logs statements logs what it does to its temporary tables, too, and their names hide others.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import replace

from tidemark.captures.mysql.statements.actions import UNREAD, WRITES, Action, Change
from tidemark.captures.mysql.statements.tokens import Name

SessionId = tuple[int, int]
"""The server that a session is of, and its number there."""

_DOUBTED = {
    Action.EMPTIED: Action.REFILLED,
    Action.CLEARED: Action.WRITTEN,
    Action.RENAMED: Action.REFILLED,
}
"""What counts as done to a table instead, where it may have been done to a temporary one of its name."""

_DOUBTED_IF_NOTED = UNREAD | {Action.EMPTIED}


class TemporaryTables:
    """The temporary tables that the log has told of.

    Args:
        place: What two names have in common that are of the same table.
    """

    def __init__(self, place: Callable[[Name], Hashable]) -> None:
        self._place = place
        self._of: dict[SessionId, set[Hashable]] = {}

    def forget(self) -> None:
        """The server was restarted: none of them exists any more."""
        self._of.clear()

    def without(self, changes: Iterable[Change], session: SessionId, *, uses_some: bool) -> list[Change]:
        """What a statement changes besides temporary tables; notes those that come and go with it.

        Args:
            uses_some: The log marks the statement as one that may use temporary tables of the session.
        """
        listed = list(changes)
        targets = [change.name for change in listed if change.action in WRITES]
        if uses_some and targets and all(self._has(session, name) for name in targets):
            return []  # Whatever else it names is only read.
        left = [kept for change in listed if (kept := self._permanent(change, session, uses_some)) is not None]
        if uses_some:
            # Perhaps of a temporary table that was made before the capture stood here: to read again is always right.
            left = [replace(change, action=_DOUBTED.get(change.action, change.action)) for change in left]
        return left

    def _has(self, session: SessionId, name: Name) -> bool:
        return session in self._of and self._place(name) in self._of[session]

    def _permanent(self, change: Change, session: SessionId, uses_some: bool) -> Change | None:
        place = self._place(change.name)
        if change.action is Action.SHADOWED:
            self._of.setdefault(session, set()).add(place)
            return None
        if change.action is Action.UNCOVERED:
            self._remove(session, place)
            return None
        if change.action in (Action.CREATED, Action.ENSURED) or not self._has(session, change.name):
            return change  # What is created is never temporary here.
        if not uses_some and change.action in _DOUBTED_IF_NOTED:
            # The log marks such statements where they are of temporary tables: another session had this number, before.
            return replace(change, action=_DOUBTED.get(change.action, change.action))
        if change.action is Action.RENAMED:
            self._remove(session, place)
            self._of.setdefault(session, set()).add(self._place(change.new_name))
        elif change.action is Action.DROPPED:
            self._remove(session, place)
        return None

    def _remove(self, session: SessionId, place: Hashable) -> None:
        mine = self._of.get(session, set())
        mine.discard(place)
        if not mine:
            self._of.pop(session, None)
