"""The rows that benchmarks of a change log write: a number and a note."""

from __future__ import annotations

import orjson

SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["id"],
    "properties": {"_meta": {}, "id": {"type": "integer"}, "note": {"type": ["string", "null"]}},
}


def documents(first: int, count: int) -> list[bytes]:
    """Documents of ``SCHEMA`` with ascending numbers, all of them updates."""
    return [
        orjson.dumps({"_meta": {"op": "u", "source": {}}, "id": id, "note": f"row {id}"})
        for id in range(first, first + count)
    ]
