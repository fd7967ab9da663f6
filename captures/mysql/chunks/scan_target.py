"""What chunks of one table select, as SQL. Plain data, which a reader's process gets with each chunk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tidemark.backfill.keys import Key
from tidemark.captures.mysql.chunks.key_ranges import KeyRange
from tidemark.captures.mysql.rows.chunk_decoder import selected
from tidemark.captures.mysql.server.conditions import END_OF_CONDITION
from tidemark.captures.mysql.tables.bindings import BoundTable
from tidemark.captures.mysql.terms.columns import Column, Table
from tidemark.captures.mysql.terms.quoting import quoted_name


@dataclass(frozen=True, slots=True)
class ScanTarget:
    """A bound table as a chunk reads it.

    Attributes:
        columns: Those that documents have.
        key: The key columns; empty where the table has no key.
        where: The configuration's condition.
        tinyint1_as_bool: As in the configuration.
    """

    table: Table
    columns: tuple[Column, ...]
    key: tuple[Column, ...]
    where: str | None
    tinyint1_as_bool: bool

    @staticmethod
    def of(bound: BoundTable) -> ScanTarget:
        """Makes it of the table as it is bound now."""
        by_name = {column.name: column for column in bound.table.columns}
        return ScanTarget(
            table=bound.table,
            columns=bound.captured,
            # A key is made of the texts of its columns, whether or not documents can have them.
            key=tuple(replace(by_name[name], on_bad_value="text") for name in bound.key),
            where=bound.resource.where,
            tinyint1_as_bool=bound.tinyint1_as_bool,
        )

    @property
    def name(self) -> str:
        return self.table.name_in_full

    @property
    def key_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.key)

    def touch(self) -> str:
        """A query without rows, after which the table cannot be altered until the transaction ends."""
        return f"SELECT 1 FROM {self._name} LIMIT 0"

    def scan(self, cursor: Key | None, until: Key | None, where: str | None, limit: int | None) -> str:
        """The keyset query: rows after ``cursor`` and not after ``until`` in key order."""
        query = self._in_order(self._selected, cursor, until, [self.where, where])
        return query if limit is None else f"{query} LIMIT {limit}"

    def everything(self) -> str:
        """The query for all rows that meet the condition, in the server's order."""
        condition = f" WHERE ({self.where}{END_OF_CONDITION}" if self.where else ""
        return f"SELECT {', '.join(self._selected)} FROM {self._name}{condition}"

    def bound(self, cursor: Key | None, until: Key | None, rows: int) -> str:
        """The key of the last of so many rows after ``cursor``; no row if there are fewer."""
        return f"{self._in_order(selected(self.key, self.key_names), cursor, until, [])} LIMIT {rows - 1}, 1"

    def end(self, cursor: Key | None, until: Key | None, *, last: bool) -> str:
        """The first or last key of a range."""
        query = self._in_order(selected(self.key, self.key_names), cursor, until, [])
        return f"{self._backwards(query) if last else query} LIMIT 1"

    def estimate(self, cursor: Key | None, until: Key | None) -> str:
        """The plan for the keys of a range: the optimizer looks at the index for its estimate of their number."""
        # For a forced index MySQL does not estimate the number.
        query = self._in_order(selected(self.key, self.key_names), cursor, until, [], hint="USE")
        return f"EXPLAIN FORMAT=TRADITIONAL {query}"

    def last_before(self, cursor: Key | None, until: Key | None, guess: Key) -> str:
        """The last key of a range that is not after ``guess``, which need not be in the range, or a row's."""
        query = self._in_order(selected(self.key, self.key_names), cursor, until, [self._keys.not_after(guess)])
        return f"{self._backwards(query)} LIMIT 1"

    def _backwards(self, query: str) -> str:
        backwards = ", ".join(f"{quoted_name(name)} DESC" for name in self.key_names)
        return f"{query.rpartition(' ORDER BY ')[0]} ORDER BY {backwards}"

    def rows(self, keys: Sequence[Key]) -> str:
        """The query for rows by key, whether or not they meet the condition that limits the scan."""
        conditions = " OR ".join(f"({self._keys.equal(key)})" for key in keys)
        return f"SELECT {', '.join(self._selected)} FROM {self._name} WHERE {conditions}"

    def _in_order(
        self,
        columns: Sequence[str],
        cursor: Key | None,
        until: Key | None,
        wheres: Sequence[str | None],
        hint: str = "FORCE",
    ) -> str:
        conditions = [
            *([self._keys.after(cursor)] if cursor is not None else []),
            *([self._keys.not_after(until)] if until is not None else []),
            # The operator's own SQL, as the configuration promises. It comes last: the server's message about a mistake
            # quotes the text after it, which must not be a key.
            *(f"({where}{END_OF_CONDITION}" for where in wheres if where),
        ]
        # Otherwise the optimizer may choose another index, and sort the rest of the table for every chunk.
        known = self.key_names == self.table.key
        index = f" {hint} INDEX ({quoted_name(self.table.key_index)})" if known else ""
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return f"SELECT {', '.join(columns)} FROM {self._name}{index}{where} ORDER BY {self._keys.order}"

    @property
    def _name(self) -> str:
        return f"{quoted_name(self.table.schema)}.{quoted_name(self.table.name)}"

    @property
    def _keys(self) -> KeyRange:
        return KeyRange(self.name, self.key)

    @property
    def _selected(self) -> list[str]:
        return selected(self.columns, self.key_names)
