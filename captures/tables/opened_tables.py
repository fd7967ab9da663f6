"""The tables of a source as they are now, and those that the engine does not have yet."""

from __future__ import annotations

from collections.abc import Iterable

from tidemark.captures.contract.source import OpenedTable


class OpenedTables:
    """A source's own list of tables. The engine has another list, and gets the changes of this one."""

    def __init__(self, tables: Iterable[OpenedTable]) -> None:
        self._tables = list(tables)
        self._changed: set[int] = set()

    @property
    def now(self) -> tuple[OpenedTable, ...]:
        """All of them, by binding."""
        return tuple(self._tables)

    def __getitem__(self, binding: int) -> OpenedTable:
        return self._tables[binding]

    def put(self, table: OpenedTable) -> None:
        """Replaces a table."""
        self._tables[table.binding] = table
        self._changed.add(table.binding)

    def hand_over(self) -> list[OpenedTable]:
        """See ``tidemark.captures.contract.source.Source.changed_tables``."""
        changed, self._changed = self._changed, set()
        return [self._tables[binding] for binding in sorted(changed)]
