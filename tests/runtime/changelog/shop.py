"""A table and its documents, for the tests of the change log's writer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from tests.runtime.logged_events import events
from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.store import Store
from tidemark.protocol.store.local import DirectoryStore

ORDERS = "public/orders"

ORDER_SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["id"],
    "properties": {
        "_meta": {"type": "object"},
        "id": {"type": "integer"},
        "note": {"type": ["string", "null"], "description": "what the customer said"},
        "total": {"type": ["string", "null"], "format": "number", "x-precision": 12, "x-scale": 2},
    },
}


def order(id: int, op: str = "c", **members: Any) -> bytes:
    """A document of ``ORDER_SCHEMA``."""
    return document(op, id=id, **members)


def document(op: str = "c", source: dict[str, Any] | None = None, **members: Any) -> bytes:
    return orjson.dumps({"_meta": {"op": op, "source": source or {}}, **members})


def closed(**properties: Any) -> dict[str, Any]:
    """A closed schema with these properties."""
    return {"type": "object", "additionalProperties": False, "properties": {"_meta": {}, **properties}}


def stored(log: Store | Path, collection: str = ORDERS) -> list[dict[str, Any]]:
    """All that a log holds of a collection."""
    return list(events(ChangeLog(log), collection))


def data_files(log: Store | Path) -> set[str]:
    store = log if isinstance(log, Store) else DirectoryStore(log)
    return {entry.path for entry in store.list("data")}


def named_files(log: Store | Path) -> set[str]:
    """The segments that commits name."""
    return {segment.path for commit in ChangeLog(log).commits() for segment in commit.segments}


def chunks(items: list[bytes], size: int) -> Iterator[list[bytes]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
