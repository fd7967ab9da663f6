"""A table as a collection of documents, by the rules of Flow's runtime: an open schema, a key of scalars.

That runtime writes members of its own into each document (``/_meta/uuid``) and then holds it against the discovered
schema, also after a column was added: so that schema is open. What a table's documents have at the moment, and nothing
else, says the closed schema of a ``sourcedSchema``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from protocol.errors import ConnectorError
from protocol.messages import COMPLETE, KEY_COLUMNS, Binding, DiscoveredBinding, JsonObject

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
    """A table as it is discovered.

    Args:
        path: Schema and name.
        closed_schema: Of its documents.
        key: Names of the columns that tell its rows apart; none where nothing does.
        fallback: Pointers to what tells its documents apart in any case: the key where ``key`` can be none.
        key_is_fallback: It is not the primary key.
        disable: It is not captured unless somebody says how.
    """
    properties = closed_schema["properties"]
    usable = bool(key) and all(_can_be_key(properties[name]) for name in key)
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
    """The open schema to a closed one, with what a runtime does with documents of one key.

    A document is laid over the one before it, since columns that did not change may be left out; one with op d removes
    it.

    Args:
        key_columns: Columns that tell rows apart, where they are not the collection's key.
    """
    opened = {name: part for name, part in _opened(closed_schema).items() if name != COMPLETE}
    opened["x-infer-schema"] = True
    if key_columns:
        opened[KEY_COLUMNS] = list(key_columns)
    opened["if"] = _DELETED
    opened["then"] = {"reduce": {"strategy": "merge", "delete": True}}
    opened["else"] = {"reduce": {"strategy": "merge"}}
    return opened


def pointer(name: str) -> str:
    """The JSON pointer (RFC 6901) to a member of the document."""
    return "/" + name.replace("~", "~0").replace("/", "~1")


def check_keys(bindings: Iterable[Binding], fallback: Sequence[str]) -> None:
    """Refuses collections that were made with a fallback key of earlier versions.

    Raises:
        ConnectorError: ``TM-CAP-012``.
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
    """Refuses bindings that would overwrite each other's state.

    Raises:
        ConnectorError: ``TM-CAP-013``.
    """
    tables: dict[str, list[str]] = {}
    for binding in bindings:
        tables.setdefault(binding.state_key, []).append(".".join(binding.resource_path))
    for state_key, sharing in tables.items():
        if len(sharing) > 1:
            raise ConnectorError(
                "TM-CAP-013", f"{' and '.join(sharing)} are bound with the same state key {state_key!r}"
            )


def _can_be_key(schema: JsonObject) -> bool:
    return schema.get("type") in _KEY_TYPES


def _opened(schema: JsonObject) -> JsonObject:
    """A schema of ours without what closes it, in all of its parts."""
    opened: JsonObject = {}
    for keyword, part in schema.items():
        if keyword == "additionalProperties" and part is False:
            continue
        opened[keyword] = _opened_part(keyword, part)
    return opened


def _opened_part(keyword: str, part: Any) -> Any:
    match keyword:
        case "properties":
            return {name: _opened(member) for name, member in part.items()}
        case "items" | "additionalProperties":
            return _opened(part)
        case _:
            return part
