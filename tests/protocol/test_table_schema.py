"""JSON Schema to columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.runtime.changelog.shop import closed, document, stored
from tidemark.protocol.changelog.columns.table_schema import table_schema
from tidemark.runtime.changelog.writer import LogWriter


def types(schema: dict[str, Any] | None) -> list[tuple[str, str]]:
    return [(column.name, column.type) for column in table_schema("public/t", schema).columns]


@pytest.mark.parametrize(
    ("schema", "type_", "json_text"),
    [
        ({"type": "boolean"}, "boolean", False),
        ({"type": "integer"}, "bigint", False),
        ({"type": ["null", "integer"]}, "bigint", False),
        ({"type": "integer", "maximum": 2**63 - 1}, "bigint", False),
        ({"type": "integer", "maximum": 2**64 - 1}, "decimal(20,0)", False),
        ({"type": "number"}, "double", False),
        ({"type": ["integer", "number"]}, "double", False),
        ({"type": ["number", "string"], "format": "number"}, "double", False),
        ({"type": ["number", "string", "null"], "format": "number"}, "double", False),
        ({"type": ["number", "string"]}, "string", True),
        ({"type": "string"}, "string", False),
        ({"type": "string", "enum": ["a", "b"]}, "string", False),
        ({"type": "string", "format": "uuid"}, "string", False),
        ({"type": "string", "format": "date"}, "date", False),
        ({"type": "string", "format": "date-time"}, "timestamp", False),
        ({"type": "string", "format": "date-time", "x-local": True}, "timestamp_ntz", False),
        ({"type": "string", "x-local": True}, "timestamp_ntz", False),
        ({"type": "array", "items": {"type": ["string", "null"], "x-local": True}}, "array<timestamp_ntz>", False),
        ({"type": "string", "format": "number"}, "string", False),
        ({"type": "string", "format": "number", "x-precision": 38, "x-scale": 10}, "decimal(38,10)", False),
        ({"type": "string", "format": "number", "x-precision": 5}, "decimal(5,0)", False),
        ({"type": "string", "format": "number", "x-precision": 39, "x-scale": 2}, "string", False),
        ({"type": "string", "format": "number", "x-precision": 2, "x-scale": 5}, "string", False),
        ({"type": "string", "format": "number", "x-precision": 3, "x-scale": -2}, "string", False),
        ({"type": "string", "contentEncoding": "base64"}, "binary", False),
        ({"type": "array", "items": {"type": "integer"}}, "array<bigint>", False),
        ({"type": ["array", "null"], "items": {"type": ["string", "null"]}}, "array<string>", False),
        ({"type": "array", "items": {}}, "string", True),
        ({"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}, "string", True),
        ({"type": "array"}, "string", True),
        ({}, "string", True),
        (True, "string", True),
        ({"type": "object", "properties": {}}, "string", True),
        ({"type": "integer", "anyOf": [{}]}, "string", True),
        ({"type": "null"}, "string", True),
        ({"$ref": "https://elsewhere.example/schema"}, "string", True),
        ({"$ref": "#/$defs/money"}, "decimal(10,2)", False),
        ({"$ref": "#money"}, "decimal(10,2)", False),
        ({"$ref": "#/$defs/itself"}, "string", True),
    ],
)
def test_types(schema: Any, type_: str, json_text: bool) -> None:
    money = {"$anchor": "money", "type": "string", "format": "number", "x-precision": 10, "x-scale": 2}
    whole = closed(c=schema) | {"$defs": {"money": money, "itself": {"$ref": "#/$defs/itself"}}}
    (column,) = table_schema("public/t", whole).columns
    assert (column.type, column.json_text) == (type_, json_text)


def test_nullability_comments_and_key() -> None:
    schema = table_schema(
        "public/t",
        closed(id={"type": "integer", "description": "the key"}, note={"type": ["string", "null"]}, any={}),
        ["id"],
    )
    assert [(c.nullable, c.description) for c in schema.columns] == [(False, "the key"), (True, ""), (True, "")]
    assert schema.key == ["id"]


def test_columns_come_in_the_order_of_the_schema() -> None:
    names = ["zebra", "apple", "Mango", "_private", "é"]
    assert [name for name, _ in types(closed(**{name: {"type": "string"} for name in names}))] == names


def test_parts_of_a_composed_schema_count() -> None:
    schema = {
        "$defs": {"Row": {"$anchor": "Row", "properties": {"id": {"type": "integer"}}}},
        "allOf": [{"properties": {"_meta": {}, "more": {"type": "string"}}}, {"$ref": "#Row"}],
        "unevaluatedProperties": False,
    }
    assert types(schema) == [("more", "string"), ("id", "bigint")]


def test_conditions_that_only_say_how_documents_are_reduced_hide_no_columns() -> None:
    reduce = {"reduce": {"strategy": "merge"}}
    for other in (reduce, True, {}):
        schema = closed(id={"type": "integer"}) | {"if": {"required": ["_meta"]}, "then": reduce, "else": other}
        assert types(schema) == [("id", "bigint")]


@pytest.mark.parametrize(
    "schema",
    [
        None,
        {},
        {"properties": {"id": {"type": "integer"}}},
        closed() | {"patternProperties": {"^x": {}}},
        closed() | {"oneOf": [{"properties": {"a": {}}}]},
        closed() | {"if": {}, "then": {"properties": {"a": {}}}},
        closed() | {"if": {}, "then": True, "else": False},
        closed() | {"allOf": [True]},
        {"$ref": "#"},
        {"$ref": "#/$defs/absent", "additionalProperties": False},
    ],
)
def test_a_schema_that_does_not_name_all_columns_gives_whole_documents(schema: dict[str, Any] | None) -> None:
    assert types(schema) == [("_doc", "string")]


@pytest.mark.parametrize(
    "collection",
    ["public/a b", "public/a.b", "../../etc", "a//b", "", "/", ".", "数/据", "a%2Fb/c", "a\nb", "x=1/y", "é" * 150],
)
def test_strange_collections_stay_inside_the_log(tmp_path: Path, collection: str) -> None:
    root = tmp_path / "deep" / "log"
    with LogWriter.open(root, "shop") as log:
        batch = log.begin()
        batch.add(log.bind(collection, closed(id={"type": "integer"})), [document(id=1)])
        log.commit(batch, {}, 1)
    assert [event["id"] for event in stored(root, collection)] == [1]
    assert {path.name for path in tmp_path.iterdir()} == {"deep"}
    assert {path.name for path in root.iterdir()} == {"tidemark.json", "commits", "data", "writer.lock"}
