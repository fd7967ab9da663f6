"""Compares a connector's configuration with the connector's own JSON Schema.

It reports usual mistakes in a file: unknown and missing entries, and values of a wrong type, outside of a list, or
outside of limits. The connector itself reports the others. Messages never have a value, because it may be a secret.

The library jsonschema is not used for it: its import takes 0.3 s of each start of the command, this module's 0.02 s. It
would also walk no more than the schema: texts from variables count as numbers here, words match in any case, and a
pattern of another dialect is passed over, so the rules of types, limits, enums and patterns would be ours all the same.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from typing import Any

from tidemark.protocol.text.nearest_names import near
from tidemark.protocol.text.pointers import member

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
"""Limits of numbers: the schema's keyword, the comparison that violates it, and the words for it."""


def resolved(root: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with its reference within ``root`` resolved."""
    reference = schema.get("$ref")
    if not isinstance(reference, str):
        return schema
    return {**_referred(root, reference), **{name: part for name, part in schema.items() if name != "$ref"}}


def mistakes(
    schema: object, value: object, root: dict[str, Any] | None = None, place: Place = ()
) -> Iterator[tuple[Place, str]]:
    """Each mistake with its place below the configuration.

    Args:
        value: The configuration, or the part of it at ``place``.
        root: The document in which references are resolved, if the schema is a part of it.
    """
    if not isinstance(schema, dict):
        return
    root = schema if root is None else root
    schema = resolved(root, schema)
    if isinstance(choices := schema.get("anyOf") or schema.get("oneOf"), list):
        found = [list(mistakes(choice, value, root, place)) for choice in choices]
        if all(found):
            # The mistakes of the choice that was probably meant: they lie deepest in the value.
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
            yield from mistakes(schema.get("items"), part, root, (*place, index))
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
            yield from mistakes(known.get(name, others), part, root, (*place, name))
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
    # Values from variables are text, and connectors read numbers from it. 5.0 is an integer in JSON.
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
    """Folds case: connectors may accept words in any case."""
    return value.casefold() if isinstance(value, str) else value


def _fits(pattern: str, value: str) -> bool:
    try:
        return re.search(pattern, value) is not None
    except re.error:  # A pattern of another dialect: the connector itself checks it.
        return True


def _referred(root: dict[str, Any], reference: str) -> dict[str, Any]:
    """The target of a reference within the schema; empty for any other reference."""
    found: Any = root
    for part in reference.removeprefix("#/").split("/"):
        found = found.get(member(part)) if isinstance(found, dict) else None
    return found if reference.startswith("#/") and isinstance(found, dict) else {}
