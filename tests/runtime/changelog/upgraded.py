"""A writer of today that goes on with the log of version 2, table by table, as a session does."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import orjson

from tests.protocol.version_2 import ITEMS, ORDERS
from tests.runtime.changelog.shop import closed
from tidemark.protocol.changelog.models import Commit
from tidemark.protocol.messages import COMPLETE, KEY_COLUMNS, Binding, Collection, JsonObject
from tidemark.runtime.changelog.writer import LogWriter
from tidemark.runtime.preparation.selection import SelectedTable
from tidemark.runtime.sessions.bound_table import BoundTable

_ID = {"type": "integer"}
_TEXT = {"type": ["string", "null"]}
_NUMBER = {"type": ["string", "null"], "format": "number", "x-precision": 12, "x-scale": 2}
_SCHEMAS: dict[str, dict[str, Any]] = {
    ORDERS: {"id": _ID, "note": _TEXT, "total": _NUMBER, "paid": {"type": ["boolean", "null"]}},
    ITEMS: {"id": _ID, "name": _TEXT},
}
"""As the tables are at the log's end."""


class Upgraded:
    """A context manager.

    Args:
        root: Of the log.
    """

    def __init__(self, root: Path) -> None:
        self.writer = LogWriter.open(root, "shop")
        self._tables = {name: BoundTable(_selected(name), self.writer) for name in _SCHEMAS}
        for name, properties in _SCHEMAS.items():
            self._tables[name].learn(_announced(properties))
        self._batch = self.writer.begin()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.writer.close()

    def add(self, table: str, op: str = "c", **values: Any) -> None:
        document = orjson.dumps({"_meta": {"op": op}, **values})
        self._batch.add(self._tables[table].handle(self._batch), [document])

    def change(self, table: str, **properties: Any) -> None:
        """Columns of a table are others from now on."""
        self._tables[table].learn(_announced({**_SCHEMAS[table], **properties}))

    def begin(self, table: str) -> None:
        """The table is read again from the start."""
        if self._tables[table].begin(self._batch):
            self.add(table, "t")

    def complete(self, table: str) -> None:
        """It was read to its end."""
        self._tables[table].complete(self._batch)

    def commit(self) -> Commit:
        commit = self.writer.commit(self._batch, self.writer.state, 1)
        self._batch = self.writer.begin()
        return commit


def _announced(properties: JsonObject) -> JsonObject:
    return {**closed(**properties), "required": ["id"], COMPLETE: True, KEY_COLUMNS: ["id"]}


def _selected(table: str) -> SelectedTable:
    collection = Collection(name=table, key=["/id"], write_schema=_announced(_SCHEMAS[table]))
    return SelectedTable(table.replace("/", "."), Binding(collection=collection), key=("id",))
