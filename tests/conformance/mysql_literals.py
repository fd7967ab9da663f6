"""Literals of each of MariaDB's and MySQL's types, and what documents have for them."""

from __future__ import annotations

from base64 import b64encode
from typing import Any, Final

from tidemark.testing.servers.mariadb import Database

Case = tuple[str, str, Any]
"""A type, SQL of a value, and its JSON."""

TEXT_FOR_BAD_VALUES: Final = r"DATE|TIMESTAMP"
"""Types of which zero dates are below: bad values, unless they may be text."""

_BOTH: list[Case] = [
    ("TINYINT", "-128", -128),
    ("TINYINT(1)", "5", 5),
    ("INT(6) UNSIGNED ZEROFILL", "42", 42),
    ("BIGINT UNSIGNED", "18446744073709551615", 18446744073709551615),
    ("BIGINT", "-9223372036854775808", -9223372036854775808),
    ("YEAR", "0", 0),
    ("YEAR", "2155", 2155),
    ("BIT(1)", "b'1'", True),
    ("BIT(64)", "18446744073709551615", 18446744073709551615),
    ("BIT(9)", "b'100000000'", 256),
    ("DECIMAL(20,5)", "-123.4", "-123.40000"),
    ("DECIMAL(10,2) UNSIGNED ZEROFILL", "1.5", "1.50"),
    ("DECIMAL(65,30)", "9" * 35 + ".123456789012345678901234567890", "9" * 35 + ".123456789012345678901234567890"),
    ("FLOAT", "0.1", 0.1),
    ("FLOAT", "16777217", 16777216.0),
    ("FLOAT", "3.4028234e38", 3.4028235e38),
    ("FLOAT(7,2)", "12345.678", 12345.68),
    ("DOUBLE", "0.1", 0.1),
    ("DOUBLE", "1.7976931348623157e308", 1.7976931348623157e308),
    ("DOUBLE", "5e-324", 5e-324),
    ("DOUBLE(20,3)", "123456789.4566", 123456789.457),
    ("CHAR(5)", "'ab  '", "ab"),
    ("VARCHAR(20)", "'ab  '", "ab  "),
    ("VARCHAR(20) CHARACTER SET latin1", "'€é'", "€é"),
    ("VARCHAR(20) CHARACTER SET utf16", "'ü😀'", "ü😀"),
    ("TEXT", r"'quote \" back \\ tab \t nul \0 ü 😀'", 'quote " back \\ tab \t nul \0 ü 😀'),
    ("TINYTEXT", "''", ""),
    ("LONGTEXT", "repeat('x', 70000)", "x" * 70000),
    ("ENUM('a','it''s','ü','b\\\\c')", "'it''s'", "it's"),
    ("ENUM('a','it''s','ü','b\\\\c')", "4", "b\\c"),
    ("SET('a','b','c')", "'c,a'", "a,c"),
    ("SET('a','b','c')", "''", ""),
    ("BINARY(4)", "'ab'", "YWIAAA=="),
    ("VARBINARY(10)", "x'00ff'", "AP8="),
    ("BLOB", "''", ""),
    ("LONGBLOB", "repeat('\\0', 300)", "A" * 400),
    ("DATE", "'2024-02-29'", "2024-02-29"),
    ("DATE", "'0000-00-00'", "0000-00-00"),
    ("DATE", "'2024-00-31'", "2024-00-31"),
    ("DATETIME", "'9999-12-31 23:59:59'", "9999-12-31T23:59:59"),
    ("DATETIME(6)", "'2024-01-15 14:30:00.123456'", "2024-01-15T14:30:00.123456"),
    ("DATETIME(3)", "'0000-00-00'", "0000-00-00T00:00:00.000"),
    ("TIMESTAMP NULL", "'0000-00-00'", "0000-00-00T00:00:00Z"),
    ("TIME", "'-838:59:59'", "-838:59:59"),
    ("TIME(6)", "'01:02:03.000004'", "01:02:03.000004"),
    ("JSON", """'{"a": [1, 2.50, null],\\n"b": "\\\\u00e9"}'""", {"a": [1, 2.5, None], "b": "é"}),
    ("POINT", "ST_GeomFromText('POINT(1 -2.5)')", "POINT(1 -2.5)"),
    ("GEOMETRY", "ST_GeomFromText('LINESTRING(0 0,1e30 1)')", "LINESTRING(0 0,1e+30 1)"),
    ("POINT", "ST_GeomFromText('POINT(7 7)', 4326)", "POINT(7 7)"),
    (
        "GEOMETRY",
        "ST_GeomFromText('POLYGON((0 0,4 0,4 4,0 0),(1 1,2 1,2 2,1 1))')",
        "POLYGON((0 0,4 0,4 4,0 0),(1 1,2 1,2 2,1 1))",
    ),
    ("MULTIPOINT", "ST_GeomFromText('MULTIPOINT(0 0,20 20)')", "MULTIPOINT((0 0),(20 20))"),
    (
        "GEOMETRYCOLLECTION",
        "ST_GeomFromText('GEOMETRYCOLLECTION(POINT(1 1),MULTIPOLYGON(((0 0,1 0,1 1,0 0))))')",
        "GEOMETRYCOLLECTION(POINT(1 1),MULTIPOLYGON(((0 0,1 0,1 1,0 0))))",
    ),
    ("MEDIUMINT", "-8388608", -8388608),
    ("MEDIUMINT", "-1", -1),
    ("MEDIUMINT UNSIGNED", "16777215", 16777215),
    ("SMALLINT", "-32768", -32768),
    ("SMALLINT UNSIGNED", "65535", 65535),
    ("TINYINT UNSIGNED", "255", 255),
    ("DECIMAL(9,9)", "-0.000000001", "-0.000000001"),
    ("DECIMAL(18,9)", "123456789.987654321", "123456789.987654321"),
    ("DECIMAL(5,0)", "-99999", "-99999"),
    ("DECIMAL(38,10)", "-1234567890123456789012345678.0123456789", "-1234567890123456789012345678.0123456789"),
    ("TIME(1)", "'-00:00:00.1'", "-00:00:00.1"),
    ("TIME(3)", "'838:59:58.999'", "838:59:58.999"),
    ("TIME(5)", "'-1:00:00.00001'", "-01:00:00.00001"),
    ("DATETIME(1)", "'1000-01-01 00:00:00.9'", "1000-01-01T00:00:00.9"),
    ("DATETIME(5)", "'2024-12-31 23:59:59.99999'", "2024-12-31T23:59:59.99999"),
    ("TIMESTAMP(4) NULL", "'2038-01-19 03:14:07.9999'", "2038-01-19T03:14:07.9999Z"),
    ("YEAR", "1901", 1901),
    ("VARCHAR(300)", "repeat('ä', 300)", "ä" * 300),
    ("TEXT CHARACTER SET latin1", "_latin1 x'80818de961'", "€\x81\x8déa"),
    ("VARCHAR(9) CHARACTER SET cp1251", "'привет'", "привет"),
    ("VARCHAR(9) CHARACTER SET koi8r", "'привет'", "привет"),
    ("VARCHAR(9) CHARACTER SET gbk", "'汉字'", "汉字"),
    ("VARCHAR(9) CHARACTER SET sjis", "'漢字ｶﾅ'", "漢字ｶﾅ"),
    ("VARCHAR(9) CHARACTER SET ujis", "'漢字'", "漢字"),
    ("VARCHAR(9) CHARACTER SET euckr", "'한글'", "한글"),
    ("VARCHAR(9) CHARACTER SET big5", "'漢字'", "漢字"),
    ("VARCHAR(9) CHARACTER SET ucs2", "'añ'", "añ"),
    ("VARCHAR(9) CHARACTER SET utf32", "'a😀'", "a😀"),
    ("VARCHAR(9) CHARACTER SET utf16le", "'a😀'", "a😀"),
    ("VARCHAR(9) CHARACTER SET ascii", "'abc'", "abc"),
    ("VARCHAR(9) CHARACTER SET utf8mb3", "'añ€'", "añ€"),
    ("CHAR(9) CHARACTER SET greek", "'αβγ'", "αβγ"),
    ("CHAR(255)", "repeat('é', 255)", "é" * 255),
    ("MEDIUMTEXT", "repeat('é', 40000)", "é" * 40000),
    ("MEDIUMBLOB", "x'00'", "AA=="),
    ("TINYBLOB", "x'ff00'", "/wA="),
    ("ENUM('a','b')", "''", ""),
    ("SET('a','b','c','d','e','f','g','h','i','j')", "'a,j'", "a,j"),
    ("BINARY(3)", "x'000000'", "AAAA"),
    ("BIT(17)", "b'10000000000000001'", 65537),
]

