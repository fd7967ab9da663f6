"""What chunks of one table select, as SQL. Plain data, which a reader's process gets with each chunk."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tidemark.backfill.keys import Key, key_texts
from tidemark.captures.mysql.rows.chunk_decoder import selected
from tidemark.captures.mysql.tables.bindings import BoundTable
from tidemark.captures.mysql.tables.prerequisites import END_OF_CONDITION
from tidemark.captures.mysql.terms.columns import Column, Table, quoted_name
from tidemark.captures.mysql.values.types import KeyForm, key_form, text_of_key
from tidemark.protocol.errors import SourceError


@dataclass(frozen=True, slots=True)
class ScanTarget:
    """A bound table as a chunk reads it."""

    table: Table
    columns: tuple[Column, ...]
    key: tuple[Column, ...]
    where: str | None
    tinyint1_as_bool: bool

    @staticmethod
    def of(bound: BoundTable) -> ScanTarget:
        """Makes it of the table as it is bound now."""
        return ScanTarget(
            table=bound.table,
            columns=bound.captured,
            # A key is made of the texts of its columns, whether or not documents can have them.
            key=tuple(replace(column, on_bad_value="text") for column in bound.key_columns),
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
        return f"SELECT 1 FROM {self.table.in_sql} LIMIT 0"

    def scan(self, cursor: Key | None, until: Key | None, where: str | None, limit: int | None) -> str:
        """The keyset query: rows after ``cursor`` and not after ``until`` in key order."""
        query = self._in_order(self._selected, cursor, until, [self.where, where])
        return query if limit is None else f"{query} LIMIT {limit}"

    def everything(self) -> str:
        """The query for all rows that meet the condition, in the server's order."""
        condition = f" WHERE ({self.where}{END_OF_CONDITION}" if self.where else ""
        return f"SELECT {', '.join(self._selected)} FROM {self.table.in_sql}{condition}"

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
        return f"SELECT {', '.join(self._selected)} FROM {self.table.in_sql} WHERE {conditions}"

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
        return f"SELECT {', '.join(columns)} FROM {self.table.in_sql}{index}{where} ORDER BY {self._keys.order}"

    @property
    def _keys(self) -> KeyRange:
        return KeyRange(self.name, self.key)

    @property
    def _selected(self) -> list[str]:
        return selected(self.columns, self.key_names)


_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_MOMENT = re.compile(r"-?[0-9]+([-:. ][0-9]+)*")
_ADDRESS = re.compile(r"[0-9a-fA-F:.-]+")
_BITS = 64
"""The most labels of a SET: the column's number has a bit for each."""
_HEX = re.compile(r"([0-9a-f]{2})*")


