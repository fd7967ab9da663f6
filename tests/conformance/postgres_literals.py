"""Literals of each of PostgreSQL's types, and what documents have for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tidemark.testing.servers.postgres import Connection

Cases = Mapping[str, list[tuple[str | None, Any]]]
"""By type: texts, or SQL that begins with ROW, and the JSON of each."""

TEXT_FOR_BAD_VALUES: Final = r"date|timestamp|numeric\(|public\.spans"
"""Types that have literals below which are bad values unless they may be text. What is none is the same under both."""

BUILT_IN: Cases = {
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

MADE = (
    "CREATE TYPE public.mood AS ENUM ('so so', 'a\"b', 'é')",
    "CREATE DOMAIN public.cents AS numeric(8,2)",
    "CREATE DOMAIN public.cents_too AS public.cents CHECK (VALUE > 0)",
    "CREATE DOMAIN public.grid AS int[]",
    "CREATE DOMAIN public.square AS int[][]",
    'CREATE TYPE public.inner_type AS (flag bool, "the ""time"" of" timestamptz, note text)',
    "CREATE TYPE public.outer_type AS (id int, part public.inner_type, parts public.inner_type[], raw bytea)",
    "CREATE TYPE public.none AS ()",
    "CREATE DOMAIN public.moment AS timestamptz",
    "CREATE TYPE public.moments AS RANGE (subtype = public.moment, multirange_type_name = public.many_moments)",
    "CREATE TYPE public.spans AS (span tsrange, at date)",
)
"""Makes the types of ``OF_MADE``: enums, domains, composites, and types of these."""

_INNER = '(t,"2024-01-01 00:00:00+00","a,(b)""\\\\ \n")'
_INNER_JSON = {"flag": True, 'the "time" of': "2024-01-01T00:00:00Z", "note": 'a,(b)"\\ \n'}
_NOTHING_JSON = {"flag": None, 'the "time" of': None, "note": ""}

OF_MADE: Cases = {
    "public.mood": [("so so", "so so"), ('a"b', 'a"b'), (None, None)],
    "public.mood[]": [('{"so so",é,"a\\"b"}', ["so so", "é", 'a"b'])],
    "public.cents_too": [("1.5", "1.50"), (None, None)],
    "public.cents[]": [("{1.5,2}", ["1.50", "2.00"])],
    "public.grid": [("{1,2}", [1, 2])],
    "public.square": [("{{1},{2}}", [[1], [2]])],
    "public.grid[]": [('{"{1,2}","{3}",NULL}', [[1, 2], [3], None])],
    "public.inner_type": [(_INNER, _INNER_JSON), ('(,,"")', _NOTHING_JSON), (None, None)],
    "public.outer_type": [
        (
            f"ROW(5, '{_INNER}', ARRAY['(,,\"\")', NULL]::public.inner_type[], '\\x00ff'::bytea)",
            {"id": 5, "part": _INNER_JSON, "parts": [_NOTHING_JSON, None], "raw": "AP8="},
        )
    ],
    "public.none": [("()", {}), (None, None)],
    "public.moments": [('["2024-01-01 00:00+00",)', "[2024-01-01T00:00:00Z,)")],
    "public.many_moments": [('{["2024-01-01 00:00+00",)}', "{[2024-01-01T00:00:00Z,)}")],
    "public.spans": [
        ('("[""2024-01-01 00:00:00"",)",10000-01-01)', {"span": "[2024-01-01T00:00:00,)", "at": "+010000-01-01"})
    ],
}

XML: Cases = {"xml": [('<a b="c">\n</a>', '<a b="c">\n</a>'), (None, None)]}

OF_EXTENSIONS: Mapping[str, Cases] = {
    "citext": {"citext": [('A"b', 'A"b')], "citext[]": [("{A,b}", ["A", "b"])]},
    "hstore": {
        "hstore": [
            ('a=>1, b=>NULL, "x\\"y"=>"p\\\\q,=>"', {"a": "1", "b": None, 'x"y': "p\\q,=>"}),
            ("", {}),
            (None, None),
        ],
        "hstore[]": [('{"a=>1",NULL}', [{"a": "1"}, None])],
    },
    "vector": {
        "vector(3)": [("[1,2.5,-3]", [1, 2.5, -3])],
        "halfvec(2)": [("[1,2.5]", [1, 2.5])],
        "sparsevec(5)": [("{1:1.5,3:2}/5", "{1:1.5,3:2}/5")],
    },
    "ltree": {"ltree": [("a.b.c", "a.b.c")]},
    "cube": {"cube": [("(1, 2),(3, 4)", "(1, 2),(3, 4)")]},
}
"""By extension, of which a server has some."""


def cases_of(session: Connection) -> Cases:
    """The cases of the types that this server has, after making those that have to be made."""
    for statement in MADE:
        session.execute(statement)
    found = {**BUILT_IN, **OF_MADE}
    # Elsewhere than in public: their types' names come qualified.
    session.execute("CREATE SCHEMA ext")
    for (name,) in session.execute("SELECT name FROM pg_available_extensions ORDER BY 1").fetchall():
        if name in OF_EXTENSIONS:
            session.execute(f"CREATE EXTENSION {name} SCHEMA ext")
            found |= {f"ext.{of}": cases for of, cases in OF_EXTENSIONS[name].items()}
    built = session.execute("SELECT setting ~ 'with-libxml' FROM pg_config WHERE name = 'CONFIGURE'").fetchone()
    return {**found, **XML} if built == (True,) else found


def expression(of: str, text: str | None) -> str:
    """SQL of a literal."""
    if text is None:
        return f"NULL::{of}"
    quoted = text.replace("'", "''")
    return f"{text}::{of}" if text.startswith("ROW(") else f"'{quoted}'::text::{of}"
