"""MariaDB (or MySQL) under the conformance suite."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any, ClassVar

import pymysql
import pytest

from tests.captures.session import Json
from tests.conformance import mysql_literals
from tests.conformance.engine import Engine, Literals
from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.mariadb import Database, end_sessions


class MariaDbEngine(Engine):
    module = "tidemark.connectors.mysql"
    types: Mapping[str, str] = {
        "text": "varchar(200)",
        "ci": "varchar(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
        "bytes": "varbinary(300)",
        "uuid": "uuid",
        "datetime": "datetime(6)",
        "instant": "timestamp(6)",
        "json": "json",
    }
    statements: ClassVar[Mapping[str, str]] = {
        "retype extra to text": "ALTER TABLE users MODIFY COLUMN extra varchar(50)",
        "log old rows": "DO 0",  # a binlog of full rows has them
        "drop key": "ALTER TABLE users DROP PRIMARY KEY",
    }
    errors = pymysql.MySQLError
    retyped = "column_values"
    prefix = "TM-MY"
    text_for_bad_values = mysql_literals.TEXT_FOR_BAD_VALUES
    # Not fractions of a second, which documents have as many of as the column, nor FLOAT, of which the server shows six
    # digits, nor bits and geometries.
    own_values = r"(?!.*TIME|FLOAT|BIT|POINT|GEOMETRY|MULTI|VECTOR|JSON)"
    loosely = ("SET sql_mode = ''",)

    def __init__(self, database: Database) -> None:
        self._database = database
        self.types = self.types if database.has_type("uuid") else {**self.types, "uuid": "binary(36)"}

    @property
    def schema(self) -> str:
        return self._database.name

    @property
    def database(self) -> Database:
        return self._database

    def literals(self) -> Literals:
        found: dict[str, list[tuple[str, Any]]] = {}
        for of, value, expected in mysql_literals.cases_of(self._database):
            found.setdefault(of, []).append((value, expected))
        return found

    def connect(self, *, autocommit: bool) -> Any:
        dialect = "SET sql_mode = concat(@@sql_mode, ',ANSI_QUOTES,PIPES_AS_CONCAT'), time_zone = '+00:00'"
        return self._database.connect(autocommit=autocommit, init_command=dialect)

    def config(self, **more: Any) -> Json:
        return {**self._database.config(), **more}

    def publish(self, bound: list[Json]) -> None:
        """Nothing: the binlog has every table, and tables are captured by name."""

    def lose_log(self) -> None:
        with closing(self._database.connect()) as admin, admin.cursor() as cursor:
            # The server keeps what is being read, and notices late that a reader has gone.
            end_sessions(admin, "command LIKE %s", ["Binlog Dump%"])
            cursor.execute("FLUSH BINARY LOGS")
            # A file is kept until the engines need it no more to recover, which is soon.
            wait_until(lambda: only_the_last_log(cursor), 20, "the older binary logs are purged")

    def other_server(self, state: Json) -> Json:
        """One without GTIDs: with them, whichever server has the transactions will do."""
        source = {**state["source"], "server": "another"}
        return {**state, "source": source, "cursor": state["cursor"].partition(";")[0] + ";"}

    def place(self, document: Json) -> Any:
        file, position, row = document["_meta"]["source"]["cursor"].rsplit(":", 2)
        return file, int(position), int(row)

    def end_log_connections(self) -> int:
        with closing(self._database.connect()) as admin, admin.cursor() as cursor:
            cursor.execute("SELECT id FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'")
            sessions = [int(row[0]) for row in cursor.fetchall()]
            for session in sessions:
                cursor.execute(f"KILL {session}")
        return len(sessions)

    def restart_server(self) -> None:
        if self._database.server is None:
            pytest.skip("the server is not ours to restart")
        self._database.server.restart()


def only_the_last_log(cursor: Any) -> bool:
    cursor.execute("SHOW BINARY LOGS")
    files = [row[0] for row in cursor.fetchall()]
    cursor.execute("PURGE BINARY LOGS TO %s", [files[-1]])
    return len(files) == 1
