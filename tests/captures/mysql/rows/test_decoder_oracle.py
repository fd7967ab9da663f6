"""The same binary log through another decoder, mysql-replication's: every type that it supports, values at random."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

from tests.captures.log_reader import plain
from tests.captures.mysql.captured_log import captured_log
from tests.captures.mysql.table_chunks import run, session_on
from tests.servers.mariadb import Database
from tidemark.captures.mysql.server.replication import log_file_and_offset

ROWS = 150
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


@pytest.mark.filterwarnings("ignore::DeprecationWarning:pymysqlreplication")
@pytest.mark.parametrize("seed", range(2))
def test_another_decoder_reads_the_same_rows(binlog_database: Database, seed: int) -> None:
    database, random = binlog_database, Random(seed)
    columns = ", ".join(f"c{place} {sql}" for place, (sql, _) in enumerate(TYPES))
    run(database, f"CREATE TABLE t (id INT PRIMARY KEY, {columns})")
    marks = ", ".join(["%s"] * len(TYPES))
    with session_on(database) as session, captured_log(database, "t") as log:
        start = log_file_and_offset(session)
        with database.connect(init_command="SET time_zone = '+00:00'") as connection, connection.cursor() as cursor:
            for number in range(ROWS):
                cursor.execute(f"INSERT INTO t VALUES ({number}, {marks})", _row(random))
            for number in range(0, ROWS, 3):
                assigned = ", ".join(f"c{place} = %s" for place in range(len(TYPES)))
                cursor.execute(f"UPDATE t SET {assigned} WHERE id = {number}", _row(random))
            cursor.execute("DELETE FROM t WHERE id % 5 = 0")
        ours = plain(log.read())
        theirs = [(op, _ours(row)) for op, row in _theirs(database, start)]
    assert len(ours) == len(theirs) == ROWS + ROWS // 3 + ROWS // 5
    for (op, document), (their_op, row) in zip(ours, theirs, strict=True):
        assert (op, document["id"]) == (their_op, row["id"])
        for name, value in row.items():
            assert _comparable(document[name], value) == value, (name, TYPES[int(name[1:])][0] if name != "id" else "")


def _row(random: Random) -> list[Any]:
    return [None if random.random() < 0.1 else make(random) for _, make in TYPES]


def _theirs(database: Database, start: tuple[str, int]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows of the table from a place of the log on, as mysql-replication has them."""
    account = {"host": database.host, "port": database.port, "user": database.user, "password": database.password}
    stream = BinLogStreamReader(
        connection_settings=account,
        server_id=4_000_077,
        resume_stream=True,
        blocking=False,
        log_file=start[0],
        log_pos=start[1],
        only_events=[WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent],
        only_schemas=[database.name],
    )
    with closing(stream):
        for event in stream:
            for row in event.rows:
                if isinstance(event, UpdateRowsEvent):
                    yield "u", row["after_values"]
                else:
                    yield "c" if isinstance(event, WriteRowsEvent) else "d", row["values"]


def _ours(row: dict[str, Any]) -> dict[str, Any]:
    return {name: _plain(value) for name, value in row.items()}


def _plain(value: Any) -> Any:
    """A value of mysql-replication as one of JSON, or bytes."""
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, dict):
        return _json_of(value)
    if isinstance(value, date) and not isinstance(value, datetime):
        return value.isoformat()
    return value


def _json_of(value: Any) -> Any:
    """A value within JSON."""
    if isinstance(value, dict):
        return {_text_of(name): _json_of(each) for name, each in value.items()}
    return [_json_of(each) for each in value] if isinstance(value, list) else _text_of(value)


def _text_of(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


def _comparable(document: Any, value: Any) -> Any:
    """What a document has, in the form of mysql-replication's value."""
    if isinstance(value, bytes) and isinstance(document, str):
        return b64decode(document)
    if isinstance(value, datetime):
        moment = datetime.fromisoformat(document)
        # Theirs are in the zone of the machine.
        return moment.astimezone().replace(tzinfo=None) if moment.tzinfo == UTC else moment
    if isinstance(value, timedelta):
        sign, clock = (-1, document[1:]) if document.startswith("-") else (1, document)
        hours, minutes, seconds = clock.split(":")
        return sign * timedelta(hours=int(hours), minutes=int(minutes), microseconds=round(float(seconds) * 1e6))
    if isinstance(value, str) and isinstance(document, dict):
        return value if json.loads(value) == document else document
    return document
