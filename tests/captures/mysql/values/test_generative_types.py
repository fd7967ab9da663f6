"""Random tables of random values: a row reads the same from a chunk, from the log, and from the server itself."""

from __future__ import annotations

import base64
import json
import math
import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from tests.captures.mysql.captured_log import captured_log
from tests.captures.mysql.log.test_stream import global_setting
from tests.captures.mysql.table_chunks import run, table_chunks
from tests.examples import examples
from tidemark.testing.servers.mariadb import Database

Literals = st.SearchStrategy[str]

_numbers = count()

PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
"""Without shrinking: every example makes a table, and a table that fails is small enough to be read."""


@dataclass(frozen=True)
class Kind:
    """A type of columns.

    Attributes:
        sql: Its declaration.
        literals: SQL of values.
        printed: The expression, of a column ``%s``, that has the server print it for a person.
        document: What a document has, from that text.
        key: It can be part of a key.
    """

    sql: str
    literals: Literals
    printed: str = "%s"
    document: Callable[[str], Any] = str
    key: bool = True


def integers(sql: str, low: int, high: int) -> Kind:
    edges = st.sampled_from([low, high, 0])
    return Kind(sql, (edges | st.integers(low, high)).map(str), "%s + 0", int)


@st.composite
def decimals(draw: st.DrawFn) -> Kind:
    scale = draw(st.integers(0, 30))
    digits = draw(st.integers(max(scale, 1), 65))
    whole = st.integers(0, 10 ** (digits - scale) - 1)
    part = st.integers(0, 10**scale - 1)
    literals = st.tuples(st.sampled_from(["", "-"]), whole, part).map(
        lambda value: f"{value[0]}{value[1]}.{value[2]:0{scale}d}" if scale else f"{value[0]}{value[1]}"
    )
    return Kind(f"DECIMAL({digits},{scale})", literals)


DOUBLES = st.floats(allow_nan=False, allow_infinity=False).map(repr)
FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False).map(repr)


def single(text: str) -> float:
    """The shortest number that is the same float of 32 bits."""
    value = float(text)
    for digits in range(1, 10):
        short = float(f"{value:.{digits}g}")
        if abs(short) < 3.5e38 and struct.pack("<f", short) == struct.pack("<f", value):
            return short
    raise AssertionError(text)


TEXTS = st.text(
    st.sampled_from("aZ09 _-~\\'\"\0\n\t\x7fé߀Łя№中日国ｱ＼～−¢한ग") | st.characters(exclude_categories=["Cs"]),
    max_size=12,
)
NARROW = [
    "ascii",
    "latin1",
    "latin2",
    "cp850",
    "cp866",
    "cp1251",
    "cp1256",
    "koi8u",
    "greek",
    "hebrew",
    "tis620",
    "swe7",
    "hp8",
]
WIDE = ["utf8mb4", "utf8mb3", "utf16", "utf16le", "utf32", "ucs2", "gbk", "sjis", "cp932", "big5", "euckr", "ujis"]


def literal(text: str) -> str:
    return f"_utf8mb4 X'{text.encode().hex()}'"


@st.composite
def texts(draw: st.DrawFn) -> Kind:
    charset = draw(st.sampled_from(NARROW + WIDE))
    sql = draw(st.sampled_from(["CHAR(12)", "VARCHAR(12)", "VARCHAR(300)", "TEXT", "LONGTEXT"]))
    # In a narrow character set every byte is a character, with or without a meaning.
    narrow = st.binary(max_size=12).map(lambda data: f"X'{data.hex()}'")
    values = TEXTS.map(literal) | narrow if charset in NARROW else TEXTS.map(literal)
    return Kind(
        f"{sql} CHARACTER SET {charset}", values, "CONVERT(%s USING utf8mb4)", key=sql in ("CHAR(12)", "VARCHAR(12)")
    )


BINARIES = st.binary(max_size=8).map(lambda data: f"X'{data.hex()}'")
LABELS = {
    "utf8mb4": "ü, it's \\ 中😀",
    "latin1": "é€ ' \"",
    "gbk": "中国",
    "cp866": "Жя",
    "utf16": "日\\",
    "swe7": "Åä",
}


def in_base64(text: str) -> str:
    return base64.b64encode(bytes.fromhex(text)).decode()


@st.composite
def labelled(draw: st.DrawFn) -> Kind:
    charset = draw(st.sampled_from(sorted(LABELS)))
    odd = LABELS[charset]
    name = draw(st.sampled_from(["ENUM", "SET"]))
    number = draw(st.sampled_from([1, 3, 9, 64] if name == "SET" else [1, 3, 300]))
    # No comma may be in a set's label, and no blank at the end of any.
    labels = [f"{place}{odd[: place % (len(odd) + 1)].replace(',', ';')}." for place in range(number)]
    quoted = ", ".join("'" + label.replace("\\", "\\\\").replace("'", "''") + "'" for label in labels)
    most = 2**number - 1 if name == "SET" else number
    return Kind(
        f"{name}({quoted}) CHARACTER SET {charset}",
        st.integers(0 if name == "SET" else 1, most).map(str),
        "CONVERT(%s USING utf8mb4)",
    )


