"""Finds tables that a session with ``sql_log_bin = 0`` altered: the log has neither the statement nor new values.

From then on the log names the table by another number, as it does whenever the server opens a table again. So each new
number leads to a look at the catalog. A difference that no statement up to the end of the log explains was not logged.
"""

from __future__ import annotations

from collections.abc import Callable

from tidemark.captures.mysql.tables.bindings import BoundTable
from tidemark.captures.mysql.tables.captured_tables import CapturedTables
from tidemark.captures.mysql.terms.columns import Column

_LOOKS = 10
"""The most tables that are looked at in one turn, because the log waits meanwhile."""


class UnloggedAlterations:
    """Looks for tables whose definition is not the one that the log's statements lead to.

    Args:
        tables: The captured tables.
    """

    def __init__(self, tables: CapturedTables) -> None:
        self._tables = tables
        self._numbers: dict[int, bytes] = {}
        self._suspects: set[int] = set()
        self._differ: dict[int, tuple[tuple[Column, ...], int, int]] = {}

    def mapped(self, binding: int, number: bytes, *, as_known: bool) -> None:
        """The log names a table by this number.

        Args:
            as_known: It also names the columns, and they are those that were known.
        """
        before = self._numbers.get(binding)
        if before != number:
            self._numbers[binding] = number
            if before is not None or not as_known:
                self._suspects.add(binding)

    def suspect(self, binding: int) -> None:
        """The table is looked at even if its number stays the same."""
        self._suspects.add(binding)

    def replaced(self, binding: int) -> None:
        """The whole table is read again."""
        self._suspects.discard(binding)
        self._differ.pop(binding, None)

    def found(self, position: int, named: Callable[[int], bool]) -> list[BoundTable]:
        """The tables that were altered without a statement in the log.

        Args:
            position: The log was read up to here.
            named: Whether the log names the columns of a table.

        Raises:
            SourceError: The server cannot be asked.
        """
        for binding in sorted(self._suspects)[:_LOOKS]:
            self._suspects.discard(binding)
            columns = self._tables.columns_now(binding)
            if columns is not None and not self._tables[binding].definitions.settled(columns):
                self._differ[binding] = columns, position, self._tables.end_of_log()
        found = []
        for binding, (columns, since, end) in list(self._differ.items()):
            if position < end:
                continue
            del self._differ[binding]
            bound = self._tables[binding]
            if bound.definitions.unexplained(
                columns,
                since,
                key=bound.key,
                of_values=bound.emitted if named(binding) else None,
                tinyint1_as_bool=bound.tinyint1_as_bool,
            ):
                found.append(bound)
        return found
