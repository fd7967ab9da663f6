"""Every type both ways: a chunk and the log give the same bytes, and they are what documents.md says."""

from __future__ import annotations

import itertools
import re
from base64 import b64decode
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import orjson
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.captures.postgres.both_ways import BothWays
from tests.servers.postgres import Database, Postgres, fresh_database

_tables = (f"t{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def both(postgres: Postgres) -> Iterator[BothWays]:
    """One database for all tests of this file; each makes tables of its own."""
    with fresh_database(postgres, "tidemark_types") as database:
        ways = BothWays(database)
        with ways.session:
            yield ways


def values(both: BothWays, type_name: str, literals: list[str | None]) -> list[Any]:
    """What a column of the type has in the documents of rows with these values."""
    table = next(_tables)
    both.execute(f"CREATE TABLE public.{table} (id int PRIMARY KEY, before text, v {type_name}, after text)")
    for number, literal in enumerate(literals):
        both.execute(
            f"INSERT INTO public.{table} VALUES ({number}, 'b', %s::text::{type_name}, 'a')"
            if literal is not None
            else f"INSERT INTO public.{table} VALUES ({number}, 'b', NULL, %s)",
            literal if literal is not None else "a",
        )
    documents = both.both(table)
    assert [(d["id"], d["before"], d["after"]) for d in documents] == [(n, "b", "a") for n in range(len(literals))]
    return [d["v"] for d in documents]


CASES: dict[str, list[tuple[str | None, Any]]] = {
    "bool": [("t", True), ("f", False), (None, None)],
    "int2": [("-32768", -32768), ("32767", 32767), (None, None)],
    "int4": [("-2147483648", -(2**31)), ("0", 0)],
    "int8": [("-9223372036854775808", -(2**63)), ("9223372036854775807", 2**63 - 1)],
    "oid": [("4294967295", 2**32 - 1)],
    "numeric": [
        ("123.4560", "123.4560"),
        ("-0.00", "0.00"),
        ("1e50", "1" + "0" * 50),
        ("NaN", "NaN"),
        ("Infinity", "Infinity"),
        ("-Infinity", "-Infinity"),
        (None, None),
    ],
    "numeric(12,4)": [("1.5", "1.5000"), ("-99999999.9999", "-99999999.9999"), ("NaN", "NaN")],
    "float4": [("0.1", 0.1), ("3.4028235e38", 3.4028235e38), ("NaN", "NaN"), ("-Infinity", "-Infinity")],
    "float8": [
        ("0.1", 0.1),
        ("1e-310", 1e-310),
        ("1.7976931348623157e308", 1.7976931348623157e308),
        ("-0", 0.0),
        ("NaN", "NaN"),
        ("Infinity", "Infinity"),
        ("-Infinity", "-Infinity"),
    ],
    "money": [("1234.5", "$1,234.50")],
    "text": [
        ("", ""),
        ("\\N", "\\N"),
        ("\\", "\\"),
        ('a"b\\c\td\ne\rf\bg\fh\vi\x01j\x1fk\x7fl', 'a"b\\c\td\ne\rf\bg\fh\vi\x01j\x1fk\x7fl'),
        ("\u2028 \u2029 \ufeff é 日本 😀 \U0010ffff", "\u2028 \u2029 \ufeff é 日本 😀 \U0010ffff"),
        ("null", "null"),
        ("\\.", "\\."),
        (None, None),
    ],
    "varchar(5)": [("abcde", "abcde")],
    "char(5)": [("ab", "ab   "), ("", "     ")],
    '"char"': [("x", "x"), ("", "")],
    "name": [("a name", "a name")],
    "tsvector": [("'a':1A 'b c':2", "'a':1A 'b c':2")],
    "tsquery": [("a & !b", "'a' & !'b'")],
    "jsonpath": [('$."a"[*] ? (@ > 1)', '$."a"[*]?(@ > 1)')],
    "bytea": [("", ""), ("\\x00ff10", "AP8Q"), ("\\x61626364", "YWJjZA=="), (None, None)],
    "json": [
        ('{"a" :\n[1,\r\n\t2.50, "\\n\\u00e9é\\\\"]}', {"a": [1, 2.5, "\néé\\"]}),
        ("null", None),
        ('"text"', "text"),
        ("12345678901234567890", 12345678901234567890),
        (None, None),
    ],
    "jsonb": [('{"a":{"b":"\\"\\t\\\\"},"c":[1.50,null]}', {"a": {"b": '"\t\\'}, "c": [1.5, None]}), ("1", 1)],
    "date": [
        ("2024-02-29", "2024-02-29"),
        ("infinity", "infinity"),
        ("-infinity", "-infinity"),
        ("0001-01-01", "0001-01-01"),
        ("0001-12-31 BC", "0000-12-31"),
        ("0044-03-15 BC", "-0043-03-15"),
        ("4713-01-01 BC", "-4712-01-01"),
        ("9999-12-31", "9999-12-31"),
        ("10000-01-01", "+010000-01-01"),
        ("5874897-12-31", "+5874897-12-31"),
        (None, None),
    ],
    "timestamp": [
        ("2024-01-15 14:30:00.123456", "2024-01-15T14:30:00.123456"),
        ("2024-01-15 14:30:00", "2024-01-15T14:30:00"),
        ("2024-01-15 14:30:00.1", "2024-01-15T14:30:00.1"),
        ("infinity", "infinity"),
        ("-infinity", "-infinity"),
        ("0044-03-15 01:02:03 BC", "-0043-03-15T01:02:03"),
        ("12345-01-15 14:30:00.5", "+012345-01-15T14:30:00.5"),
        ("294276-12-31 23:59:59.999999", "+294276-12-31T23:59:59.999999"),
        (None, None),
    ],
    "timestamptz": [
        ("2024-01-15 14:30:00.123456+05:30", "2024-01-15T09:00:00.123456Z"),
        ("2024-01-15 14:30:00Z", "2024-01-15T14:30:00Z"),
        ("infinity", "infinity"),
        ("-infinity", "-infinity"),
        ("0044-03-15 01:02:03+00 BC", "-0043-03-15T01:02:03Z"),
        ("12345-01-15 14:30:00.5+00", "+012345-01-15T14:30:00.5Z"),
        (None, None),
    ],
    "time": [("14:30:00.123456", "14:30:00.123456"), ("24:00:00", "24:00:00")],
    "timetz": [("14:30:00+05:30", "14:30:00+05:30")],
    "interval": [
        ("1 year 2 months 3 days 4 hours", "P1Y2M3DT4H"),
        ("-1 day +02:03:04.5", "P-1DT2H3M4.5S"),
        ("0", "PT0S"),
    ],
    "uuid": [("A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")],
    "inet": [("192.168.1.5/24", "192.168.1.5/24"), ("::1", "::1")],
    "cidr": [("10.0.0.0/8", "10.0.0.0/8")],
    "macaddr": [("08:00:2B:01:02:03", "08:00:2b:01:02:03")],
    "macaddr8": [("08:00:2b:01:02:03:04:05", "08:00:2b:01:02:03:04:05")],
    "bit(4)": [("0101", "0101")],
    "varbit": [("", ""), ("10101", "10101")],
    "point": [("(1.5,-2)", "(1.5,-2)"), ("(NaN,Infinity)", "(NaN,Infinity)")],
    "line": [("{1,2,3}", "{1,2,3}")],
    "lseg": [("[(1,2),(3,4)]", "[(1,2),(3,4)]")],
    "box": [("(3,4),(1,2)", "(3,4),(1,2)")],
    "path": [("((1,2),(3,4))", "((1,2),(3,4))")],
    "polygon": [("((1,2),(3,4),(5,6))", "((1,2),(3,4),(5,6))")],
    "circle": [("<(1,2),3>", "<(1,2),3>")],
    "pg_lsn": [("16/B374D848", "16/B374D848")],
    "int4range": [("[1,5)", "[1,5)"), ("empty", "empty"), ("(,)", "(,)")],
    "numrange": [("[1.50,2)", "[1.50,2)")],
    "daterange": [
        ("[2024-01-01,2024-02-01)", "[2024-01-01,2024-02-01)"),
        ("[0044-03-15 BC,infinity)", "[-0043-03-15,infinity)"),
        ("empty", "empty"),
    ],
    "tsrange": [('["2024-01-01 01:00","2024-01-02")', "[2024-01-01T01:00:00,2024-01-02T00:00:00)"), ("(,)", "(,)")],
    "tstzrange": [('["2024-01-01 01:00+00",)', "[2024-01-01T01:00:00Z,)")],
    "tstzmultirange": [
        ('{["2024-01-01 01:00+00","2024-01-01 02:00+00"),["2024-01-03 00:00+00",)}',
         "{[2024-01-01T01:00:00Z,2024-01-01T02:00:00Z),[2024-01-03T00:00:00Z,)}"),
        ("{}", "{}"),
    ],
    "int4multirange": [("{[1,3),[5,7)}", "{[1,3),[5,7)}")],
    "int4[]": [
        ("{1,NULL,3}", [1, None, 3]),
        ("{}", []),
        ("[2:4]={1,2,3}", [1, 2, 3]),
        (None, None),
    ],
    "int4[][]": [
        ("{{1,2},{3,4}}", [[1, 2], [3, 4]]),
        ("[0:1][5:6]={{1,2},{3,4}}", [[1, 2], [3, 4]]),
        ("{}", []),
    ],
    "int2[][][]": [("{{{1}},{{2}}}", [[[1]], [[2]]])],
    "bool[]": [("{t,f,NULL}", [True, False, None])],
    "float8[]": [("{1.5,NaN,-Infinity}", [1.5, "NaN", "-Infinity"])],
    "numeric(6,2)[]": [("{1.5,NaN}", ["1.50", "NaN"])],
    "text[]": [
        ('{a,"",NULL,"NULL","null","{}","a,b","q\\"\\\\q"," x ","line\nbreak","[1:2]={1}"}',
         ["a", "", None, "NULL", "null", "{}", "a,b", 'q"\\q', " x ", "line\nbreak", "[1:2]={1}"]),
    ],
    "text[][]": [('{{"é;日"},{"\t\u2028"}}', [["é;日"], ["\t\u2028"]])],
    "bytea[]": [('{"\\\\x00ff",NULL,"\\\\x"}', ["AP8=", None, ""])],
    "json[]": [('{"{\\"a\\":\n1}","[]",NULL,"null"}', [{"a": 1}, [], None, None])],
    "jsonb[]": [('{"{\\"a\\":\\"b,c\\"}","\\"x\\""}', [{"a": "b,c"}, "x"])],
    "date[]": [('{2024-01-01,infinity,"0044-03-15 BC"}', ["2024-01-01", "infinity", "-0043-03-15"])],
    "timestamptz[]": [('{"2024-01-01 00:00:00+00",NULL}', ["2024-01-01T00:00:00Z", None])],
    "box[]": [("{(3,4),(1,2);(7,8),(5,6)}", ["(3,4),(1,2)", "(7,8),(5,6)"])],
    "interval[]": [('{"1 day",NULL}', ["P1D", None])],
    "int4range[]": [('{"[1,5)",empty,NULL}', ["[1,5)", "empty", None])],
    "int2vector": [("1 2 3", "1 2 3")],
    "regclass": [("pg_class", "pg_class")],
}  # fmt: skip


@pytest.mark.parametrize("type_name", CASES)
def test_built_in(both: BothWays, type_name: str) -> None:
    cases = CASES[type_name]
    # What is no bad value is the same under every policy.
    both.on_bad_value = "text" if re.match(r"date|timestamp|numeric\(", type_name) else "stop"
    assert values(both, type_name, [literal for literal, _ in cases]) == [expected for _, expected in cases]


def test_the_text_of_json_is_kept(both: BothWays) -> None:
    both.execute("CREATE TABLE public.kept (id int PRIMARY KEY, j json, b jsonb)")
    both.execute("INSERT INTO public.kept VALUES (1, %s, %s)", '{"b":1.50,\n "a": 1e3, "a":\t2}', '{"b":1.50, "a":1}')
    lines, _ = both.chunk("kept")
    assert b'"j":{"b":1.50,  "a": 1e3, "a":\t2},"b":{"a": 1, "b": 1.50}}' in lines[0]
    assert both.log()[0].lines == lines[0]


def test_enums_domains_and_composites(both: BothWays) -> None:
    both.execute("""
        CREATE TYPE public.mood AS ENUM ('so so', 'a"b', 'é');
        CREATE DOMAIN public.cents AS numeric(8,2);
        CREATE DOMAIN public.cents_too AS public.cents CHECK (VALUE > 0);
        CREATE DOMAIN public.grid AS int[];
        CREATE DOMAIN public.square AS int[][];
        CREATE TYPE public.inner_type AS (flag bool, "the ""time"" of" timestamptz, note text);
        CREATE TYPE public.outer_type AS (id int, part public.inner_type, parts public.inner_type[], raw bytea);
    """)
    assert values(both, "public.mood", ["so so", 'a"b', None]) == ["so so", 'a"b', None]
    assert values(both, "public.mood[]", ['{"so so",é,"a\\"b"}']) == [["so so", "é", 'a"b']]
    assert values(both, "public.cents_too", ["1.5", None]) == ["1.50", None]
    assert values(both, "public.cents[]", ["{1.5,2}"]) == [["1.50", "2.00"]]
    assert values(both, "public.grid", ["{1,2}"]) == [[1, 2]]
    assert values(both, "public.square", ["{{1},{2}}"]) == [[[1], [2]]]
    assert values(both, "public.grid[]", ['{"{1,2}","{3}",NULL}']) == [[[1, 2], [3], None]]
    inner = {"flag": True, 'the "time" of': "2024-01-01T00:00:00Z", "note": 'a,(b)"\\ \n'}
    text = '(t,"2024-01-01 00:00:00+00","a,(b)""\\\\ \n")'
    nothing = {"flag": None, 'the "time" of': None, "note": ""}
    assert values(both, "public.inner_type", [text, '(,,"")', None]) == [inner, nothing, None]
    both.execute("CREATE TABLE public.outers (id int PRIMARY KEY, v public.outer_type)")
    both.execute(
        r"INSERT INTO public.outers VALUES (1, ROW(5, %s, ARRAY[%s, NULL]::public.inner_type[], '\x00ff'::bytea))",
        text, '(,,"")',
    )  # fmt: skip
    (document,) = both.both("outers")
    assert document["v"] == {"id": 5, "part": inner, "parts": [nothing, None], "raw": "AP8="}


def test_types_of_types(both: BothWays) -> None:
    both.execute("""
        CREATE TYPE public.none AS ();
        CREATE DOMAIN public.moment AS timestamptz;
        CREATE TYPE public.moments AS RANGE (subtype = public.moment, multirange_type_name = public.many_moments);
        CREATE TYPE public.spans AS (span tsrange, at date);
    """)
    assert values(both, "public.none", ["()", None]) == [{}, None]
    assert values(both, "public.moments", ['["2024-01-01 00:00+00",)']) == ["[2024-01-01T00:00:00Z,)"]
    assert values(both, "public.many_moments", ['{["2024-01-01 00:00+00",)}']) == ["{[2024-01-01T00:00:00Z,)}"]
    both.on_bad_value = "text"
    assert values(both, "public.spans", ['("[""2024-01-01 00:00:00"",)",10000-01-01)']) == [
        {"span": "[2024-01-01T00:00:00,)", "at": "+010000-01-01"}
    ]
    both.on_bad_value = "stop"


def test_xml(any_database: Database) -> None:
    both = BothWays(any_database)
    with both.session:
        try:
            both.execute("SELECT '<a/>'::xml")
        except psycopg.errors.FeatureNotSupported:
            pytest.skip(f"PostgreSQL {any_database.version} here was built without xml")
        assert values(both, "xml", ['<a b="c">\n</a>', None]) == ['<a b="c">\n</a>', None]


EXTENSIONS: dict[str, list[tuple[str, list[tuple[str | None, Any]]]]] = {
    "citext": [("citext", [('A"b', 'A"b')]), ("citext[]", [("{A,b}", ["A", "b"])])],
    "hstore": [
        (
            "hstore",
            [
                ('a=>1, b=>NULL, "x\\"y"=>"p\\\\q,=>"', {"a": "1", "b": None, 'x"y': "p\\q,=>"}),
                ("", {}),
                (None, None),
            ],
        ),
        ("hstore[]", [('{"a=>1",NULL}', [{"a": "1"}, None])]),
    ],
    "vector": [
        ("vector(3)", [("[1,2.5,-3]", [1, 2.5, -3])]),
        ("halfvec(2)", [("[1,2.5]", [1, 2.5])]),
        ("sparsevec(5)", [("{1:1.5,3:2}/5", "{1:1.5,3:2}/5")]),
    ],
    "ltree": [("ltree", [("a.b.c", "a.b.c")])],
    "cube": [("cube", [("(1, 2),(3, 4)", "(1, 2),(3, 4)")])],
}


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_of_extensions(any_postgres: Postgres, extension: str) -> None:
    with any_postgres.connect() as admin:
        found = admin.execute("SELECT FROM pg_available_extensions WHERE name = %s", [extension]).fetchone()
    if found is None:
        pytest.skip(f"{any_postgres.version} here has no extension {extension}")
    with fresh_database(any_postgres, f"tidemark_{extension}") as database:
        both = BothWays(database)
        with both.session:
            # Elsewhere than in public: its types' names come qualified.
            both.execute(f"CREATE SCHEMA ext; CREATE EXTENSION {extension} SCHEMA ext")
            for type_name, cases in EXTENSIONS[extension]:
                assert values(both, f"ext.{type_name}", [text for text, _ in cases]) == [value for _, value in cases]


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


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
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
