"""A table and its documents, for the tests of the change log's writer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from tests.runtime.logged_events import events
from tidemark.protocol.changelog import ChangeLog

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


def stored(root: Path, collection: str = ORDERS) -> list[dict[str, Any]]:
    """All that a log holds of a collection."""
    return list(events(ChangeLog(root), collection))


def data_files(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in (root / "data").rglob("*") if path.is_file()}


def named_files(root: Path) -> set[str]:
    """The segments that commits name."""
    return {segment.path for commit in ChangeLog(root).commits() for segment in commit.segments}


def chunks(items: list[bytes], size: int) -> Iterator[list[bytes]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
