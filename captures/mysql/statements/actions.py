"""What a statement does to a table."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field
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
