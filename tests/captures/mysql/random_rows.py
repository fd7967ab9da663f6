"""Rows with random values of many types."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

from tidemark.testing.servers.mariadb import Database

LETTERS = "abc 'ü\\\"\n€😀"
LATIN = "abc é€'"

Make = Callable[[Random], Any]


def _text(letters: str, longest: int) -> Make:
    return lambda random: "".join(random.choices(letters, k=random.randrange(longest + 1)))


def _bytes(longest: int) -> Make:
    return lambda random: random.randbytes(random.randrange(longest + 1))


def _integer(bits: int, *, signed: bool) -> Make:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return lambda random: random.choice((low, high, 0, 1, random.randint(low, high)))


def _decimal(precision: int, scale: int) -> Make:
    def make(random: Random) -> str:
        digits = random.randrange(10 ** random.randint(0, precision))
        return f"{random.choice(('', '-'))}{Decimal(digits).scaleb(-scale):f}"

    return make


def _moment(digits: int, first: int, last: int) -> Make:
    def make(random: Random) -> str:
        seconds = timedelta(
            seconds=random.randint(0, (last - first) * 31_000_000), microseconds=random.randrange(10**6)
        )
        text = (datetime(first, 1, 2) + seconds).isoformat(" ", "microseconds")
        return text[: 19 + (digits and digits + 1)]

    return make


def _clock(digits: int) -> Make:
    def make(random: Random) -> str:
        # mysql-replication takes the fraction of a negative time for a positive one.
        sign, seconds = random.choice(("", "" if digits else "-")), random.randrange(838 * 3600)
        fraction = f".{random.randrange(10**digits):0{digits}d}" if digits else ""
        return f"{sign}{seconds // 3600}:{seconds // 60 % 60}:{seconds % 60}{fraction}"

    return make


def _json(random: Random) -> str:
    value = {"a": [random.randint(-(10**12), 10**12), random.random(), None, True], "ü€😀": {"n": random.choice("abc")}}
    return json.dumps(value)


INTEGERS = [("TINYINT", 8), ("SMALLINT", 16), ("MEDIUMINT", 24), ("INT", 32), ("BIGINT", 64)]
TYPES: list[tuple[str, Make]] = [
    *((f"{name}{kind}", _integer(bits, signed=not kind)) for name, bits in INTEGERS for kind in ("", " UNSIGNED")),
    ("DECIMAL(5,0)", _decimal(5, 0)),
    ("DECIMAL(12,2)", _decimal(12, 2)),
    ("DECIMAL(18,9)", _decimal(18, 9)),
    ("DECIMAL(40,30)", _decimal(40, 30)),
    ("DOUBLE", lambda random: random.uniform(-1e9, 1e9)),
    ("VARCHAR(40)", _text(LETTERS, 40)),
    ("VARCHAR(300)", _text(LETTERS, 300)),
    ("CHAR(20)", lambda random: _text("abcü€", 20)(random)),
    ("TEXT", _text(LETTERS, 500)),
    ("MEDIUMTEXT CHARACTER SET latin1", _text(LATIN, 500)),
    ("VARBINARY(300)", _bytes(300)),
    ("LONGBLOB", _bytes(1000)),
    ("ENUM('x','yü','z')", lambda random: random.choice(("x", "yü", "z"))),
    ("DATE", lambda random: date.fromordinal(random.randint(1, 3_652_000)).isoformat()),
    ("DATETIME", _moment(0, 1000, 9000)),
    ("DATETIME(3)", _moment(3, 1000, 9000)),
    ("DATETIME(6)", _moment(6, 1000, 9000)),
    ("TIMESTAMP(6) NULL", _moment(6, 1971, 2036)),
    ("TIMESTAMP NULL", _moment(0, 1971, 2036)),
    ("TIME", _clock(0)),
    ("TIME(6)", _clock(6)),
    ("YEAR", lambda random: random.choice((1901, 2155, 2024))),
    ("JSON", _json),
]
"""SQL of a type, and what makes its values. mysql-replication has no form that tells a SET's or a BIT's value, nor
digits enough of a FLOAT."""

MORE_TYPES: list[tuple[str, Make]] = [
    ("FLOAT", lambda random: random.uniform(-1e9, 1e9) * 10.0 ** random.randint(-40, 20)),
    ("DOUBLE", lambda random: random.uniform(-1, 1) * 10.0 ** random.randint(-300, 300)),
    ("SET('a','b','ü')", lambda random: ",".join(label for label in "abü" if random.random() < 0.5)),
    ("BIT(1)", lambda random: random.randrange(2)),
    ("BIT(40)", lambda random: random.getrandbits(40)),
    ("TINYINT(1)", lambda random: random.randint(-2, 2)),
    ("BINARY(7)", _bytes(7)),
    ("INT(9) UNSIGNED ZEROFILL", _integer(32, signed=False)),
    ("VARCHAR(300) CHARACTER SET utf16", _text(LETTERS, 300)),
    ("VARCHAR(300) CHARACTER SET utf32", _text(LETTERS, 300)),
    ("TEXT CHARACTER SET cp1251", _text("abяё", 300)),
]


def random_row(random: Random, types: Sequence[tuple[str, Make]], nulls: float = 0.1) -> list[Any]:
    """A value of each type; ``nulls`` is the share of NULLs."""
    return [None if random.random() < nulls else make(random) for _, make in types]


def random_table(database: Database, random: Random, rows: int) -> None:
    """Makes the table ``t`` of random columns, with a key ``id``, and so many rows."""
    types = random.choices(TYPES + MORE_TYPES, k=random.randint(1, 40))
    # A column without NULL is read in another way.
    nullable = [random.random() < 0.7 for _ in types]
    columns = ", ".join(
        f"c{place} {sql.removesuffix(' NULL')} {'NULL' if null else 'NOT NULL'}"
        for place, ((sql, _), null) in enumerate(zip(types, nullable, strict=True))
    )
    marks = ", ".join(["%s"] * len(types))
    with database.connect(init_command="SET time_zone = '+00:00'") as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE t (id INT PRIMARY KEY, {columns})")
        for number in range(rows):
            row = [random_row(random, [of], 0.2 if null else 0)[0] for of, null in zip(types, nullable, strict=True)]
            cursor.execute(f"INSERT INTO t VALUES ({number}, {marks})", row)
