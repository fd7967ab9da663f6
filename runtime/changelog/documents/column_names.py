"""The names under which a collection's columns are stored: each is chosen once, and kept.

Spark and many Parquet readers ignore case, and some characters cannot be in a name of theirs. A name that cannot be
kept is stored as another one, and its column says what the source calls it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tidemark.protocol.changelog.columns.evolution import widens
from tidemark.protocol.changelog.columns.table_schema import WHOLE_DOCUMENT
from tidemark.protocol.changelog.models import DOCUMENT_COLUMN, META_COLUMNS, Column, TableSchema

_RESERVED = frozenset({*META_COLUMNS, DOCUMENT_COLUMN, "_meta"})
_UNUSABLE = re.compile(r'["\\\x00-\x1f]')


class ColumnNames:
    """Names of one collection's columns.

    Args:
        schemas: All of the collection that the log has, from the oldest to the newest.
    """

    def __init__(self, schemas: Iterable[TableSchema]) -> None:
        self._names: dict[str, str] = {}
        """By the name in the source."""
        self._spanning: dict[str, Column] = {}
        """By the column's name: the newest column of it."""
        self._taken = set(_RESERVED)
        for schema in schemas:
            self._remember(schema.columns)

    def stored(self, schema: TableSchema) -> TableSchema:
        """A schema whose columns have the names of the source, with the names that are stored."""
        documents = [column for column in schema.columns if column == WHOLE_DOCUMENT]
        columns = [*self._columns(schema.columns[: len(schema.columns) - len(documents)]), *documents]
        key = [self._names.get(name, name) for name in schema.key]
        return schema.model_copy(update={"columns": columns, "key": key})

    def widened(self, schema: TableSchema, names: Sequence[str]) -> TableSchema:
        """A stored schema with more columns, of JSON text, which the source calls by these names."""
        more = self._columns([Column(name=name, type="string", json_text=True) for name in names])
        return schema.model_copy(update={"columns": [*schema.columns, *more]})

    def _columns(self, columns: Sequence[Column]) -> list[Column]:
        stored = []
        for column in columns:
            name = self._names.get(column.name) or self._free(_UNUSABLE.sub("_", column.name) or "_")
            self._take(column.name, name)
            source = column.name if column.name != name else None
            spanning = self._spanning_name(name, column.type)
            named = column
            if (name, source, spanning) != (column.name, column.source, column.spanning):
                named = column.model_copy(update={"name": name, "source": source, "spanning": spanning})
            self._remember([named])
            stored.append(named)
        return stored

    def _spanning_name(self, name: str, type_: str) -> str | None:
        """Where events of several generations are read together: another name if older values cannot be of the type."""
        before = self._spanning.get(name)
        if before is None or widens(before.type, type_):
            return before.spanning if before is not None else None
        return self._free(name)

    def _free(self, name: str) -> str:
        """The name, with a number where it is taken."""
        found, number = name, 1
        while found.casefold() in self._taken:
            number += 1
            found = f"{name}__{number}"
        return found

    def _remember(self, columns: Iterable[Column]) -> None:
        for column in columns:
            if column.name == DOCUMENT_COLUMN:
                continue
            self._take(column.in_source, column.name)
            self._taken.add(column.in_span.casefold())
            self._spanning[column.name] = column

    def _take(self, source: str, name: str) -> None:
        self._names[source] = name
        self._taken.add(name.casefold())
