"""What the PostgreSQL benchmarks share: a server, the table of ten columns, and timing whole processes in turn."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from tidemark.testing.servers.postgres_server import PostgresServer, embedded_installations

TABLE = """
CREATE TABLE bench (
    id bigint PRIMARY KEY, customer int NOT NULL, quantity int NOT NULL, price numeric(12,2) NOT NULL,
    created timestamp NOT NULL, updated timestamptz NOT NULL, note text NOT NULL, paid boolean NOT NULL,
    weight double precision NOT NULL, attributes jsonb NOT NULL
)"""
"""Ten columns, about 230 bytes a row as text."""

ROWS = """
INSERT INTO bench
SELECT i, i %% 99991, i %% 17, (i %% 1000007) / 100.0, timestamp '2024-01-01' + i * interval '1.001 s',
       timestamptz '2024-01-01' + i * interval '1.003 s', 'order ' || i || ', delivered to the side door, thank you',
       i %% 2 = 0, i / 7.0, jsonb_build_object('source', 'web', 'tags', jsonb_build_array('new', i %% 9), 'n', i)
FROM generate_series(%s::bigint, %s::bigint) i"""

CONNECTOR = [sys.executable, "-m", "tidemark.connectors.postgres"]


@contextmanager
def server(**settings: str) -> Iterator[PostgresServer]:
    """The newest server whose programs (pg_recvlogical, psql) are at hand, with fsync off and enough WAL."""
    folders = [*sorted(Path("/usr/lib/postgresql").glob("*/bin")), *embedded_installations().values()]
    for folder in folders:
        if (folder / "pg_recvlogical").exists() and (folder / "psql").exists():
            tuned = {"max_wal_size": "8GB", "shared_buffers": "512MB", "checkpoint_timeout": "1h", **settings}
            with PostgresServer(folder, settings=tuned) as running:
                yield running
            return
    sys.exit("no PostgreSQL installation with pg_recvlogical and psql was found")


@contextmanager
def published_table(rows: int = 0) -> Iterator[tuple[PostgresServer, psycopg.Connection]]:
    """A server whose table, with so many rows, is in the publication ``bench``; and a session."""
    with server() as running, connect(running) as session:
        session.execute(TABLE)
        if rows:
            session.execute(ROWS, [1, rows])
            session.execute("VACUUM ANALYZE bench")
        session.execute("CREATE PUBLICATION bench FOR TABLE bench")
        yield running, session


def connect(running: PostgresServer) -> psycopg.Connection:
    return psycopg.connect(running.dsn, autocommit=True)


def config(running: PostgresServer, **more: Any) -> dict[str, Any]:
    """The connector's endpoint configuration."""
    parts = conninfo_to_dict(running.dsn)
    return {
        "host": parts["host"],
        "port": int(parts["port"] or 5432),
        "user": parts["user"],
        "password": parts.get("password", ""),
        "database": parts["dbname"],
        **more,
    }


def capture(endpoint: dict[str, Any], bindings: list[dict[str, Any]], output: IO[bytes]) -> None:
    """Runs the connector until it is caught up, into an empty file.

    There are no acknowledgements: stdin ends after the request.
    """
    spec = {"name": "bench", "config": endpoint, "bindings": bindings}
    line = json.dumps({"open": {"capture": spec, "state": {}}}).encode() + b"\n"
    environment = {**os.environ, "TIDEMARK_STOP_WHEN_CAUGHT_UP": "1", "LOG_LEVEL": "error"}
    output.truncate(0)
    output.seek(0)
    subprocess.run(CONNECTOR, input=line, stdout=output, env=environment, check=True)


def binding(**resource: Any) -> dict[str, Any]:
    return {
        "resourceConfig": {"schema": "public", "table": "bench", **resource},
        "resourcePath": ["public", "bench"],
        "collection": {"name": "public/bench", "key": ["/id"]},
        "stateKey": "public%2Fbench",
    }


def check_documents(lines: IO[bytes], rows: int) -> None:
    """A benchmark of something that lost rows would mean nothing."""
    lines.seek(0)
    count = sum(line.startswith(b'{"captured"') for line in lines)
    if count != rows:
        sys.exit(f"{count} documents came out of {rows} rows")
