"""Conditions on a table's key, in SQL that the optimizer turns into a range of the key's index.

The server compares, by the column's own collation: a key's texts are the ones that it printed, and are given back as
literals of the column's type. Row comparisons ``(a, b) > (x, y)`` would scan the whole index, so they are written out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from tidemark.backfill.keys import Key, key_texts
from tidemark.captures.mysql.terms.columns import Column
from tidemark.captures.mysql.terms.quoting import quoted_name
from tidemark.captures.mysql.values.types import KeyForm, key_form, text_of_key
from tidemark.protocol.errors import SourceError

_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_MOMENT = re.compile(r"-?[0-9]+([-:. ][0-9]+)*")
_ADDRESS = re.compile(r"[0-9a-fA-F:.-]+")
_BITS = 64
"""The most labels of a SET: the column's number has a bit for each."""
_HEX = re.compile(r"([0-9a-f]{2})*")


class KeyRange:
    """Writes conditions on the key columns of a table.

    All methods raise SourceError ``TM-MY-024`` if texts of a key do not fit the columns' types.

    Args:
        table: ``schema.table``, for errors.
        columns: Of the key, in order.
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
