"""What in a connector's configuration does not fit the schema that the connector gives for it.

Only what a person gets wrong in a file, and what has a place: unknown and missing entries, a value of another type, not
one of a list, outside of limits. The rest the connector says itself. A value is never named: it may be a secret.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from typing import Any

from protocol.nearest_names import near

Place = tuple[str | int, ...]

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
    "null": (type(None),),
}

_LIMITS: tuple[tuple[str, Callable[[float, float], bool], str], ...] = (
    ("minimum", operator.lt, "at least"),
    ("maximum", operator.gt, "at most"),
    ("exclusiveMinimum", operator.le, "more than"),
    ("exclusiveMaximum", operator.ge, "less than"),
)
"""Of numbers: the schema's word, what breaks it, and ours."""


def mistakes(schema: object, config: object, root: dict[str, Any] | None = None) -> list[tuple[Place, str]]:
    """Each mistake with its place below the configuration.

    Args:
        root: The document in which the schema stands, where it is a part: its references are resolved there.
    """
    if root is None:
        root = schema if isinstance(schema, dict) else {}
    return list(_mistakes(root, schema, config, ()))


def resolved(root: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with what its reference within ``root`` stands for; itself without one."""
    reference = schema.get("$ref")
    if not isinstance(reference, str):
        return schema
    return {**_referred(root, reference), **{name: part for name, part in schema.items() if name != "$ref"}}


def _mistakes(root: dict[str, Any], schema: object, value: object, place: Place) -> Iterator[tuple[Place, str]]:
    if not isinstance(schema, dict):
        return
    schema = resolved(root, schema)
    if isinstance(choices := schema.get("anyOf") or schema.get("oneOf"), list):
        found = [list(_mistakes(root, choice, value, place)) for choice in choices]
        if all(found):
            # That of the choice which is meant: the one that goes deepest into the value.
            yield from max(found, key=lambda several: max(len(where) for where, _ in several))
        return
    if not _is_of_type(schema.get("type"), value):
        types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        yield place, f"must be of type {' or '.join(map(str, types))}"
        return
    if isinstance(allowed := schema.get("enum"), list) and _folded(value) not in map(_folded, allowed):
        yield place, f"must be one of {', '.join(map(str, allowed))}"
    if isinstance(value, dict):
        yield from _of_mapping(root, schema, value, place)
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from _mistakes(root, schema.get("items"), part, (*place, index))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _of_number(schema, value, place)
    elif isinstance(value, str) and isinstance(pattern := schema.get("pattern"), str) and not _fits(pattern, value):
        yield place, f"must match the pattern {pattern}"


def _of_mapping(
    root: dict[str, Any], schema: dict[str, Any], value: dict[str, object], place: Place
) -> Iterator[tuple[Place, str]]:
    known = schema.get("properties")
    known = known if isinstance(known, dict) else {}
    others = schema.get("additionalProperties")
    for name, part in value.items():
        if name not in known and others is False:
            yield (*place, name), f"unknown key{near(str(name), list(known))}"
        else:
            yield from _mistakes(root, known.get(name, others), part, (*place, name))
    for name in schema.get("required", []):
        if name not in value:
            yield (*place, name), "missing"


def _of_number(schema: dict[str, Any], value: float, place: Place) -> Iterator[tuple[Place, str]]:
    for limit, breaks, words in _LIMITS:
        bound = schema.get(limit)
        if isinstance(bound, int | float) and breaks(value, bound):
            yield place, f"must be {words} {bound}"


def _is_of_type(types: object, value: object) -> bool:
    if not isinstance(types, str | list):
        return True
    names = [types] if isinstance(types, str) else types
    # What comes from a variable is text, and connectors read numbers of it. 5.0 is an integer in JSON.
    if isinstance(value, str) and not {"array", "object", "null"}.issuperset(names):
        return not {"integer", "number", "null"}.issuperset(names) or _is_number(value)
    if isinstance(value, bool):
        return "boolean" in names
    if isinstance(value, float) and value.is_integer() and "integer" in names:
        return True
    return any(isinstance(value, _TYPES.get(name, (object,))) for name in names)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _folded(value: object) -> object:
    """Connectors may take words in capitals or not."""
    return value.casefold() if isinstance(value, str) else value


def _fits(pattern: str, value: str) -> bool:
    try:
        return re.search(pattern, value) is not None
    except re.error:  # One of another dialect: the connector judges it.
        return True


def _referred(root: dict[str, Any], reference: str) -> dict[str, Any]:
    """What a reference within the schema stands for; nothing for any other."""
    found: Any = root
    for part in reference.removeprefix("#/").split("/"):
        found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
    return found if reference.startswith("#/") and isinstance(found, dict) else {}
