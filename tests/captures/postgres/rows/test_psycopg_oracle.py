"""The same rows through psycopg's loaders, which share no code with ours: chunk, log and psycopg agree on values."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from ipaddress import IPv4Interface, IPv6Interface, ip_address, ip_interface, ip_network
from random import Random
from typing import Any
from uuid import UUID

import pytest
from psycopg.types.json import Json, Jsonb

from tests.captures.postgres.both_ways import BothWays
from tidemark.testing.servers.postgres import Database

ROWS = 120
LETTERS = "ab 'ü\\\"\n\t{},€😀"

Make = Callable[[Random], Any]
"""A value, as a parameter of psycopg's."""

Read = Callable[[Any], Any]
"""What psycopg has for a value of a document."""


def _as_it_is(value: Any) -> Any:
    return value


def _integer(bits: int) -> Make:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    return lambda random: random.choice((low, high, 0, random.randint(low, high)))


def _text(random: Random) -> str:
    return "".join(random.choices(LETTERS, k=random.randrange(12)))


def _floating(random: Random) -> float:
    return random.choice((0.0, -0.0, 0.1, 1e-300, -1.7e308, float("inf"), float("-inf"), random.uniform(-1e9, 1e9)))


def _single(random: Random) -> float:
    return random.choice((0.1, -1e-30, 3e38, 16777216.0, float("inf"), random.uniform(-1e9, 1e9)))


def _decimal(random: Random) -> Decimal:
    return random.choice((Decimal("-0.10"), Decimal(random.randrange(10**30)).scaleb(-random.randrange(30))))


def _day(random: Random) -> date:
    return random.choice((date.min, date.max, date(2000, 2, 29), date.fromordinal(random.randrange(1, 3_000_000))))


def _moment(random: Random) -> datetime:
    start = random.choice((datetime(1, 1, 2), datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(2024, 2, 29)))
    return start + timedelta(seconds=random.randrange(10**8), microseconds=random.choice((0, 1, 120000, 999999)))


def _instant(random: Random) -> datetime:
    return _moment(random).replace(tzinfo=UTC)


def _json(random: Random) -> Any:
    return {"a": [random.randint(-(10**9), 10**9), None, True, _text(random)], "ü€😀": {}}


def _interval(random: Random) -> timedelta:
    return timedelta(days=random.randrange(-9, 9), seconds=random.randrange(86400), microseconds=random.randrange(9))


_INTERVAL = re.compile(r"P(?:(-?\d+)D)?(?:T(?:(-?\d+)H)?(?:(-?\d+)M)?(?:(-?[\d.]+)S)?)?")


def _timedelta(text: str) -> timedelta:
    match = _INTERVAL.fullmatch(text)
    assert match is not None
    days, hours, minutes, seconds = (Decimal(part or 0) for part in match.groups())
    microseconds = ((days * 24 + hours) * 60 + minutes) * 60_000_000 + seconds * 1_000_000
    return timedelta(microseconds=int(microseconds))


def _address(random: Random) -> Any:
    bits = random.choice((32, 128))
    made = (IPv4Interface if bits == 32 else IPv6Interface)((random.getrandbits(bits), random.randrange(1, bits + 1)))
    return random.choice((made, made.ip))


TYPES: dict[str, tuple[Make, Read]] = {
    "bool": (lambda random: random.random() < 0.5, _as_it_is),
    "int2": (_integer(16), _as_it_is),
    "int4": (_integer(32), _as_it_is),
    "int8": (_integer(64), _as_it_is),
    "oid": (lambda random: random.randrange(1 << 32), _as_it_is),
    "float4": (_single, float),
    "float8": (_floating, float),
    "numeric": (_decimal, Decimal),
    "numeric(38,9)": (lambda random: Decimal(random.randrange(10**20)).scaleb(-9), Decimal),
    "text": (_text, _as_it_is),
    "varchar(40)": (_text, _as_it_is),
    "char(12)": (_text, _as_it_is),
    "bytea": (lambda random: random.randbytes(random.randrange(20)), b64decode),
    "date": (_day, date.fromisoformat),
    "timestamp": (_moment, datetime.fromisoformat),
    "timestamptz": (_instant, datetime.fromisoformat),
    "time": (lambda random: _moment(random).time(), time.fromisoformat),
    "interval": (_interval, _timedelta),
    "inet": (_address, lambda text: ip_interface(text) if "/" in text else ip_address(text)),
    "cidr": (lambda random: ip_interface(_address(random)).network, ip_network),
    "uuid": (lambda random: UUID(int=random.getrandbits(128)), UUID),
    "json": (lambda random: Json(_json(random)), _as_it_is),
    "jsonb": (lambda random: Jsonb(_json(random)), _as_it_is),
    "int4[]": (lambda random: [random.choice((None, -1, 7)) for _ in range(random.randrange(4))], _as_it_is),
    "text[]": (lambda random: [random.choice((None, "NULL", _text(random))) for _ in range(3)], _as_it_is),
    "timestamp[]": (
        lambda random: [_moment(random) for _ in range(2)],
        lambda values: list(map(datetime.fromisoformat, values)),
    ),
}


@pytest.fixture
def both_ways(database: Database) -> Iterator[BothWays]:
    both = BothWays(database)
    with closing(both.session):
        yield both


def test_psycopg_loads_what_documents_have(database: Database, both_ways: BothWays) -> None:
    random = Random(4711)
    names = [f"c{place}" for place in range(len(TYPES))]
    columns = ", ".join(f"{name} {kind}" for name, kind in zip(names, TYPES, strict=True))
    # char(12) pads and cuts: what is stored is what is compared.
    casts = ", ".join(f"%s::{kind}" for kind in TYPES)
    with database.connect() as session:
        session.execute(f"CREATE TABLE t (id int PRIMARY KEY, {columns})")
        with session.cursor() as cursor:
            for number in range(ROWS):
                row = [None if random.random() < 0.1 else make(random) for make, _ in TYPES.values()]
                cursor.execute(f"INSERT INTO t VALUES ({number}, {casts})", row)
        session.execute("SET timezone = 'Asia/Kathmandu'")
        loaded = session.execute("SELECT * FROM t ORDER BY id").fetchall()
    documents = both_ways.both("t")  # It asserts that chunk and log have the same bytes.
    assert [document["id"] for document in documents] == list(range(ROWS))
    for document, (_, *row) in zip(documents, loaded, strict=True):
        for name, (kind, (_, read)), value in zip(names, TYPES.items(), row, strict=True):
            found = document[name]
            assert (None if found is None else read(found)) == value, (kind, json.dumps(found))
