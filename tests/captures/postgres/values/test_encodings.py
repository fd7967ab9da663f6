"""Databases in other encodings than UTF-8, and a text that the server cannot send: it stands for no character."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from psycopg.conninfo import make_conninfo

from tests.captures.session import Session, bindings, session
from tests.captures.source_tables import FILL, USERS, endpoint, prepare, table_rows
from tests.servers.postgres import Database, Postgres

UNSAYABLE = "'x' || chr(129)"
"""Byte 0x81, which WIN1252 has no character for, and the server takes."""

BOTH = bindings("public.users", "public.notes")


@pytest.fixture
def western(database: Database, postgres: Postgres) -> Iterator[Database]:
    """A database in WIN1252."""
    name = f"{database.name}_western"
    with postgres.connect() as admin:
        admin.execute(
            f"CREATE DATABASE {name} ENCODING 'WIN1252' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'".encode()
        )
        yield Database(make_conninfo(postgres.dsn, dbname=name), postgres.version, name=name)
        slots = "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE database = %s"
        admin.execute(slots, [name])
        admin.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = %s", [name]
        )
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.mark.slow
def test_a_text_that_cannot_be_sent_is_an_end_that_is_named(western: Database) -> None:
    prepare(
        western, USERS, FILL, "CREATE TABLE notes (id int PRIMARY KEY, text text)", "INSERT INTO notes VALUES (1, 'é')"
    )
    with session(endpoint(western), BOTH) as capture:
        capture.until(Session.done)
        assert capture.rows(1) == table_rows(western, "SELECT id, text FROM notes")
        prepare(western, f"INSERT INTO notes VALUES (2, {UNSAYABLE})")
        assert capture.finish() == 1
        last = capture.logs[-1]
        assert last["fields"]["code"] == "TM-PG-042" and "0x81" in last["message"], last
    # Where all may be read again the others go on, and so does the table once the value is mended.
    with session(endpoint(western, on_lost_position="backfill"), BOTH, capture.state) as again:
        again.documents += capture.documents
        prepare(western, "UPDATE users SET name = 'followed' WHERE id = 1")
        again.until(lambda c: c.rows(0) == table_rows(western), 30)
        again.until(lambda c: any("notes" in line["message"] and "0x81" in line["message"] for line in c.logs))
        prepare(western, "UPDATE notes SET text = 'mended' WHERE id = 2")
        again.until(lambda c: c.rows(1) == table_rows(western, "SELECT id, text FROM notes"), 60)
