"""The random workload on PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import psycopg

from tests.workload.source import BIG, Contents, Source, in_order
from tidemark.demo.comparison import json_columns, source_rows
from tidemark.testing.servers.postgres import Connection, Postgres

_DDL = """
CREATE TABLE accounts (
    id bigint PRIMARY KEY, name text NOT NULL, balance numeric(14,2) NOT NULL, active boolean, settings jsonb,
    opened timestamptz NOT NULL, big text
);
ALTER TABLE accounts ALTER COLUMN big SET STORAGE EXTERNAL;
CREATE TABLE entries (
    account bigint, line integer, amount numeric, note text, at timestamp, day date, PRIMARY KEY (account, line)
);
CREATE TABLE labels (code text PRIMARY KEY, value double precision, raw bytea, tags text[], big jsonb);
ALTER TABLE labels ALTER COLUMN big SET STORAGE EXTERNAL;
"""

_FILL = (
    f"""
    INSERT INTO accounts
    SELECT n, 'account ' || n, n * 1.25, n % 3 = 0, jsonb_build_object('n', n, 'ratio', n / 7.0, 'none', NULL),
           timestamptz '2024-02-29 23:59:59.999999+05:30' + n * interval '1 second',
           CASE WHEN n % 5 = 0 THEN repeat(md5(n::text), {BIG} / 32) END
    FROM generate_series(1, ROWS) AS n
    """,
    """
    INSERT INTO entries
    SELECT n / 4, n % 4, CASE n % 5 WHEN 0 THEN 'NaN' ELSE n * 0.001 END, CASE WHEN n % 2 = 0 THEN 'Zoë ☃ "\\' END,
           timestamp '1999-12-31 12:00:00.1' + n * interval '1 minute', date '0001-01-01' + n
    FROM generate_series(1, ROWS) AS n
    """,
    f"""
    INSERT INTO labels
    SELECT 'label ' || n, n / 3.0::double precision, decode(md5(n::text), 'hex'),
           CASE WHEN n % 4 > 0 THEN array_fill('tag,'::text, ARRAY[n % 4]) || NULL::text END,
           CASE WHEN n % 7 = 0 THEN jsonb_build_array(repeat(md5(n::text), {BIG} / 32), 1.50, NULL) END
    FROM generate_series(1, ROWS) AS n
    """,
)


class PostgresSource(Source):
    connector = "tidemark.connectors.postgres"
    errors = psycopg.Error
    schema = "public"
    sql: ClassVar[Mapping[str, str]] = {
        "insert account": "INSERT INTO accounts VALUES (%s, %s, %s, %s, %s, now(), %s) ON CONFLICT DO NOTHING",
        "insert entry": (
            "INSERT INTO entries VALUES (%s, %s, %s, %s, localtimestamp, current_date) ON CONFLICT DO NOTHING"
        ),
        "insert label": ("INSERT INTO labels VALUES (%s, %s, %s, ARRAY['a', NULL, 'b\"c'], %s) ON CONFLICT DO NOTHING"),
        "tag label": "UPDATE labels SET value = %s, tags = tags || %s::text WHERE code = %s",
        "move account": "UPDATE accounts SET id = %s WHERE id = %s AND NOT EXISTS (SELECT FROM accounts WHERE id = %s)",
        "move entry": (
            "UPDATE entries SET account = %s WHERE account = %s AND line = 1"
            " AND NOT EXISTS (SELECT FROM entries WHERE account = %s AND line = 1)"
        ),
        "move label": "UPDATE labels SET code = %s WHERE code = %s AND NOT EXISTS (SELECT FROM labels WHERE code = %s)",
    }

    def __init__(self, postgres: Postgres) -> None:
        self._postgres = postgres

    def connect(self, *, autocommit: bool = False) -> Connection:
        return self._postgres.connect(autocommit=autocommit)

    def config(self) -> dict[str, Any]:
        return self._postgres.config()

    def create_tables(self, rows: int) -> None:
        with self.connect(autocommit=True) as connection:
            connection.execute(_DDL)
            for statement in _FILL:
                connection.execute(statement.replace("ROWS", str(rows)))

    def is_conflict(self, error: Exception) -> bool:
        conflicts = psycopg.errors.DeadlockDetected, psycopg.errors.UniqueViolation, psycopg.errors.SerializationFailure
        return isinstance(error, conflicts)

    def contents(self, table: str, key: Sequence[str]) -> Contents:
        with self.connect(autocommit=True) as connection:
            cursor = connection.execute(f"SELECT * FROM {table} LIMIT 0")
            columns = [column.name for column in cursor.description or ()]
            as_json = json_columns(connection, table)
            return Contents(columns, as_json, in_order(list(source_rows(connection, table, columns, key))))
