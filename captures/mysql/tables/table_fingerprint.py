"""The state's notes about tables besides their backfills: what the rows downstream were made with.

::

    {"shop%2Fusers": {"exclude": ["secret"], "hash": ["ssn"],   by stateKey; members that are empty are left out
                      "left": ["mail"],                          texts that no later column may be identified by
                      "ids": {"address": "mail"}}}               identities of columns that are not their names
"""

from __future__ import annotations

from collections.abc import Sequence

from tidemark.captures.mysql.tables.bindings import BoundTable
from tidemark.captures.mysql.tables.column_identities import ColumnIdentities
from tidemark.protocol.messages import JsonObject

MEMBER = "tables"
"""Of the state's ``source``."""


class NotedTables:
    """The tables of a capture.

    Args:
        bindings: The present ones. The list is read again at each call.
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
        """Restores the notes from the state's ``source``, which has none in earlier versions.

        Returns:
            The bindings whose documents have new columns, or columns that are newly hashed or no longer hashed.
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
