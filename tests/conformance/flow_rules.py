"""What Flow's runtime makes of a collection, as its sources have it: schemas built strictly, formats enforced on every
document, keys of scalars, documents of one key reduced to one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import date, datetime
from typing import Any
from uuid import uuid4

from jsonschema import Draft202012Validator, FormatChecker

Json = Any

_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][-+]?\d+)?|NaN|-?Infinity")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_DATE_TIME = re.compile(r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[-+]\d{2}:\d{2})")

FORMATS = FormatChecker(formats=())
"""Those that documents of ours announce. Whatever is no string is no matter of a format's."""


@FORMATS.checks("date", raises=ValueError)
def _is_date(value: object) -> bool:
    return not isinstance(value, str) or bool(_DATE.fullmatch(value) and date.fromisoformat(value))


@FORMATS.checks("date-time", raises=ValueError)
def _is_date_time(value: object) -> bool:
    return not isinstance(value, str) or bool(_DATE_TIME.fullmatch(value) and datetime.fromisoformat(value))


@FORMATS.checks("number")
def _is_number(value: object) -> bool:
    return not isinstance(value, str) or _NUMBER.fullmatch(value) is not None


_SUBSCHEMAS = {"items", "additionalProperties", "if", "then", "else", "not", "contains", "propertyNames"}
_NAMED = {"properties", "$defs", "patternProperties"}
_LISTED = {"allOf", "anyOf", "oneOf", "prefixItems"}
_OTHERS = {
    "$schema", "$ref", "$anchor", "$id", "type", "enum", "const", "required", "title", "description", "default",
    "examples", "deprecated", "readOnly", "writeOnly", "contentEncoding", "contentMediaType", "format", "pattern",
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "minItems",
    "maxItems", "uniqueItems", "minProperties", "maxProperties",
    "reduce", "redact", "secret", "airbyte_secret", "multiline", "advanced", "order", "discriminator",
}  # fmt: skip


def build(schema: Json) -> Draft202012Validator:
    """A schema as it is built there. Asserts that each keyword, and each format, is one that is known."""
    _check(schema, "")
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema, format_checker=FORMATS)


def _check(schema: Json, where: str) -> None:
    if isinstance(schema, bool):
        return
    for keyword, part in schema.items():
        at = f"{where}/{keyword}"
        if keyword in _SUBSCHEMAS:
            _check(part, at)
        elif keyword in _NAMED:
            for name, member in part.items():
                _check(member, f"{at}/{name}")
        elif keyword in _LISTED:
            for place, member in enumerate(part):
                _check(member, f"{at}/{place}")
        else:
            assert keyword in _OTHERS or keyword.startswith("x-"), at
        if keyword == "format":
            assert part in FORMATS.checkers, f"{at} is {part}"


def check_key(schema: Json, key: Sequence[str]) -> None:
    """Asserts that each part of a key is there in every document, and is a scalar."""
    assert key
    for pointer in key:
        part = schema
        for step in steps(pointer):
            if "prefixItems" in part:
                assert part["minItems"] > int(step), pointer
                part = part["prefixItems"][int(step)]
            else:
                assert step in part["required"], f"{pointer}: {step} need not be there"
                part = part["properties"][step]
        assert part["type"] in ("integer", "string", "boolean"), f"{pointer} is {part}"


def steps(pointer: str) -> list[str]:
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]


def key_of(document: Json, key: Sequence[str]) -> tuple[Any, ...]:
    """The key of a document, which it must have."""
    found = []
    for pointer in key:
        value = document
        for step in steps(pointer):
            value = value[int(step) if isinstance(value, list) else step]
        assert isinstance(value, str | int), pointer
        found.append(value)
    return tuple(found)


def stamped(document: Json) -> Json:
    """The document with what the runtime writes into it."""
    return {**document, "_meta": {"uuid": str(uuid4()), **document["_meta"]}}


def reduced(documents: Iterable[Json], schema: Json, key: Sequence[str]) -> dict[tuple[Any, ...], Json]:
    """What stays of documents, by their keys, as the schema's ``reduce`` annotations say."""
    assert "reduce" not in schema, "of several at one location the last one that it meets counts there"
    deleted = Draft202012Validator(schema["if"])
    kept: dict[tuple[Any, ...], Json] = {}
    for document in documents:
        how = schema["then" if deleted.is_valid(document) else "else"]["reduce"]
        assert how["strategy"] == "merge"
        at = key_of(document, key)
        if how.get("delete"):
            kept.pop(at, None)
        else:
            kept[at] = {**kept.get(at, {}), **document}
    return kept
