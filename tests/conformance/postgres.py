"""PostgreSQL under the conformance suite."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import psycopg
import pytest
from psycopg import sql

from tests.captures.session import Json
from tests.conformance import postgres_literals
from tests.conformance.engine import Engine, Literals
from tidemark.testing.servers.postgres import Database, drop_slot


class PostgresEngine(Engine):
    module = "tidemark.connectors.postgres"
    schema = "public"
    types: Mapping[str, str] = {
        "text": "text",
        "ci": 'text COLLATE "C"',
        "bytes": "bytea",
        "uuid": "uuid",
        "datetime": "timestamp",
        "instant": "timestamptz",
        "json": "jsonb",
    }
    statements: ClassVar[Mapping[str, str]] = {
        "retype extra to text": "ALTER TABLE users ALTER COLUMN extra TYPE text",
        "log old rows": "ALTER TABLE users REPLICA IDENTITY FULL",
        "drop key": "ALTER TABLE users DROP CONSTRAINT users_pkey",
    }
    errors = psycopg.Error
    retyped = "column_written"
    prefix = "TM-PG"
    text_for_bad_values = postgres_literals.TEXT_FOR_BAD_VALUES
    # Not moments, of which some are in no year of Python's, nor composites and ranges, which are Python objects.
    own_values = r"(?!date|time|interval|.*range|int2vector|public\.|ext\.)"

    def __init__(self, database: Database) -> None:
        self._database = database
        with database.connect() as admin:  # not every build knows collations of ICU
            if admin.execute("SELECT FROM pg_collation WHERE collname = 'und-x-icu'").fetchone() is not None:
                self.types = {**self.types, "ci": 'text COLLATE "und-x-icu"'}
        self._slot = f"{database.name}_slot"[-60:]

    @property
    def database(self) -> Database:
        return self._database

    def literals(self) -> Literals:
        with self._database.connect() as session:
            cases = postgres_literals.cases_of(session)
        return {
            of: [(postgres_literals.expression(of, text), expected) for text, expected in values]
            for of, values in cases.items()
        }

    def connect(self, *, autocommit: bool) -> Any:
        return self._database.connect(autocommit=autocommit, options="-c timezone=UTC")

    def query(self, table: str) -> str:
        columns = (
            "SELECT string_agg(format(CASE typtype WHEN 'c' THEN 'to_jsonb(%1$I) AS %1$I' ELSE '%1$I' END, attname),"
            " ', ' ORDER BY attnum) FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid"
            " WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped"
        )
        with self._database.connect() as session:
            row = session.execute(columns.replace("%1$I", "%%1$I"), [f'"{table}"']).fetchone()
        assert row is not None
        return f'SELECT {row[0]} FROM "{table}"'

    def config(self, **more: Any) -> Json:
        return {**self._database.config(), "slot": self._slot, "publication": "tidemark", **more}

    def publish(self, bound: list[Json]) -> None:
        published = "SELECT FROM pg_publication_tables WHERE pubname = 'tidemark' AND tablename = %s"
        with self._database.connect() as admin:
            for table in (binding["resourceConfig"]["table"] for binding in bound):
                if admin.execute(published, [table]).fetchone() is None:
                    admin.execute(sql.SQL("ALTER PUBLICATION tidemark ADD TABLE {}").format(sql.Identifier(table)))

    def lose_log(self) -> None:
        drop_slot(self._database, self._slot)

    def other_server(self, state: Json) -> Json:
        return {**state, "source": {**state["source"], "system": "1"}}

    def place(self, document: Json) -> Any:
        return document["_meta"]["source"]["loc"]

    def end_log_connections(self) -> int:
        with self._database.connect() as admin:
            ended = admin.execute(
                "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = %s"
                " AND active_pid IS NOT NULL",
                [self._slot],
            ).fetchall()
        return len(ended)

    def restart_server(self) -> None:
        if self._database.server is None:
            pytest.skip("the server is not ours to restart")
        # A fast stop waits for walsenders, and they for whoever acknowledges: for this test, which waits for the stop.
        self._database.server.restart("immediate")
