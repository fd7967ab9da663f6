"""From a collection's JSON Schema to the columns of its segments.

Only a closed schema defines the columns. Unions, patterns and conditions, which our own connectors do not use, are not
interpreted: such a property becomes JSON text, and such a document one ``_doc`` column.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence
from typing import Any
from urllib.parse import unquote

from tidemark.protocol.changelog.models import DOCUMENT_COLUMN, Column, TableSchema
from tidemark.protocol.messages import COLUMN_FILL, COLUMN_ID
from tidemark.protocol.text.pointers import member

logger = logging.getLogger(__name__)

Schema = dict[str, Any]

_META = "_meta"
UNCLEAR = frozenset({"anyOf", "oneOf", "patternProperties", "dependentSchemas"})
"""Keywords that allow properties of a document that ``properties`` does not list."""

_CONDITIONAL = ("then", "else")
"""Further such keywords, unless they only define how Flow reduces documents."""

_DEEPEST = 16
"""The most nested references that are followed: beyond it a schema counts as endless."""


WHOLE_DOCUMENT = Column(
    name=DOCUMENT_COLUMN, type="string", nullable=False, json_text=True, description="As the connector sent it."
)
"""The column of a collection whose schema does not define the columns."""


class UnclearSchema(Exception):
    """The schema does not define the columns."""


def table_schema(
    collection: str, document_schema: Schema | None, key: Sequence[str] = (), text: Collection[str] = ()
) -> TableSchema:
    """The columns of a collection.

    Args:
        collection: Its name.
        document_schema: The JSON Schema of its documents; None without one.
        key: Names of the key's columns.
        text: Columns to keep as text, whatever their type.

    Returns:
        Typed columns, by their names in the source, if the schema is closed (``additionalProperties`` or
        ``unevaluatedProperties`` false), otherwise those of the key, and ``_doc``.
    """
    try:
        properties = _properties(document_schema)
    except UnclearSchema as error:
        logger.info("%s: documents are kept whole in the column %s: %s", collection, DOCUMENT_COLUMN, error)
        return _documents(collection, document_schema or {}, key, text)
    properties.pop(_META, None)
    if strange := sorted(set(text) - set(properties)):
        logger.warning("%s has no column %s to keep as text", collection, ", ".join(map(repr, strange)))
    columns = [_column(name, part, document_schema or {}, name in text) for name, part in properties.items()]
    return TableSchema(collection=collection, columns=columns, key=list(key))


def is_untyped(schema: TableSchema) -> bool:
    """Whether the segments hold whole documents."""
    return any(column.name == DOCUMENT_COLUMN for column in schema.columns)


def _documents(collection: str, schema: Schema, key: Sequence[str], text: Collection[str]) -> TableSchema:
    """The schema of whole documents: readers need the key as columns, to tell rows from each other."""
    try:
        properties, _ = members(schema)
    except UnclearSchema:
        properties = {}
    columns = [_column(name, properties.get(name), schema, name in text) for name in key]
    return TableSchema(collection=collection, columns=[*columns, WHOLE_DOCUMENT], key=list(key))


def _properties(schema: Schema | None) -> dict[str, Any]:
    """The properties of a closed object, those of ``$ref`` and ``allOf`` among them."""
    if schema is None:
        raise UnclearSchema("the connector sent no schema")
    properties, closed = members(schema)
    if not closed:
        raise UnclearSchema("the schema is open")
    return properties


def members(schema: Schema) -> tuple[dict[str, Any], bool]:
    """The properties that an object may have, those of ``$ref`` and ``allOf`` among them, and whether no others.

    Raises:
        UnclearSchema: The schema does not define them.
    """
    properties: dict[str, Any] = {}
    closed = False
    for part in _parts(schema, schema, 0):
        conditional = {name for name in _CONDITIONAL if not _only_reduces(part.get(name, True))}
        if unclear := UNCLEAR & part.keys() | conditional:
            raise UnclearSchema(f"the schema has {min(unclear)}")
        closed |= part.get("additionalProperties") is False or part.get("unevaluatedProperties") is False
        properties.update(part.get("properties") or {})
    return properties, closed


def _only_reduces(schema: Any) -> bool:
    """Whether a branch allows any document, and only defines how documents of one key are reduced."""
    return schema is True or (isinstance(schema, dict) and schema.keys() <= {"reduce"})


def _parts(schema: Any, root: Schema, depth: int) -> Iterator[Schema]:
    """A schema and those that apply with it: by its reference and its ``allOf``."""
    if not isinstance(schema, dict) or depth > _DEEPEST:
        raise UnclearSchema("the schema is not an object, or refers to itself")
    if "$ref" in schema:
        yield from _parts(_target(schema["$ref"], root), root, depth + 1)
    for part in schema.get("allOf") or ():
        yield from _parts(part, root, depth + 1)
    yield schema


def _target(reference: Any, root: Schema) -> Any:
    """What a ``$ref`` inside the document means: a JSON pointer (RFC 6901) or an ``$anchor`` among the ``$defs``."""
    scheme, _, fragment = str(reference).partition("#")
    if scheme:
        raise UnclearSchema("the schema refers to another one")
    fragment = unquote(fragment)
    if fragment and not fragment.startswith("/"):
        definitions = [*(root.get("$defs") or {}).values(), *(root.get("definitions") or {}).values()]
        return next((d for d in definitions if isinstance(d, dict) and d.get("$anchor") == fragment), None)
    target: Any = root
    for step in fragment.split("/")[1:]:
        target = target.get(member(step)) if isinstance(target, dict) else None
    return target


def _column(name: str, schema: Any, root: Schema, as_text: bool) -> Column:
    merged = whole(schema, root)
    type_ = "string" if as_text else _type(merged, root)
    return Column(
        name=name,
        type=type_ or "string",
        nullable="type" not in merged or "null" in kinds(merged),
        json_text=type_ is None,
        description=str(merged.get("description", "")),
        id=None if (id_ := merged.get(COLUMN_ID)) is None else str(id_),
        fill=merged.get(COLUMN_FILL),
    )


def whole(schema: Any, root: Schema) -> Schema:
    """A property's schema with its references resolved; ``{}``, which allows anything, if that is not possible."""
    try:
        merged: Schema = {}
        for part in _parts(schema, root, 0):
            merged |= part
    except UnclearSchema:
        return {}
    return merged


