"""Compares the options of the capture file's ``tables`` with the connector's resource schema."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tidemark.protocol.capture_file import TableEntry
from tidemark.protocol.messages import SpecResponse
from tidemark.protocol.text.nearest_names import near
from tidemark.runtime.preparation.config_check import Place, mistakes, resolved

_OURS = tuple(TableEntry.model_fields)
"""The options of every connector. A name that resembles one of these is never an option of the connector's own."""


def option_mistakes(spec: SpecResponse, entries: Sequence[TableEntry]) -> Iterator[tuple[Place, str]]:
    """Each option that the connector does not take, with its place in the capture file.

    A resource schema accepts any option if it names no properties, or by ``additionalProperties``.
    """
    offered = taken_options(spec)
    schema = spec.resource_config_schema
    closed = offered is not None and resolved(schema, schema).get("additionalProperties") in (None, False)
    for index, entry in enumerate(entries):
        for name, value in entry.given.items():
            place = ("tables", index, name)
            if offered is not None and name in offered:
                yield from (((*place, *inner), text) for inner, text in mistakes(offered[name], value, root=schema))
            elif name in _OURS:
                if closed:
                    yield place, "the connector has no such option"
            elif hint := near(name, sorted({*_OURS, *(offered or ())})):
                yield place, f"unknown key{hint}"
            elif closed:
                yield place, "unknown key"


def taken_options(spec: SpecResponse) -> dict[str, Any] | None:
    """The connector's options for a table, each with its schema; None if it names none.

    The members that identify the table are no options: they come from the connector itself.
    """
    properties = resolved(spec.resource_config_schema, spec.resource_config_schema).get("properties")
    if not isinstance(properties, dict):
        return None
    identity = {pointer.removeprefix("/").split("/")[0] for pointer in spec.resource_path_pointers}
    return {name: schema for name, schema in properties.items() if name not in identity}
