"""The texts that identify a table's columns: MySQL's catalogs have no number of a column that outlives its name.

A column's identity is the name that it had when the table was first captured, or when the column was added. If another
column has had that text, a number makes it another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tidemark.captures.mysql.statements.actions import Alteration


class ColumnIdentities:
    """Of one table, at a position of the log.

    Attributes:
        of: By name, the identities that are not the names.
        used: Texts that no later column may have: identities of columns that are gone or have another name now, and
            their names.
    """

    def __init__(self) -> None:
        self.of: dict[str, str] = {}
        self.used: set[str] = set()

    def __getitem__(self, name: str) -> str:
        return self.of.get(name, name)

    def restore(self, of: Mapping[str, str], used: Iterable[str], names: Iterable[str]) -> None:
        """Takes what a state has.

        Args:
            names: Of the columns at that position. Earlier versions identified them by these alone.
        """
        self.of = dict(of)
        self.used = set(used) - (set(names) - self.of.keys())

    def follow(self, alteration: Alteration) -> None:
        """Applies all of a statement at once."""
        carried = {new: self[old] for old, new in alteration.renamed}
        self.end(alteration.left())
        self.of |= carried

    def end(self, names: Iterable[str]) -> None:
        """No column, or another one, has these names from here on."""
        ended = set(names)
        self.used |= ended | {self[name] for name in ended}
        for name in ended:
            self.of.pop(name, None)

    def identified(self, names: Sequence[str]) -> dict[str, str]:
        """The identities of the columns with these names, which are all of the table. New columns get theirs."""
        for name in names:
            if name not in self.of and name in self.used:
                self.of[name] = self._unused(name, names)
                self.used.add(self.of[name])
        return {name: self[name] for name in names}

    def _unused(self, name: str, names: Sequence[str]) -> str:
        number = 1
        while (text := f"{name}#{number}") in self.used or text in names:
            number += 1
        return text

    def forget(self) -> None:
        """The table is emptied."""
        self.of.clear()
        self.used.clear()