def moment(text: str) -> str:
    return text.replace(" ", "T")


@st.composite
def moments(draw: st.DrawFn) -> Kind:
    digits = draw(st.integers(0, 6))
    days = st.builds("{:04d}-{:02d}-{:02d}".format, st.integers(0, 9999), st.integers(0, 12), st.integers(0, 28))
    clock = st.builds(
        "{:02d}:{:02d}:{:02d}.{:06d}".format,
        st.integers(0, 23),
        st.integers(0, 59),
        st.integers(0, 59),
        st.integers(0, 999999),
    )
    if draw(st.booleans()):
        return Kind(f"DATETIME({digits})", st.builds("'{} {}'".format, days, clock), "CAST(%s AS CHAR)", moment)
    if draw(st.booleans()):
        return Kind("DATE", days.map("'{}'".format), "CAST(%s AS CHAR)")
    if draw(st.booleans()):
        hours = st.builds(
            "'{}{:02d}:{:02d}:00.{:06d}'".format, st.sampled_from(["", "-"]), *map(st.integers, (0, 0, 0))
        )
        return Kind(f"TIME({digits})", hours | clock.map("'{}'".format) | st.just("'-838:59:59'"), "CAST(%s AS CHAR)")
    seconds = st.integers(1, 2**31 - 2).map(lambda n: f"FROM_UNIXTIME({n}.{n % 1000000:06d})") | st.just("0")
    return Kind(f"TIMESTAMP({digits}) NULL", seconds, "CAST(%s AS CHAR)", lambda text: moment(text) + "Z")


JSONS = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(-1e9, 1e9) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)
COORDINATES = st.floats(-1e6, 1e6).map(lambda value: f"{value:.3f}")


@st.composite
def geometries(draw: st.DrawFn) -> str:
    points = draw(st.lists(st.tuples(COORDINATES, COORDINATES).map(" ".join), min_size=2, max_size=4, unique=True))
    line = ",".join(points)
    ring = f"({line},{points[0]})"
    form = draw(
        st.sampled_from(
            [
                f"POINT({points[0]})",
                f"LINESTRING({line})",
                f"MULTIPOINT({line})",
                f"MULTILINESTRING(({line}),({line}))",
                f"GEOMETRYCOLLECTION(POINT({points[0]}),LINESTRING({line}))",
                f"POLYGON({ring if len(points) > 2 else '(0 0,1 0,1 1,0 0)'})",
            ]
        )
    )
    return f"ST_GeomFromText('{form}', {draw(st.sampled_from([0, 3857]))})"


def bare(text: str) -> str:
    """Well-known text without what servers put into it as they like."""
    text = re.sub(r"-0(?=[ ,)])", "0", text)  # a negative zero
    return text.replace(" ", "").replace("MULTIPOINT((", "MULTIPOINT(").replace("),(", ",").replace("))", ")")


KINDS: st.SearchStrategy[Kind] = st.one_of(
    st.sampled_from(
        [
            *(
                integers(f"{name}{sign}", 0 if sign else -(2 ** (bits - 1)), 2 ** (bits if sign else bits - 1) - 1)
                for name, bits in (("TINYINT", 8), ("SMALLINT", 16), ("MEDIUMINT", 24), ("INT", 32), ("BIGINT", 64))
                for sign in ("", " UNSIGNED", " UNSIGNED ZEROFILL")
            ),
            *(integers(f"BIT({bits})", 0, 2**bits - 1) for bits in (2, 8, 9, 63, 64)),
            Kind("YEAR", (st.just(0) | st.integers(1901, 2155)).map(str), "%s + 0", int),
            Kind("DOUBLE", DOUBLES, "%s", float),
            Kind("FLOAT", FLOATS, "%s * 1e0", single),
            Kind("BINARY(8)", BINARIES, "HEX(%s)", in_base64),
            Kind("VARBINARY(8)", BINARIES, "HEX(%s)", in_base64),
            Kind("BLOB", BINARIES, "HEX(%s)", in_base64, key=False),
            Kind("JSON", JSONS.map(lambda value: literal(json.dumps(value))), "%s", json.loads, key=False),
            Kind("GEOMETRY", geometries(), "ST_AsText(%s)", bare, key=False),
        ]
    ),
    decimals(),
    texts(),
    labelled(),
    moments(),
)


@dataclass(frozen=True)
class RandomTable:
    """A table: its key's first column, the others with an attribute each, and rows of literals."""

    key: Kind
    columns: Sequence[tuple[Kind, str]]
    rows: Sequence[Sequence[str]]

    @property
    def definition(self) -> str:
        others = "".join(f", c{n} {kind.sql} {attribute}" for n, (kind, attribute) in enumerate(self.columns))
        return f"id INT, k {self.key.sql.removesuffix(' NULL')} NOT NULL{others}, PRIMARY KEY (k, id)"

    @property
    def kinds(self) -> dict[str, Kind]:
        return {"k": self.key, **{f"c{n}": kind for n, (kind, _) in enumerate(self.columns)}}

    @property
    def moments_as_text(self) -> dict[str, str]:
        """``on_bad_value``: zero dates are among the literals."""
        return {name: "text" for name, kind in self.kinds.items() if kind.sql.startswith(("DATE", "TIMESTAMP"))}


