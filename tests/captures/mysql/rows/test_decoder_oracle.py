"""The same binary log through another decoder, mysql-replication's: every type that it supports, values at random."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator
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
from tests.captures.mysql.random_rows import TYPES, random_row
from tests.captures.mysql.table_chunks import run, session_on
from tidemark.captures.mysql.server.replication import log_file_and_offset
from tidemark.testing.servers.mariadb import Database

ROWS = 150


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
                cursor.execute(f"INSERT INTO t VALUES ({number}, {marks})", random_row(random, TYPES))
            for number in range(0, ROWS, 3):
                assigned = ", ".join(f"c{place} = %s" for place in range(len(TYPES)))
                cursor.execute(f"UPDATE t SET {assigned} WHERE id = {number}", random_row(random, TYPES))
            cursor.execute("DELETE FROM t WHERE id % 5 = 0")
        ours = plain(log.read())
        theirs = [(op, _ours(row)) for op, row in _theirs(database, start)]
    assert len(ours) == len(theirs) == ROWS + ROWS // 3 + ROWS // 5
    for (op, document), (their_op, row) in zip(ours, theirs, strict=True):
        assert (op, document["id"]) == (their_op, row["id"])
        for name, value in row.items():
            assert _comparable(document[name], value) == value, (name, TYPES[int(name[1:])][0] if name != "id" else "")


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