def _type(schema: Schema, root: Schema) -> str | None:
    """The Spark SQL type of a property's values; None when only JSON text can hold them all."""
    if kinds(schema) - {"null"} == {"array"}:
        items = whole(schema.get("items", {}), root)
        item = _scalar(items)
        return f"array<{item}>" if item else None
    return _scalar(schema)


def _scalar(schema: Schema) -> str | None:
    found = kinds(schema) - {"null"}
    format_ = schema.get("format")
    if UNCLEAR & schema.keys():
        return None
    if found == {"boolean"}:
        return "boolean"
    if found == {"integer"}:
        # MySQL's unsigned 64-bit columns are beyond bigint.
        most = schema.get("maximum")
        return "decimal(20,0)" if isinstance(most, int) and 2**63 <= most < 10**20 else "bigint"
    if found and found <= {"number", "integer"}:
        return "double"
    if "string" in found and found <= {"number", "integer", "string"} and len(found) > 1 and format_ == "number":
        return "double"
    return _string_type(schema, format_) if found == {"string"} else None


def _string_type(schema: Schema, format_: Any) -> str:
    if schema.get("contentEncoding") == "base64":
        return "binary"
    if format_ == "date":
        return "date"
    if schema.get("x-local") is True and format_ in (None, "date-time"):  # The format is that of earlier versions.
        return "timestamp_ntz"
    if format_ == "date-time":
        return "timestamp"
    if format_ == "number":
        precision, scale = schema.get("x-precision"), schema.get("x-scale", 0)
        if isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision <= 38 and precision:
            return f"decimal({precision},{scale})"
    return "string"


def kinds(schema: Schema) -> frozenset[str]:
    """The types that ``type`` allows; none without the keyword."""
    named = schema.get("type", [])
    return frozenset([named] if isinstance(named, str) else named)