@st.composite
def tables(draw: st.DrawFn) -> RandomTable:
    key = draw(KINDS.filter(lambda kind: kind.key))
    kinds = draw(st.lists(KINDS, min_size=1, max_size=8))
    attributes = [draw(st.sampled_from(["", "", "INVISIBLE"])) for _ in kinds]
    columns = list(zip(kinds, attributes, strict=True))
    cells = [key.literals, *(kind.literals | st.just("NULL") for kind in kinds)]
    rows = draw(st.lists(st.tuples(*cells), min_size=1, max_size=5))
    return RandomTable(key, columns, rows)


@pytest.mark.parametrize("metadata", ["FULL", "NO_LOG"])
@settings(max_examples=examples(8), deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES)
@given(table=tables())
def test_chunk_and_log_and_server_agree(binlog_database: Database, metadata: str, table: RandomTable) -> None:
    if binlog_database.is_mysql and metadata == "NO_LOG":
        metadata = "MINIMAL"
    if metadata != "FULL":  # The catalog cannot show such labels, and the capture says so: see test_mysql_log.
        assume(not any("SET(" in kind.sql or "ENUM(" in kind.sql for kind in table.kinds.values() if "😀" in kind.sql))
    name = f"t{next(_numbers)}"
    run(binlog_database, f"CREATE TABLE {name} ({table.definition})")
    names = ", ".join(["id", *table.kinds])
    with (
        global_setting(binlog_database, "binlog_row_metadata", f"'{metadata}'"),
        captured_log(binlog_database, name, on_bad_value=table.moments_as_text) as log,
    ):
        log.log.track(frozenset((0,)))
        run(
            binlog_database,
            "SET sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'",
            "BEGIN",
            *(
                f"INSERT INTO {name} ({names}) VALUES ({number}, {', '.join(row)})"
                for number, row in enumerate(table.rows)
            ),
            "COMMIT",
            f"UPDATE {name} SET id = id + 1000",
        )
        logged = log.read()
        touched = [transaction.touched[0] for transaction in log.transactions]
        assert not log.restarted
    inserted, moved = logged[: len(table.rows)], logged[len(table.rows) :]
    assert [document["_meta"]["op"] for document in moved] == ["d", "c"] * len(table.rows)
    with table_chunks(binlog_database, name, on_bad_value=table.moments_as_text) as chunks:
        keys, read = chunks.scan(2)
    assert all(key in touched[-1] for key in keys)
    by_id = {row["id"]: row for row in read}
    assert len(by_id) == len(table.rows)
    for document in logged:
        del document["_meta"]
        number = document["id"] % 1000
        assert {**document, "id": number + 1000} == by_id[number + 1000]
    assert sorted(document["id"] for document in inserted) == list(range(len(table.rows)))
    assert printed(binlog_database, name, table) == {
        number: {
            column: (bare(v) if v and table.kinds[column].sql == "GEOMETRY" else v)
            for column, v in row.items()
            if column != "id"
        }
        for number, row in by_id.items()
    }


def printed(database: Database, name: str, table: RandomTable) -> dict[int, dict[str, Any]]:
    """The rows as the server prints them."""
    expressions = [kind.printed.replace("%s", column) for column, kind in table.kinds.items()]
    with database.connect(conv={}) as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00'")
        cursor.execute(f"SELECT id, {', '.join(expressions)} FROM {name}")
        found = cursor.fetchall()
    return {
        int(row[0]): {
            column: None if value is None else kind.document(value)
            for (column, kind), value in zip(table.kinds.items(), row[1:], strict=True)
        }
        for row in found
    }


def test_many_columns_of_which_some_are_null(binlog_database: Database) -> None:
    columns = [f"c{n} {('TINYINT', 'VARCHAR(3)', 'DATE', 'DECIMAL(5,2)')[n % 4]}" for n in range(400)]
    row = [("7", "'x'", "'2024-01-02'", "1.5", "NULL")[n % 4 if n % 7 else 4] for n in range(400)]
    run(binlog_database, f"CREATE TABLE t (id INT PRIMARY KEY, {', '.join(columns)})")
    with captured_log(binlog_database, "t") as log:
        run(binlog_database, f"INSERT INTO t VALUES (1, {', '.join(row)})", "INSERT INTO t (id, c399) VALUES (2, 3.25)")
        logged = log.read()
    with table_chunks(binlog_database, "t") as chunks:
        _, read = chunks.scan(10)
    for document in logged:
        del document["_meta"]
    assert logged == read
    assert math.isclose(float(read[1]["c399"]), 3.25) and read[0]["c7"] is None
