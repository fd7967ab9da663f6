"""What a statement does to a table, and to a temporary one of the session that writes the log."""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum

from tidemark.captures.mysql.statements.tokens import Name


class Action(StrEnum):
    """What is done to a table."""

    CREATED = "created"
    ENSURED = "ensured"
    """Created, unless it was there: MySQL logs the statement in both cases."""
    DROPPED = "dropped"
    ALTERED = "altered"
    """Its columns or keys may be others: see ``Alteration``."""
    EMPTIED = "emptied"
    CLEARED = "cleared"
    """Emptied by a DELETE, in place of its rows: its triggers may change other tables."""
    REFILLED = "refilled"
    """It lost or got rows that the log does not have."""
    PARTITION_GONE = "partition gone"
    """It lost all rows of a partition, which the log does not have."""
    EXCHANGED = "exchanged"
    """The same, and it got other rows of that partition."""
    RENAMED = "renamed"
    VERSIONED = "versioned"
    """From here on the log has the history of its rows as rows."""
    WRITTEN = "written"
    """Its rows are changed by a statement that the log has instead of them."""
    NAMED = "named"
    """Such a statement names it, perhaps: rows of it may be changed by functions, triggers and views."""
    SHADOWED = "shadowed"
    """A temporary table hides it from the session, from here on."""
    UNCOVERED = "uncovered"
    """The temporary table is dropped."""


WRITES = frozenset((Action.WRITTEN, Action.CLEARED))
"""What a statement does to the tables that it names as those that it changes."""

UNREAD = WRITES | {Action.NAMED}
"""What is done by statements that the log has instead of rows."""


@dataclass(slots=True)
class Alteration:
    """What an ALTER TABLE does to columns and keys, as far as the catalog does not show it afterwards.

    Attributes:
        renamed: Names of columns, the old one and the new one.
        added: Names of new columns.
        revalued: Names of columns that have values in rows that were there before, made or converted by the statement.
        texts: The character sets of all texts may be others.
        own: Of the columns that are added or redefined, those of MariaDB's own types, and these: its log has them as
            strings of bytes, or as texts.
        unique: A unique index may be another, which is the key where there is no primary key.
        placed: Where columns stand that are added or moved, in the order of the clauses: after the column of this name,
            or first if it is empty. None: at the end.
        redefaulted: Names of columns whose default is another one, which changes no row.
        unknown: It has clauses of which nothing is known: the table is ``REFILLED``, too.
    """

    renamed: tuple[tuple[str, str], ...] = ()
    added: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    revalued: tuple[str, ...] = ()
    texts: bool = False
    own: tuple[tuple[str, str], ...] = ()
    primary: bool = False
    unique: bool = False
    placed: tuple[tuple[str, str | None], ...] = ()
    redefaulted: tuple[str, ...] = ()
    unknown: bool = False

    @property
    def of_columns(self) -> bool:
        """Whether rows may look different after it."""
        return bool(self.renamed or self.added or self.dropped or self.revalued or self.texts)

    def of_names(self) -> set[str]:
        """Names in lower case under which there is another column after it than before, or none before or after it."""
        return {name.lower() for name in (*self.added, *self.left(), *(new for _, new in self.renamed))}

    def left(self) -> set[str]:
        """Names that no column has after it, or another one than before."""
        return {*self.dropped, *(old for old, _ in self.renamed)}

    def reused(self, left_before: Container[str]) -> set[str]:
        """Names under which rows that were captured before have values of another column, or none."""
        again = {name for name in self.added if name in self.left() or name in left_before}
        return again | {new for _, new in self.renamed}


@dataclass(frozen=True, slots=True)
class Change:
    """One change.

    Attributes:
        name: The table; an empty table name stands for the schema.
        new_name: For ``RENAMED``, what it is called now.
        partitions: For ``PARTITION_GONE`` and ``EXCHANGED``, which.
    """

    action: Action
    name: Name
    new_name: Name = ("", "")
    alteration: Alteration = field(default_factory=Alteration)
    partitions: tuple[str, ...] = ()


def single(action: Action, name: Name | None) -> list[Change]:
    """A change of the table that is named, if one is."""
    return [Change(action, name)] if name is not None else []


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
    """The temporary tables that the log has told of. What is done to them is done to no captured table.

    A session that logs statements logs what it does to its temporary tables, too, and their names hide others.

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
        """What a statement changes besides temporary tables; notes those that come and go with it. ``uses_some``: the
        log marks it as one that may use some of its session.
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
