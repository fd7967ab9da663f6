"""Databases in other encodings than UTF-8, and what cannot be typed there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from psycopg.conninfo import make_conninfo

from tidemark.testing.servers.postgres import Database, Postgres, drop_slots

InEncoding = Callable[[str], Database]


@contextmanager
def encoded_database(postgres: Postgres, name: str, encoding: str) -> Iterator[Database]:
    with postgres.connect() as admin:
        admin.execute(
            f"CREATE DATABASE {name} ENCODING '{encoding}' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'".encode()
        )
        try:
            yield Database(
                make_conninfo(postgres.dsn, dbname=name, client_encoding="UTF8"), postgres.version, name=name
            )
        finally:
            drop_slots(admin, name)
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def with_bytes(statement: str, *names: str) -> str:
    """A statement with names, or labels, for each ``%I`` or ``%L``, that have the bytes of hexadecimal digits."""
    texts = "".join(f", convert_from('\\x{name}'::bytea, getdatabaseencoding())" for name in names)
    return f"DO $do$ BEGIN EXECUTE format($st${statement}$st${texts}); END $do$"
