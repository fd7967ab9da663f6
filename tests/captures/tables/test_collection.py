"""A table as a collection: what is open of its schema, and which keys are keys there."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tidemark.captures.postgres.server.positions import next_place
from tidemark.captures.rows.captured_line import Emissions
from tidemark.captures.tables.collection import check_keys, check_state_keys, discovered, open_schema
from tidemark.protocol.errors import ConnectorError
from tidemark.protocol.messages import Binding, Collection, DiscoveredBinding
from tidemark.protocol.text.pointers import pointer

FALLBACK = ["/_meta/source/loc/0", "/_meta/source/loc/1"]


def closed(**columns: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"_meta": {"type": "object", "additionalProperties": False}, **columns},
        "required": ["_meta"],
        "additionalProperties": False,
        "x-complete": True,
        "x-key": [],
    }


def found(schema: dict[str, Any], *key: str) -> DiscoveredBinding:
    return discovered(
        path=("public", "t"),
        closed_schema=schema,
        key=key,
        fallback=FALLBACK,
        key_is_fallback=False,
        disable=False,
    )


@pytest.mark.parametrize(
    ("column", "usable"),
    [
        ({"type": "integer"}, True),
        ({"type": "boolean"}, True),
        ({"type": "string", "format": "date"}, True),
        ({"type": "string", "format": "number"}, True),
        ({"type": "string", "contentEncoding": "base64"}, True),
        ({"type": "number"}, False),
        ({"type": ["number", "string"], "format": "number"}, False),
        ({"type": "array", "items": {"type": "integer"}}, False),
        ({"type": "object", "properties": {}}, False),
        ({"contentMediaType": "application/json"}, False),
        ({"type": ["integer", "null"]}, False),
    ],
)
def test_keys_are_of_scalars(column: dict[str, Any], usable: bool) -> None:
    binding = found(closed(**{"a/b": {"type": "integer"}, "c": column}), "a/b", "c")
    assert binding.key == (["/a~1b", "/c"] if usable else FALLBACK)
    assert binding.is_fallback_key is not usable
    assert binding.document_schema.get("x-key") == (None if usable else ["a/b", "c"])


def test_a_table_without_a_key_has_no_columns_of_one() -> None:
    binding = found(closed(a={"type": "integer"}))
    assert (binding.key, binding.is_fallback_key) == (FALLBACK, True)
    assert "x-key" not in binding.document_schema


def test_all_parts_of_a_schema_are_opened_and_columns_are_left_alone() -> None:
    pair = {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False}
    tags = {"type": "object", "additionalProperties": {"type": ["string", "null"]}}
    evil = {"additionalProperties": {"type": "integer"}, "properties": {"type": "string"}, "items": {"type": "boolean"}}
    schema = closed(pair=pair, pairs={"type": "array", "items": pair}, tags=tags, **evil)
    opened = open_schema(schema)
    open_pair = {"type": "object", "properties": {"a": {"type": "integer"}}}
    assert opened["properties"] == {
        "_meta": {"type": "object"},
        "pair": open_pair,
        "pairs": {"type": "array", "items": open_pair},
        "tags": tags,
        **evil,
    }
    assert "additionalProperties" not in opened and opened.keys().isdisjoint(("x-complete", "x-key"))
    assert opened["required"] == ["_meta"]
    assert schema == closed(pair=pair, pairs={"type": "array", "items": pair}, tags=tags, **evil)


@pytest.mark.parametrize(
    ("key", "refused"),
    [
        (FALLBACK, False),
        (["/id"], False),
        ([pointer("_meta/source/loc")], False),
        ([], False),
        (["/_meta/source/loc"], True),
        (["/_meta/source/loc/0"], True),
        ([*FALLBACK, "/_meta/source/loc/2"], True),
        (["/id", *FALLBACK], True),
    ],
)
def test_old_fallback_keys_are_refused(key: list[str], refused: bool) -> None:
    bindings = [Binding(collection=Collection(name="shop/t", key=key))]
    if not refused:
        check_keys(bindings, FALLBACK)
        return
    with pytest.raises(ConnectorError, match="shop/t") as raised:
        check_keys(bindings, FALLBACK)
    assert raised.value.code == "TM-CAP-012"


def test_bindings_have_states_of_their_own() -> None:
    one, other = (Binding(resource_path=["public", name], state_key=key) for name, key in (("a", "x"), ("b", "y")))
    check_state_keys([one, other])
    with pytest.raises(
        ConnectorError, match=r"public\.a and public\.b are bound with the same state key 'x'"
    ) as raised:
        check_state_keys([one, replace(other, state_key="x")])
    assert raised.value.code == "TM-CAP-013"


def test_places_that_follow_one_another() -> None:
    source = b'{"schema":"a]","table":"1,2]","loc":[1,2,3,9],"txid":4}'
    assert next_place(source) == b'{"schema":"a]","table":"1,2]","loc":[1,2,3,10],"txid":4}'
    emissions = Emissions()
    numbers = [emissions.next() for _ in range(5)]
    assert numbers == sorted(set(numbers))
    assert Emissions().next() >= numbers[0] > 1_700_000_000_000
