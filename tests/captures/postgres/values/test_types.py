"""Values that nobody thought of: a chunk and the log give the same bytes. Literals are in ``tests/conformance``."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.captures.postgres.both_ways import BothWays
from tests.examples import examples
from tidemark.testing.servers.postgres import Postgres, fresh_database


@pytest.fixture(scope="module")
def both(postgres: Postgres) -> Iterator[BothWays]:
    """One database for all tests of this file; each makes tables of its own."""
    with fresh_database(postgres, "tidemark_types") as database:
        ways = BothWays(database)
        with ways.session:
            yield ways


def test_the_text_of_json_is_kept(both: BothWays) -> None:
    both.execute("CREATE TABLE public.kept (id int PRIMARY KEY, j json, b jsonb)")
    both.execute("INSERT INTO public.kept VALUES (1, %s, %s)", '{"b":1.50,\n "a": 1e3, "a":\t2}', '{"b":1.50, "a":1}')
    lines, _ = both.chunk("kept")
    assert b'"j":{"b":1.50,  "a": 1e3, "a":\t2},"b":{"a": 1, "b": 1.50}}' in lines[0]
    assert both.log()[0].lines == lines[0]


# Values that nobody thought of. Each example is one row; text without NUL, which PostgreSQL does not have.

ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40) | st.text(
    "\\\"'{}[](),;ntuN \t\n\r\b\f\v", max_size=12
)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=8,
)
MATRIX = st.integers(1, 3).flatmap(
    lambda width: st.lists(st.lists(st.none() | ANY_TEXT, min_size=width, max_size=width), min_size=1, max_size=3)
)


@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=st.none() | ANY_TEXT,
    texts=st.lists(st.none() | ANY_TEXT, max_size=4),
    matrix=MATRIX,
    data=st.binary(max_size=40),
    number=st.floats(allow_nan=False, allow_infinity=False),
    instant=st.datetimes(),
    tree=ANY_JSON,
    pair=st.tuples(ANY_TEXT, st.none() | ANY_TEXT),
)
def test_any_value(both: BothWays, **drawn: Any) -> None:
    both.execute("""
        DO $$ BEGIN
            CREATE TYPE public.pair AS (a text, b text);
            CREATE TABLE public.drawn (id int PRIMARY KEY, text text, texts text[], matrix text[][], data bytea,
                number float8, instant timestamptz, tree json, binary_tree jsonb,
                pair public.pair, pairs public.pair[]);
        EXCEPTION WHEN duplicate_object THEN TRUNCATE public.drawn;
        END $$
    """)
    tree = orjson.dumps(drawn["tree"]).decode()
    both.session.execute(
        "INSERT INTO public.drawn VALUES (1, %(text)s, %(texts)s, %(matrix)s, %(data)s, %(number)s,"
        " %(instant)s::timestamp AT TIME ZONE 'UTC', %(json)s::text::json, %(json)s::text::jsonb,"
        " ROW(%(a)s, %(b)s)::public.pair, ARRAY[ROW(%(a)s, %(b)s)::public.pair, NULL])",
        {**drawn, "json": tree, "a": drawn["pair"][0], "b": drawn["pair"][1]},
    )
    (document,) = both.both("drawn")
    assert {name: document[name] for name in ("text", "texts", "matrix", "number")} == {
        name: drawn[name] for name in ("text", "texts", "matrix", "number")
    }
    assert document["tree"] == document["binary_tree"] == drawn["tree"]
    assert document["pair"] == {"a": drawn["pair"][0], "b": drawn["pair"][1]}
    assert document["pairs"] == [document["pair"], None]
    assert datetime.fromisoformat(document["instant"]) == drawn["instant"].replace(tzinfo=UTC)
    assert b64decode(document["data"], validate=True) == drawn["data"]
