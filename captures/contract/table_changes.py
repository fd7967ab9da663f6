"""What follows when a captured table is not what it was: the words for it that all databases share.

Each kind of database has one list of ``TableChange`` (what may change of a table, and what follows). Its page in
``docs/`` shows that list, and a test exists for every row of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum


class Consequence(IntEnum):
    """What follows, the least first: of several changes at once, the greatest is what follows."""

    NOTHING = 0
    """Documents have what the table has; at most a new schema is announced."""
    WARNED = 1
    """A warning says what documents do not have."""
    BEGUN_AGAIN = 2
    """A backfill that goes by where rows are stored begins again, if it is not done: the rows are stored anew."""
    READ_AGAIN = 3
    """All rows are read again, over what there is: values changed that the log does not tell of. One without a key is
    emptied first, as its rows would be added to those that are there."""
    EMPTIED = 4
    """It is emptied downstream and read again: rows are gone of which the log does not tell."""
    SET_ASIDE = 5
    """It cannot be captured as it is: see ``captures.engine.set_aside``. It may be emptied and read again later."""

    @property
    def text(self) -> str:
        """For people, in the tables of ``docs/``."""
        return _TEXTS[self]


_TEXTS = {
    Consequence.NOTHING: "nothing",
    Consequence.WARNED: "a warning",
    Consequence.BEGUN_AGAIN: "a running backfill starts again",
    Consequence.READ_AGAIN: "its rows are read again",
    Consequence.EMPTIED: "emptied and read again",
    Consequence.SET_ASIDE: "set aside",
}


@dataclass(frozen=True, slots=True)
class TableChange:
    """A row of a database's list.

    Attributes:
        name: Tells it from the others; what the state and log lines call it.
        what: What changes, for people, in Markdown.
        noticed: What notices it, and by when at the latest, for people.
        consequence: What follows.
        code: Of the error or warning, where there is one.
    """

    name: str
    what: str
    noticed: str
    consequence: Consequence
    code: str = ""


def markdown(changes: Iterable[TableChange]) -> str:
    """The list as a table of a page in ``docs/``."""
    rows = []
    for change in changes:
        code = f" (`{change.code}`)" if change.code else ""
        rows.append(f"| {change.what} | {change.noticed} | {change.consequence.text}{code} |")
    return "\n".join(["| what changes | what detects it, and by when | consequence |", "|---|---|---|", *rows])
