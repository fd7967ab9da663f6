"""A table's schema: closed, and true of every document that comes out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.captures.postgres.both_ways import BothWays
from tidemark.captures.postgres.tables.document_schema import document_schema, type_schema
from tidemark.testing.servers.postgres import Database

Schema = dict[str, Any]

_PYTHON_TYPES: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}
_ANNOTATIONS = {
    "$schema", "description", "format", "contentEncoding", "contentMediaType",
    "x-precision", "x-scale", "x-local", "x-enum", "x-complete", "x-key",
}  # fmt: skip
_ASSERTIONS = {
    "type", "properties", "required", "additionalProperties", "items", "prefixItems", "enum", "minItems", "maxItems",
}  # fmt: skip


def check(value: Any, schema: Schema, where: str = "") -> None:
    """Asserts that a value is valid, by the keywords of JSON Schema that documents' schemas use."""
    assert set(schema) <= _ANNOTATIONS | _ASSERTIONS, where
    if "type" in schema:
        names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        assert any(
            isinstance(value, _PYTHON_TYPES[name]) and (name == "boolean" or not isinstance(value, bool))
            for name in names
        ), f"{where} is {value!r}, not {names}"
    if "enum" in schema:
        assert value in schema["enum"], where
    if isinstance(value, dict) and "additionalProperties" in schema:
        properties = schema.get("properties", {})
        assert set(schema.get("required", ())) <= set(value), where
        for name, part in value.items():
            inner = properties.get(name, schema["additionalProperties"])
            assert inner is not False, f"{where}/{name} is not in the schema"
            check(part, inner, f"{where}/{name}")
    if isinstance(value, list):
        assert schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)), where
        items = schema["prefixItems"] if "prefixItems" in schema else [schema.get("items", {})] * len(value)
        for place, part in enumerate(value):
            check(part, items[place], f"{where}/{place}")


@pytest.fixture
def both(database: Database) -> Iterator[BothWays]:
    ways = BothWays(database)
    with ways.session:
        yield ways


MANY_TYPES = """
    CREATE TYPE public.mood AS ENUM ('sad', 'glad');
    CREATE DOMAIN public.cents AS numeric(8,2) NOT NULL;
    CREATE TYPE public.pair AS (a int, b timestamp);
    CREATE TABLE public.t (
        id int PRIMARY KEY, big bigint NOT NULL, small smallint, o oid, flag bool, n numeric, n2 numeric(12,4),
        f float8 NOT NULL, f4 real, t text, c char(3), v varchar(9), x bytea, j json, jb jsonb, d date, ts timestamp,
        tz timestamptz(3), tm time, i interval, u uuid, m public.mood, ct public.cents DEFAULT 1, p public.pair,
        ints int[], grid numeric(5,1)[][], pairs public.pair[], r int4range, pt point, moods public.mood[]);
    COMMENT ON TABLE public.t IS 'all kinds';
    COMMENT ON COLUMN public.t.n2 IS 'with a scale';
"""

EXPECTED: Schema = {
    "id": {"type": "integer"},
    "big": {"type": "integer"},
    "small": {"type": ["integer", "null"]},
    "o": {"type": ["integer", "null"]},
    "flag": {"type": ["boolean", "null"]},
    "n": {"type": ["string", "null"], "format": "number"},
    "n2": {
        "type": ["string", "null"], "format": "number", "x-precision": 12, "x-scale": 4,
        "description": "with a scale",
    },
    "f": {"type": ["number", "string"], "format": "number"},
    "f4": {"type": ["number", "string", "null"], "format": "number"},
    "t": {"type": ["string", "null"]},
    "c": {"type": ["string", "null"]},
    "v": {"type": ["string", "null"]},
    "x": {"type": ["string", "null"], "contentEncoding": "base64"},
    "j": {"contentMediaType": "application/json"},
    "jb": {"contentMediaType": "application/json"},
    "d": {"type": ["string", "null"], "format": "date"},
    "ts": {"type": ["string", "null"], "x-local": True},
    "tz": {"type": ["string", "null"], "format": "date-time"},
    "tm": {"type": ["string", "null"]},
    "i": {"type": ["string", "null"]},
    "u": {"type": ["string", "null"]},
    "m": {"type": ["string", "null"], "x-enum": ["sad", "glad"]},
    "ct": {"type": ["string", "null"], "format": "number", "x-precision": 8, "x-scale": 2},
    "p": {
        "type": ["object", "null"],
        "properties": {
            "a": {"type": ["integer", "null"]},
            "b": {"type": ["string", "null"], "x-local": True},
        },
        "required": ["a", "b"],
        "additionalProperties": False,
    },
    "ints": {"type": ["array", "null"], "items": {"type": ["integer", "null"]}},
    "grid": {
        "type": ["array", "null"],
        "items": {
            "type": "array",
            "items": {"type": ["string", "null"], "format": "number", "x-precision": 5, "x-scale": 1},
        },
    },
    "r": {"type": ["string", "null"]},
    "pt": {"type": ["string", "null"]},
    "moods": {"type": ["array", "null"], "items": {"type": ["string", "null"], "x-enum": ["sad", "glad"]}},
}  # fmt: skip


