"""The state's notes about tables besides their backfills: what the rows downstream were made with.

::

    {"shop%2Fusers": {"exclude": ["secret"], "hash": ["ssn"],   by stateKey; members that are empty are left out
                      "left": ["mail"],                          texts that no later column may be identified by
                      "ids": {"address": "mail"}}}               identities of columns that are not their names
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tidemark.captures.mysql.statements.actions import Alteration
from tidemark.captures.mysql.tables.bindings import BoundTable
from tidemark.protocol.messages import JsonObject

MEMBER = "tables"
"""The member of the state's ``source`` that has them."""


class ColumnIdentities:
    """The texts that identify a table's columns, at a position of the log.

    MySQL's catalogs have no number of a column that outlives its name. So a column's identity is the name that it had
    when the table was first captured, or when the column was added. If another column has had that text, a number makes
    it another one.

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
        """Takes what a state has, and the names of columns there, by which alone earlier versions identified them."""
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


class NotedTables:
    """The tables of a capture.

    Args:
        identified: Schemas have the identities of columns, so these outlast a table that is emptied: what is downstream
            until it is whole again has them too.

    Attributes:
        columns: The identities of columns, by binding. Without ``identified`` only ``used`` counts: names that rows
            downstream may have values of other columns under.
    """

    def __init__(self, bindings: Sequence[BoundTable], *, identified: bool) -> None:
        self._bindings = bindings
        self._identified = identified
        self.columns = {binding.binding: ColumnIdentities() for binding in bindings}

    def restore(self, source: JsonObject | None) -> set[int]:
        """Restores the notes from the state's ``source``, which has none in earlier versions. Returns the bindings
        whose documents have new columns, or columns that are newly hashed or no longer hashed.
        """
        stored = (source or {}).get(MEMBER)
        if stored is None:
            return set()
        found = set()
        for binding in self._bindings:
            before: JsonObject = stored.get(binding.state_key) or {}
            names = {column.name for column in binding.table.columns}
            known = names if self._identified else ()
            self.columns[binding.binding].restore(before.get("ids", {}), before.get("left", ()), known)
            exclude, hashed = set(binding.resource.exclude), set(binding.resource.hash)
            other = set(before.get("exclude", ())) | set(before.get("hash", ())) ^ hashed
            if (other - exclude) & names:
                found.add(binding.binding)
        return found

    def replaced(self, binding: int) -> None:
        """All rows of a table are read again."""
        if not self._identified:
            self.columns[binding].forget()

    def start_over(self) -> None:
        """All tables are read again."""
        for binding in self.columns:
            self.replaced(binding)

    def to_state(self) -> JsonObject:
        """For the state."""
        noted: JsonObject = {}
        for binding in self._bindings:
            resource, columns = binding.resource, self.columns[binding.binding]
            kept = {"exclude": resource.exclude, "hash": resource.hash, "left": columns.used}
            said: JsonObject = {name: sorted(names) for name, names in kept.items() if names}
            if columns.of:
                said["ids"] = dict(sorted(columns.of.items()))
            if said:
                noted[binding.state_key] = said
        return noted
