"""The random workload on MariaDB or MySQL."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from hashlib import md5
from typing import Any, ClassVar

import pymysql
from pymysql.constants import ER, FIELD_TYPE
from pymysql.converters import conversions

from tests.workload.source import BIG, Contents, Source, in_order
from tidemark.demo.comparison import canonical, canonical_json
from tidemark.testing.servers.mariadb import Database

_DDL = (
    """
    CREATE TABLE accounts (
        id bigint PRIMARY KEY, name text NOT NULL, balance decimal(14,2) NOT NULL, active boolean, settings json,
        opened timestamp(6) NOT NULL, big longtext
    )
    """,
    """
    CREATE TABLE entries (
        account bigint, line int, amount decimal(40,6), note text, at datetime(6), day date, PRIMARY KEY (account, line)
    )
    """,
    "CREATE TABLE labels (code varchar(100) PRIMARY KEY, value double, raw blob, tags json, big json)",
)

_READ = {type_: read for type_, read in conversions.items() if type_ != FIELD_TYPE.TIME}
"""How the driver reads values: times as the server prints them, which is how documents have them."""


class MariaDbSource(Source):
    connector = "tidemark.connectors.mysql"
    errors = pymysql.MySQLError
    sql: ClassVar[Mapping[str, str]] = {
        "insert account": "INSERT IGNORE INTO accounts VALUES (%s, %s, %s, %s, %s, now(6), %s)",
        "insert entry": "INSERT IGNORE INTO entries VALUES (%s, %s, %s, %s, now(6), current_date)",
        "insert label": "INSERT IGNORE INTO labels VALUES (%s, %s, %s, json_array('a', NULL, 'b\"c'), %s)",
        "tag label": "UPDATE labels SET value = %s, tags = json_array_append(tags, '$', %s) WHERE code = %s",
        "move account": "UPDATE IGNORE accounts SET id = %s WHERE id = %s AND id <> %s",
        "move entry": "UPDATE IGNORE entries SET account = %s WHERE account = %s AND line = 1 AND account <> %s",
        "move label": "UPDATE IGNORE labels SET code = %s WHERE code = %s AND code <> %s",
    }

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def schema(self) -> str:
        return self._database.name

    def connect(self, *, autocommit: bool = False) -> Any:
        return self._database.connect(autocommit=autocommit, init_command="SET time_zone = '+00:00'", conv=_READ)

    def config(self) -> dict[str, Any]:
        return self._database.config()

    def create_tables(self, rows: int) -> None:
        with closing(self.connect()) as connection, closing(connection.cursor()) as cursor:
            for statement in _DDL:
                cursor.execute(statement)
            numbers = range(1, rows + 1)
            cursor.executemany("INSERT INTO accounts VALUES (%s, %s, %s, %s, %s, %s, %s)", map(_account, numbers))
            cursor.executemany("INSERT INTO entries VALUES (%s, %s, %s, %s, %s, %s)", map(_entry, numbers))
            cursor.executemany("INSERT INTO labels VALUES (%s, %s, %s, %s, %s)", map(_label, numbers))
            connection.commit()

    def is_conflict(self, error: Exception) -> bool:
        return error.args[:1] in {(ER.LOCK_DEADLOCK,), (ER.LOCK_WAIT_TIMEOUT,), (ER.DUP_ENTRY,)}

    def contents(self, table: str, key: Sequence[str]) -> Contents:
        schema, _, name = table.partition(".")
        with closing(self.connect(autocommit=True)) as connection, closing(connection.cursor()) as cursor:
            as_json = _json_columns(cursor, schema, name, is_mysql=self._database.is_mysql)
            cursor.execute(f"SELECT * FROM `{schema}`.`{name}`")
            columns = [column[0] for column in cursor.description]
            moments = {column[0] for column in cursor.description if column[1] == FIELD_TYPE.TIMESTAMP}
            bits = {column[0]: column[3] for column in cursor.description if column[1] == FIELD_TYPE.BIT}
            found = cursor.fetchall()

        def text(column: str, value: Any) -> str | None:
            if value is None:
                return None
            if column in as_json:
                return canonical_json(value)
            if column in bits:
                number = int.from_bytes(value)
                return canonical(bool(number) if bits[column] == 1 else number)
            # The driver gives a moment in the session's zone, and without one.
            return canonical(value.replace(tzinfo=UTC) if column in moments else value)

        places = [columns.index(column) for column in key]
        rows = [(tuple(row[p] for p in places), tuple(map(text, columns, row))) for row in found]
        return Contents(columns, as_json, in_order(rows))


def _json_columns(cursor: Any, schema: str, table: str, *, is_mysql: bool) -> frozenset[str]:
    """MariaDB's JSON is a longtext with a check that it is JSON."""
    if is_mysql:
        of_type = "SELECT column_name FROM information_schema.columns WHERE data_type = 'json'"
    else:
        of_type = (
            "SELECT constraint_name FROM information_schema.check_constraints"
            " WHERE check_clause = concat('json_valid(`', constraint_name, '`)')"
        )
    where = "table_schema = %s" if is_mysql else "constraint_schema = %s"
    cursor.execute(f"{of_type} AND {where} AND table_name = %s", [schema, table])
    return frozenset(row[0] for row in cursor.fetchall())


def _account(n: int) -> list[Any]:
    opened = datetime(2024, 2, 29, 18, 29, 59, 999999) + timedelta(seconds=n)
    settings = json.dumps({"n": n, "ratio": n / 7, "none": None})
    big = _digest(n) * (BIG // 32) if n % 5 == 0 else None
    return [n, f"account {n}", Decimal(n) * 5 / 4, n % 3 == 0, settings, opened, big]


def _entry(n: int) -> list[Any]:
    at = datetime(1999, 12, 31, 12, 0, 0, 100000) + timedelta(minutes=n)
    note = 'Zoë ☃ "\\' if n % 2 == 0 else None
    return [n // 4, n % 4, Decimal(n).scaleb(-3), note, at, date(1000, 1, 1) + timedelta(days=n)]


def _label(n: int) -> list[Any]:
    tags = json.dumps(["tag,"] * (n % 4) + [None]) if n % 4 else None
    big = json.dumps([_digest(n) * (BIG // 32), 1.50, None]) if n % 7 == 0 else None
    return [f"label {n}", n / 3, bytes.fromhex(_digest(n)), tags, big]


def _digest(n: int) -> str:
    return md5(str(n).encode(), usedforsecurity=False).hexdigest()
