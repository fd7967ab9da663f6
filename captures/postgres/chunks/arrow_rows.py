"""Rows that arrive in Arrow: what is selected of a table, and how record batches become the rows of a chunk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

from nanoarrow.c_array import CArray, c_array_from_buffers
from nanoarrow.c_schema import CSchema
from nanoarrow.schema import struct
from psycopg import sql

from tidemark.captures.contract.chunk_rows import KEY_MARK, ColumnRows, JoinedRows, NumberKeys, PassOn
from tidemark.captures.postgres.tables.scan_target import ScanTarget
from tidemark.captures.postgres.values.arrow_forms import LITERAL, ArrowForm, ArrowValues, Code, KeyTexts, arrow_form
from tidemark.captures.rows.column_stream import ColumnStream
from tidemark.captures.tables.read_as_columns import LARGE_ROW, LargeRow, Unusual

_BETWEEN_KEYS = KEY_MARK.decode("latin-1")


@dataclass(frozen=True, slots=True)
class Selection:
    """What is selected of a table.

    Attributes:
        forms: Of the columns that documents have.
        key: Where the texts of keys come from: a place among all columns, and how.
        columns: All that is selected: texts of keys follow the columns of documents where necessary.
    """

    forms: tuple[ArrowForm, ...]
    key: tuple[tuple[int, KeyTexts], ...]
    columns: sql.Composable

    @property
    def number_key(self) -> Code | None:
        """The size of a key that is one column of integers; None for any other."""
        [(place, how), *others] = self.key
        return self.forms[place].code if how is KeyTexts.DIGITS and not others else None

    @classmethod
    def of(cls, target: ScanTarget) -> Self | None:
        """None for a table whose rows have to be read as documents."""
        forms = tuple(form for form in map(arrow_form, target.columns) if form is not None)
        if len(forms) < len(target.columns):
            return None
        selected = [(form.sql, column.name) for form, column in zip(forms, target.columns, strict=True)]
        places = {column.name: place for place, column in enumerate(target.columns)}
        key = []
        for name in target.key_names:
            how = forms[places[name]].key
            if how is KeyTexts.SELECTED:
                key.append((len(selected), KeyTexts.SAME))
                selected.append((LITERAL, name))
            else:
                key.append((places[name], how))
        columns = sql.SQL(", ").join(sql.SQL(form).format(sql.Identifier(name)) for form, name in selected)
        return cls(forms, tuple(key), columns)


class ArrowRows:
    """Gathers the rows of a chunk, a record batch at a time. See ``ColumnStream`` for ``pass_on``."""

    def __init__(self, selection: Selection, schema: CSchema, pass_on: PassOn | None) -> None:
        self._selection = selection
        self._width = len(selection.forms)
        self._all = schema.n_children == self._width
        self._schema = schema if self._all else struct([schema.child(place) for place in range(self._width)])
        self._keys: JoinedRows | NumberKeys = JoinedRows(KEY_MARK)
        if (code := selection.number_key) is not None:
            self._keys = NumberKeys(code)
        self._stream = ColumnStream(pass_on)

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def size(self) -> int:
        """Bytes in the columns so far."""
        return self._stream.size

    def take(self, array: CArray) -> None:
        """Takes a record batch. Raises Unusual; then all of the chunk's rows are to be read as documents."""
        if not array.length:
            return
        values = _values(array)
        _check_sizes(values)
        for form, of in zip(self._selection.forms, values, strict=False):
            if form.unusual is not None and form.unusual(of):
                raise Unusual("a value that documents cannot have")
        if any(array.child(place).null_count for place, _ in self._selection.key):
            raise Unusual("a key column without a value")
        self._add_keys(values)
        if not self._all:
            columns = [array.child(place) for place in range(self._width)]
            array = c_array_from_buffers(self._schema, array.length, [None], children=columns, validation_level="none")
        self._stream.write(array)

    def rows(self) -> ColumnRows:
        """All rows; no more can be taken."""
        return ColumnRows(self._keys, self._stream.end(), self._stream.passed)

    def _add_keys(self, values: Sequence[ArrowValues]) -> None:
        if isinstance(self._keys, NumberKeys):
            [(place, _)] = self._selection.key
            self._keys.add(values[place].numbers(self._keys.code))
            return
        parts = []
        for place, how in self._selection.key:
            code = self._selection.forms[place].code if how is KeyTexts.DIGITS else None
            parts.append(values[place].texts() if code is None else list(map(str, values[place].numbers(code))))
        texts = parts[0] if len(parts) == 1 else map("\0".join, zip(*parts, strict=True))
        keys = _BETWEEN_KEYS.join(texts).encode("latin-1")
        if keys.count(KEY_MARK) != values[0].count - 1:
            raise Unusual("a key holds a byte that is invalid in UTF-8")
        self._keys.add_joined(keys, values[0].count)


def _values(array: CArray) -> list[ArrowValues]:
    view = array.view()
    found = []
    for place in range(array.n_children):
        column = view.child(place)
        data = memoryview(column.buffer(column.n_buffers - 1)).cast("B")
        ends = memoryview(column.buffer(1)) if column.n_buffers == 3 else None
        found.append(ArrowValues(array.length, data, ends))
    return found


def _check_sizes(values: Sequence[ArrowValues]) -> None:
    """Raises Unusual for a row that may be larger than a captured line."""
    of_any_length = [of for of in values if of.ends is not None]
    if sum(len(of.data) for of in of_any_length) <= LARGE_ROW:
        return
    sizes = [[end - first for first, end in pairwise(of.ends or ())] for of in of_any_length]
    if max(map(sum, zip(*sizes, strict=True))) > LARGE_ROW:
        raise LargeRow("a row that is large")
