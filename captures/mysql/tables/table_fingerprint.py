"""The state's notes about tables besides their backfills: the options that the rows downstream were made with.

::

    {"shop%2Fusers": {"exclude": ["secret"], "hash": ["ssn"],   by stateKey; members that are empty are left out
                      "left": ["mail"]}}                         names of columns that are gone, or have another one
"""

from __future__ import annotations

from collections.abc import Sequence

from tidemark.captures.mysql.tables.bindings import BoundTable
from tidemark.protocol.messages import JsonObject

MEMBER = "tables"
"""Of the state's ``source``."""


class NotedTables:
    """The tables of a capture.

    Args:
        bindings: The present ones. The list is read again at each call.

    Attributes:
        left: By binding, names that columns had before, and which rows downstream may still have.
    """

    def __init__(self, bindings: Sequence[BoundTable]) -> None:
        self._bindings = bindings
        self.left: dict[int, set[str]] = {binding.binding: set() for binding in bindings}

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
            before: dict[str, list[str]] = stored.get(binding.state_key) or {}
            self.left[binding.binding] |= set(before.get("left", ()))
            exclude, hashed = set(binding.resource.exclude), set(binding.resource.hash)
            other = set(before.get("exclude", ())) | set(before.get("hash", ())) ^ hashed
            if (other - exclude) & {column.name for column in binding.table.columns}:
                found.add(binding.binding)
        return found

    def start_over(self) -> None:
        """All tables are read again."""
        for left in self.left.values():
            left.clear()

    def to_state(self) -> JsonObject:
        """For the state."""
        noted: JsonObject = {}
        for binding in self._bindings:
            resource = binding.resource
            kept = {"exclude": resource.exclude, "hash": resource.hash, "left": self.left[binding.binding]}
            if said := {name: sorted(names) for name, names in kept.items() if names}:
                noted[binding.state_key] = said
        return noted
