"""Tables that a session with ``sql_log_bin = 0`` alters, where the log does not say of its rows what their columns are.

The log names a table by another number from then on, as it does whenever the server opens the table again. So the
catalog is asked at each new number: a difference that is not in the log up to its end at that moment was not logged.
"""

from __future__ import annotations

from captures.mysql.log.table_contract import Tables
from captures.mysql.tables.bindings import BoundTable

_LOOKS = 10
"""Tables that are looked at in one turn: the log waits meanwhile."""


class UnloggedAlterations:
    """Looks for tables whose columns are not those that the log's rows are read by.

    Args:
        tables: The captured tables.
    """

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._numbers: dict[int, bytes] = {}
        self._suspects: set[int] = set()
        self._differ: dict[int, int] = {}

    def mapped(self, binding: int, number: bytes) -> None:
        """The log names a table by this number, and not its columns."""
        if self._numbers.get(binding) != number:
            self._numbers[binding] = number
            self._suspects.add(binding)

    def told(self, binding: int) -> None:
        """A statement of the log has altered the table, or another one has its name."""
        self._differ.pop(binding, None)

    def found(self, position: int) -> list[BoundTable]:
        """The tables that were altered without a word, as they were known; the log was read up to ``position``.

        Raises SourceError.
        """
        for binding in sorted(self._suspects)[:_LOOKS]:
            self._suspects.discard(binding)
            if self._tables.outdated(binding) is not None:
                self._differ[binding] = self._tables.end_of_log()
        passed = [binding for binding, end in self._differ.items() if position >= end]
        found = []
        for binding in passed:
            del self._differ[binding]
            if (bound := self._tables.outdated(binding)) is not None:
                found.append(bound)
        return found