def test_every_document_is_valid(both: BothWays) -> None:
    both.execute(MANY_TYPES)
    table = both.table("t")
    schema = document_schema(table, table.columns, table.key, truncates=False)
    properties = dict(schema["properties"])
    assert properties.pop("_meta")["properties"]["op"]["enum"] == ["c", "u", "d"]
    assert properties.pop("pairs")["items"] == {**EXPECTED["p"], "type": ["object", "null"]}
    assert properties == EXPECTED
    assert schema["required"] == ["_meta", "id"]
    assert schema["description"] == "all kinds"
    both.execute("""
        INSERT INTO public.t VALUES (1, 2, 3, 4, true, 'NaN', 1.5, 'Infinity', 0.1, 'a', 'b', 'c', '\\x00', '[1]',
            '{"a": 1}', '9999-12-31', '2024-01-01', '2024-01-01', '10:00', '1 day', gen_random_uuid(), 'sad', 1.25,
            (1, NULL), '{1,NULL}', '{{1,2},{3,NULL}}', ARRAY[(1, NULL)::public.pair, NULL], '[1,2)', '(1,2)', '{sad}');
        INSERT INTO public.t (id, big, f) VALUES (2, 0, 0);
        UPDATE public.t SET big = 3;
        UPDATE public.t SET id = id + 10;
        ALTER TABLE public.t REPLICA IDENTITY FULL;
        UPDATE public.t SET big = 4;
        DELETE FROM public.t WHERE id = 11;
    """)
    documents = [document for event in both.log() for document in event.documents]
    assert [d["_meta"]["op"] for d in documents] == [*"ccuu", *"dcdc", *"uud"]
    lines, _ = both.chunk("t")
    assert len(lines) == 1
    for document in documents:
        check(document, schema)


def test_truncates_have_no_columns(both: BothWays) -> None:
    both.execute("CREATE TABLE public.t (a int, b text, PRIMARY KEY (b, a))")
    table = both.table("t")
    schema = document_schema(table, table.columns, table.key, truncates=True)
    assert schema["required"] == ["_meta"]
    check({"_meta": {"op": "t", "source": {"schema": "public", "table": "t", "loc": [1, 2, 3, 4], "ts_ms": 4}}}, schema)
    assert document_schema(table, table.columns, table.key, truncates=False)["required"] == ["_meta", "b", "a"]
    assert "description" not in schema


def test_excluded_columns_and_other_keys(both: BothWays) -> None:
    both.execute("CREATE TABLE public.t (id int PRIMARY KEY, a int, secret text)")
    table = both.table("t")
    columns = [column for column in table.columns if column.name != "secret"]
    schema = document_schema(table, columns, ["a"], truncates=False)
    assert set(schema["properties"]) == {"_meta", "id", "a"}
    assert set(schema["properties"]["_meta"]["properties"]["before"]["properties"]) == {"id", "a"}
    assert schema["properties"]["a"] == {"type": "integer"}
    with pytest.raises(AssertionError, match="/secret is not in the schema"):
        check(
            {"_meta": {"op": "c", "source": {"schema": "", "table": "", "loc": [1, 2, 3, 4]}}, "a": 1, "secret": ""},
            schema,
        )


def test_scales_can_be_negative(both: BothWays) -> None:
    if both.session.info.server_version < 150000:
        pytest.skip("negative scales came with version 15")
    both.execute("CREATE TABLE public.t (id int PRIMARY KEY, a numeric(5,-3), b numeric(3,9))")
    _, a, b = both.table("t").columns
    assert type_schema(a.type, nullable=False) == {
        "type": "string", "format": "number", "x-precision": 5, "x-scale": -3,
    }  # fmt: skip
    assert type_schema(b.type, nullable=False)["x-scale"] == 9
    both.execute("INSERT INTO public.t VALUES (1, 12345678, 0.000000123)")
    (document,) = both.both("t")
    assert (document["a"], document["b"]) == ("12346000", "0.000000123")


def test_extension_types(both: BothWays) -> None:
    available = both.session.execute("SELECT FROM pg_available_extensions WHERE name = 'vector'").fetchone()
    if available is None:
        pytest.skip("this PostgreSQL has no pgvector")
    both.execute("CREATE SCHEMA ext; CREATE EXTENSION vector SCHEMA ext")
    both.execute("CREATE TABLE public.t (id int PRIMARY KEY, v ext.vector(2), s ext.sparsevec)")
    _, vector, sparse = both.table("t").columns
    assert type_schema(vector.type, nullable=True) == {"type": ["array", "null"], "items": {"type": "number"}}
    assert type_schema(sparse.type, nullable=True) == {"type": ["string", "null"]}
