"""What a log knows of the columns of its tables, and rows by it: names change, identities stay, constants fill."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tidemark.protocol.messages import COLUMN_FILL, COLUMN_ID

Json = dict[str, Any]


class LoggedColumns:
    """Of one table, by its schemas in the order in which they came.

    Attributes:
        identities: Of the columns of the newest schema, by name.
        fills: By identity, what rows have from before there was the column.
    """

    def __init__(self) -> None:
        self.identities: dict[str, str] = {}
        self.fills: dict[str, Any] = {}
        self._known: set[str] = set()

    def take(self, schema: Json) -> None:
        """A schema came."""
        columns = {name: part for name, part in schema["properties"].items() if name != "_meta"}
        self.identities = {name: part.get(COLUMN_ID, name) for name, part in columns.items()}
        for name, part in columns.items():
            identity = self.identities[name]
            if identity not in self._known and COLUMN_FILL in part:
                self.fills[identity] = part[COLUMN_FILL]
            self._known.add(identity)

    def empty(self) -> None:
        """The table is read anew."""
        self.fills.clear()
        self._known = set(self.identities.values())

    def shown(self, values: Mapping[str, Any]) -> Json:
        """A row by its columns' identities, as the newest schema calls them. Columns that it does not have are gone."""
        values = {**self.fills, **values}
        return {name: values[identity] for name, identity in self.identities.items() if identity in values}


class Document(Json):
    """A document with what the log knew when it came.

    Attributes:
        log: Of its table.
        identities: Of the columns of its schema, by name.
    """

    def __init__(self, members: Json, log: LoggedColumns) -> None:
        super().__init__(members)
        self.log = log
        self.identities = log.identities


class State(Json):
    """The state of a connector, beside which a runtime has the log.

    Attributes:
        logs: What it knows of the tables' columns, by binding.
    """

    def __init__(self, members: Json, logs: dict[int, LoggedColumns]) -> None:
        super().__init__(members)
        self.logs = logs


class Replayed:
    """The rows of a table, as any consumer of the protocol would keep them.

    Args:
        key: The names of the key's columns.
    """

    def __init__(self, key: Sequence[str]) -> None:
        self._key = key
        self._rows: dict[tuple[Any, ...], Json] = {}  # Values by the columns' identities.
        self._log: LoggedColumns | None = None

    def take(self, document: Json) -> None:
        """The next document."""
        meta = document["_meta"]
        if isinstance(document, Document):
            self._log = document.log
        if meta["op"] == "t":
            self._rows.clear()
            return
        key = tuple(document[name] for name in self._key)
        if meta["op"] == "d":
            self._rows.pop(key, None)
            return
        identities = document.identities if isinstance(document, Document) else {}
        row = identified(document)
        old = self._rows.get(key, {})
        fills = {} if self._log is None else self._log.fills
        for name in meta.get("unchanged", ()):
            identity = identities.get(name, name)
            row[identity] = old.get(identity, fills.get(identity, "<missing>"))
        self._rows[key] = row

    def rows(self, *, whole: bool = False) -> dict[tuple[Any, ...], Json]:
        """All rows by their keys, as the newest schema calls their columns.

        Args:
            whole: With null in the columns that no document of a row had.
        """
        if self._log is None:
            return {key: dict(row) for key, row in self._rows.items()}
        nulls = dict.fromkeys(self._log.identities) if whole else {}
        return {key: {**nulls, **self._log.shown(row)} for key, row in self._rows.items()}


def identified(document: Json, values: Json | None = None) -> Json:
    """The columns of a document, or of its old row, by their identities; by their names where no schema came."""
    identities = document.identities if isinstance(document, Document) else {}
    found = document if values is None else values
    return {identities.get(name, name): value for name, value in found.items() if name != "_meta"}


def shown(document: Json) -> Json:
    """The columns of a document as the newest schema calls them."""
    row = identified(document)
    return document.log.shown(row) if isinstance(document, Document) else row
