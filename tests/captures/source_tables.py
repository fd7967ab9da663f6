"""The source's side of a capture test: a table of users, the connector's configuration, what the table holds."""

from __future__ import annotations

from typing import Any

from tests.captures.session import Json, Rows, bindings
from tidemark.captures.postgres.server.positions import parse_lsn
from tidemark.testing.servers.postgres import Database

USERS = "CREATE TABLE users (id int PRIMARY KEY, name text)"
FILL = "INSERT INTO users SELECT i, 'name ' || i FROM generate_series(1, 1000) i"
BOUND = bindings("public.users")


def prepare(database: Database, *statements: str) -> None:
    """Runs statements, each in a transaction of its own."""
    with database.session() as connection:
        for statement in statements:
            connection.execute(statement)


def endpoint(database: Database, **more: Any) -> Json:
    """The connector's configuration for ``database``, with a slot of the database's own."""
    return {**database.config(), "slot": f"{database.name}_slot"[-60:], "publication": "tidemark", **more}


def table_rows(database: Database, query: str = "SELECT id, name FROM ONLY users") -> Rows:
    """What ``query`` gives, by its first column, as ``Session.rows`` gives a replayed table."""
    with database.session() as connection:
        cursor = connection.execute(query)
        names = [column.name for column in cursor.description or ()]
        return {(row[0],): dict(zip(names, row, strict=True)) for row in cursor}


def end_of_log(database: Database) -> int:
    """Where the server's log ends, everything before it flushed."""
    with database.session() as connection:
        row = connection.execute("SELECT pg_logical_emit_message(true, 'test', '')").fetchone()
    assert row is not None
    return parse_lsn(row[0])
