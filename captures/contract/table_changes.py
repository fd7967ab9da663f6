"""The consequences of a change of a captured table, in words that all databases share.

The page of each kind of database in ``docs/`` has a list of ``TableChange`` (what may change, and its consequence).
Every row of it has a test.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum


class Consequence(IntEnum):
    """The consequence of a change, the least first: of several changes at once, the greatest counts."""

    NOTHING = 0
    """Documents have all values; at most a new schema is sent."""
    WARNED = 1
    """A warning names the values that documents lack."""
    BEGUN_AGAIN = 2
    """A backfill by pages starts again, if it is not done: the rows were rewritten."""
    PART_READ = 3
    """Rows that were not in the table are read, and no others. Without a key it is emptied and read again."""
    READ_AGAIN = 4
    """All rows are read again and replace the rows downstream: values changed that are not in the log. A table without
    a key is emptied first, since its rows would be added to the existing ones."""
    EMPTIED = 5
    """It is emptied downstream and read again: rows may have been deleted without events in the log."""
    SET_ASIDE = 6
    """It cannot be captured as it is: see ``tidemark.captures.engine.set_aside``. It may be emptied and read again
    later."""

    @property
    def text(self) -> str:
        """The text in the tables of ``docs/``."""
        return _TEXTS[self]


_TEXTS = {
    Consequence.NOTHING: "nothing",
    Consequence.WARNED: "a warning",
    Consequence.BEGUN_AGAIN: "a running backfill starts again",
    Consequence.PART_READ: "its own rows are read",
    Consequence.READ_AGAIN: "its rows are read again",
    Consequence.EMPTIED: "emptied and read again",
    Consequence.SET_ASIDE: "set aside",
}


def decided(*, keeps_values: bool, of_key: bool) -> Consequence:
    """The consequence of a change of a captured table: what is not known to keep all values has it read again.

    Args:
        keeps_values: It is known that all rows have the values that they had.
        of_key: Otherwise: the values may be those of the key, which identify the rows downstream.
    """
    if keeps_values:
        return Consequence.NOTHING
    return Consequence.EMPTIED if of_key else Consequence.READ_AGAIN


@dataclass(frozen=True, slots=True)
class Cause:
    """Why rows of a table are read again.

    Attributes:
        name: What happened, in a word; of an altered table the name of a ``TableChange``.
        consequence: The consequence.
        avoid: A sentence that says how to avoid it next time; empty if nothing does.
        columns: The columns or partitions that it affects.
        parts: Of ``PART_READ``, conditions for ``Range.where`` of rows that are not in the log: these are read. Without
            a key the table is emptied and read again.
        altered: The table was altered, and ``on_alter`` applies. Otherwise the log cannot be followed without the rows.
        keys_stay: All rows have the keys that they have downstream, so later changes of rows can be applied to them.
    """

    name: str
    consequence: Consequence
    avoid: str = ""
    columns: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    altered: bool = True
    keys_stay: bool = False


@dataclass(frozen=True, slots=True)
class TableChange:
    """A row of a database's list.

    Attributes:
        name: Its unique name, which the state and log lines use.
        what: What changes, in Markdown.
        noticed: What detects it, and when at the latest.
        consequence: The consequence.
        code: The code of the error or warning, if there is one.
        avoid: As ``Cause``; of a change because of which rows are read.
        keys_stay: As ``Cause``.
        altered: As ``Cause``.
    """

    name: str
    what: str
    noticed: str
    consequence: Consequence
    code: str = ""
    avoid: str = ""
    keys_stay: bool = False
    altered: bool = True

    @classmethod
    def of(cls, cause: Cause, what: str, noticed: str) -> TableChange:
        """The row of a cause that databases share."""
        return cls(
            cause.name,
            what,
            noticed,
            cause.consequence,
            avoid=cause.avoid,
            keys_stay=cause.keys_stay,
            altered=cause.altered,
        )

    def cause(self, columns: Iterable[str] = (), parts: Iterable[str] = ()) -> Cause:
        """The change as the cause of a reread."""
        stay = self.keys_stay or self.consequence < Consequence.EMPTIED
        return Cause(
            self.name,
            self.consequence,
            self.avoid,
            tuple(columns),
            tuple(parts),
            altered=self.altered,
            keys_stay=stay,
        )