_MARIADB: list[Case] = [
    ("UUID", "'123E4567-e89b-12d3-a456-426655440000'", "123e4567-e89b-12d3-a456-426655440000"),
    ("INET6", "'2001:DB8::1'", "2001:db8::1"),
    ("INET4", "'192.0.2.1'", "192.0.2.1"),
    ("VECTOR(3)", "VEC_FromText('[1,-2.5,1e-30]')", [1, -2.5, 1e-30]),
    ("UUID", "'00000000-0000-0000-0000-000000000000'", "00000000-0000-0000-0000-000000000000"),
    ("UUID", "'ffffffff-ffff-7fff-8fff-ffffffffff00'", "ffffffff-ffff-7fff-8fff-ffffffffff00"),
    ("INET6", "'::'", "::"),
    ("INET6", "'::ffff:192.0.2.1'", "::ffff:192.0.2.1"),
    ("INET6", "'fe80::1:0:0:1'", "fe80::1:0:0:1"),
    ("VARCHAR(300) COMPRESSED", "repeat('ä', 300)", "ä" * 300),
    ("TEXT COMPRESSED", "repeat('x', 1000)", "x" * 1000),
    ("TEXT COMPRESSED", "'short'", "short"),
    ("BLOB COMPRESSED", "repeat('x', 1000)", b64encode(b"x" * 1000).decode()),
]


def cases_of(database: Database) -> list[Case]:
    """The cases of the types that the server has."""
    # The first second is no timestamp of MySQL's: it stores zeros for it.
    first = "0000-00-00T00:00:00.00Z" if database.is_mysql else "1970-01-01T00:00:00.25Z"
    cases = [*_BOTH, *_MARIADB, ("TIMESTAMP(2) NULL", "from_unixtime(0.25)", first)]
    return [case for case in cases if database.has_type(case[0])]