class KeyRange:
    """Writes conditions on the key columns of a table.

    All methods raise SourceError ``TM-MY-024`` if texts of a key do not fit the columns' types.
    """

    def __init__(self, table: str, columns: Sequence[Column]) -> None:
        self._table = table
        self._columns = columns

    @property
    def order(self) -> str:
        """What stands after ORDER BY."""
        return ", ".join(quoted_name(column.name) for column in self._columns)

    def after(self, key: Key) -> str:
        """Rows after this key; after all that begin with it when it has fewer columns."""
        return self._beyond(key, ">", last=">")

    def not_after(self, key: Key) -> str:
        """Rows up to this key; and all that begin with it when it has fewer columns."""
        return self._beyond(key, "<", last="<=")

    def equal(self, key: Key) -> str:
        """The row with this key, or with one that is equal by the server's collation."""
        return " AND ".join(self._compared(column, "=", text) for column, text in self._parts(key))

    def _beyond(self, key: Key, operator: str, *, last: str) -> str:
        parts = self._parts(key)
        terms = []
        for place, (column, text) in enumerate(parts):
            equal = [self._compared(before, "=", of) for before, of in parts[:place]]
            at_end = place == len(parts) - 1
            terms.append(" AND ".join([*equal, self._compared(column, last if at_end else operator, text)]))
        return "(" + " OR ".join(f"({term})" for term in terms) + ")"

    def _parts(self, key: Key) -> list[tuple[Column, str]]:
        texts = key_texts(key)
        if len(texts) > len(self._columns):
            raise SourceError(
                "TM-MY-024", f"{self._table}: the key has {len(texts)} values, the table's key has fewer columns"
            )
        return list(zip(self._columns, texts, strict=False))

    def _compared(self, column: Column, operator: str, text: str) -> str:
        if column.data_type == "enum":
            return self._enum(column, operator, text)
        name = quoted_name(column.name)
        if column.data_type == "set" and len(column.labels) == _BITS:
            # The server sorts the last label's bit above all others, and compares it as the sign of a number.
            name = f"CAST({name} AS UNSIGNED)"
        return f"{name} {operator} {self._literal(column, text)}"

    def _enum(self, column: Column, operator: str, text: str) -> str:
        """Lists labels: the optimizer finds no range between two, and compares them as texts.

        It sorts the rows where one label is given by its number, so that is done for those whose text is unsure alone.
        """
        index = int(self._checked(column, text, re.compile(r"\d+")))
        if index > len(column.labels):
            raise self._wrong(column)
        wanted = {
            "=": range(index, index + 1),
            "<": range(index),
            "<=": range(index + 1),
            ">": range(index + 1, len(column.labels) + 1),
        }[operator]
        name = quoted_name(column.name)
        # A server that is not strict stores index 0 for an invalid label.
        labels = {place: column.labels[place - 1] if place else None for place in wanted}
        texts = [_text(label) for label in labels.values() if label is not None and not column.may_hide(label)]
        numbers = [str(place) for place, label in labels.items() if label is None or column.may_hide(label)]
        terms = [f"{name} IN ({', '.join(numbers)})"] if numbers else []
        if texts:
            terms.append(f"{name} IN ({', '.join(texts)})")
        return f"({' OR '.join(terms)})" if terms else "FALSE"

    def _literal(self, column: Column, text: str) -> str:
        match key_form(column):
            case KeyForm.TEXT:
                return _text(text_of_key(text))
            case KeyForm.HEX:
                return f"X'{self._checked(column, text, _HEX)}'"
            case KeyForm.CODED:
                return f"_{column.charset} X'{self._checked(column, text, _HEX)}'"
            case KeyForm.REAL:
                try:
                    value = float(text)
                except ValueError:
                    raise self._wrong(column) from None
                if not math.isfinite(value):
                    raise self._wrong(column)
                return repr(value) if "e" in repr(value) else f"{value!r}e0"
            case KeyForm.PLAIN if column.data_type in ("uuid", "inet4", "inet6"):
                return f"'{self._checked(column, text, _ADDRESS)}'"
            case KeyForm.PLAIN if column.data_type == "time":
                return f"TIME'{self._checked(column, text, _MOMENT)}'"
            case KeyForm.PLAIN if column.data_type in ("date", "datetime", "timestamp"):
                return f"'{self._checked(column, text, _MOMENT)}'"
            case KeyForm.PLAIN | KeyForm.NUMBER:
                return self._checked(column, text, _NUMBER)
            case None:
                raise self._wrong(column)

    def _checked(self, column: Column, text: str, form: re.Pattern[str]) -> str:
        # Texts come from the state and from operators: only valid ones may get into a statement.
        if form.fullmatch(text) is None:
            raise self._wrong(column)
        return text

    def _wrong(self, column: Column) -> SourceError:
        return SourceError(
            "TM-MY-024", f"{self._table}: a value of the key does not fit column {column.name}, {column.data_type}"
        )


def _text(text: str) -> str:
    """A literal that does not depend on the server's settings."""
    return f"_utf8mb4 X'{text.encode().hex()}'"
