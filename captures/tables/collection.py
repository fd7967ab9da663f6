"""A table as a collection of documents, by the rules of Flow's runtime: an open schema, a key of scalars.

That runtime adds members of its own to each document (``/_meta/uuid``) and then validates it against the discovered
schema, even after a column was added. So the discovered schema is open. The closed schema of a ``sourcedSchema``
defines exactly what documents have at present.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidemark.protocol.errors import ConnectorError
from tidemark.protocol.messages import COMPLETE, KEY_COLUMNS, Binding, DiscoveredBinding, JsonObject
from tidemark.protocol.text.pointers import pointer

_DELETED: JsonObject = {
    "required": ["_meta"],
    "properties": {"_meta": {"required": ["op"], "properties": {"op": {"const": "d"}}}},
}

_KEY_TYPES = ("integer", "string", "boolean")


def discovered(
    *,
    path: tuple[str, str],
    closed_schema: JsonObject,
    key: Sequence[str],
    fallback: Sequence[str],
    key_is_fallback: bool,
    disable: bool,
) -> DiscoveredBinding:
    """The discovered binding of a table.

    Args:
        path: Schema and name.
        closed_schema: The closed schema of its documents.
        key: Names of the columns that identify its rows; none if no columns do.
        fallback: Pointers to members that always identify documents: the collection's key if ``key`` cannot be.
        key_is_fallback: Whether ``key`` is another one than the primary key.
        disable: Whether the table is captured only if it is configured.
    """
    properties = closed_schema["properties"]
    usable = bool(key) and all(properties[name].get("type") in _KEY_TYPES for name in key)
    return DiscoveredBinding(
        recommended_name="/".join(path),
        resource_config={"schema": path[0], "table": path[1]},
        document_schema=open_schema(closed_schema, () if usable else key),
        key=[pointer(name) for name in key] if usable else list(fallback),
        disable=disable,
        resource_path=list(path),
        is_fallback_key=not usable or key_is_fallback,
    )


def open_schema(closed_schema: JsonObject, key_columns: Sequence[str] = ()) -> JsonObject:
    """The open schema for a closed one, with annotations that define how documents of one key are reduced.

    A document is merged into the one before it, because unchanged columns may be absent. A document with op d removes
    it.

    Args:
        key_columns: Columns that identify rows, if they are not the collection's key.
    """
    opened = {name: part for name, part in _opened(closed_schema).items() if name not in (COMPLETE, KEY_COLUMNS)}
    opened["x-infer-schema"] = True
    if key_columns:
        opened[KEY_COLUMNS] = list(key_columns)
    opened["if"] = _DELETED
    opened["then"] = {"reduce": {"strategy": "merge", "delete": True}}
    opened["else"] = {"reduce": {"strategy": "merge"}}
    return opened


def check_keys(bindings: Iterable[Binding], fallback: Sequence[str]) -> None:
    """Refuses collections with a fallback key of earlier versions.

    Raises:
        ConnectorError: ``TM-CAP-012`` a collection has such a key.
    """
    place = fallback[0].rpartition("/")[0] if len(fallback) > 1 else fallback[0]
    for binding in bindings:
        key = binding.collection.key
        if key != list(fallback) and any(part == place or part.startswith(f"{place}/") for part in key):
            raise ConnectorError(
                "TM-CAP-012",
                f"the collection {binding.collection.name} has the key {', '.join(key)}, which does not identify its "
                f"documents; the key must be {', '.join(fallback)}",
            )


def check_state_keys(bindings: Iterable[Binding]) -> None:
    """Refuses bindings with the same state key, which would overwrite each other's state.

    Raises:
        ConnectorError: ``TM-CAP-013`` two bindings have the same state key.
    """
    tables: dict[str, list[str]] = {}
    for binding in bindings:
        tables.setdefault(binding.state_key, []).append(".".join(binding.resource_path))
    for state_key, sharing in tables.items():
        if len(sharing) > 1:
            raise ConnectorError(
                "TM-CAP-013", f"{' and '.join(sharing)} are bound with the same state key {state_key!r}"
            )


def _opened(schema: JsonObject) -> JsonObject:
    """A schema of this connector, opened in all of its parts."""
    opened: JsonObject = {}
    for keyword, part in schema.items():
        match keyword, part:
            case "additionalProperties", False:
                pass
            case "properties", _:
                opened[keyword] = {name: _opened(member) for name, member in part.items()}
            case "items" | "additionalProperties", _:
                opened[keyword] = _opened(part)
            case _:
                opened[keyword] = part
    return opened
