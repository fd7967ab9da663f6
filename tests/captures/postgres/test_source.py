"""A database opened for capturing, asked directly: what the engine, and the threads of chunk readers, rely on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from tests.captures.chunk_tails import tails
from tidemark.backfill.range_scan import ChunkPlan
from tidemark.captures.contract.chunk import ChunkRequest
from tidemark.captures.postgres.rows.log_decoder import Relation, RelationColumn
from tidemark.captures.postgres.server.config import parse_endpoint, parse_resource
from tidemark.captures.postgres.source import PostgresSource
from tidemark.captures.postgres.tables.bindings import PostgresBinding
from tidemark.captures.postgres.tables.bound_relations import BoundRelation
from tidemark.captures.postgres.tables.scan_target import ScanTarget
from tidemark.protocol.errors import SourceError
from tidemark.protocol.messages import Binding
from tidemark.testing.servers.postgres import Database

INT4, TEXT = 23, 25


@contextmanager
def opened(database: Database, table: str = "users") -> Iterator[PostgresSource]:
    binding = Binding(resource_config={"schema": "public", "table": table}, state_key=f"public%2F{table}")
    resources = [parse_resource(binding.resource_config)]
    with closing(PostgresSource(parse_endpoint(database.config()), [binding], resources)) as source:
        yield source


@pytest.fixture
def users(database: Database) -> Database:
    with database.connect() as connection:
        connection.execute("CREATE TABLE users (id int PRIMARY KEY)")
        connection.execute("INSERT INTO users VALUES (1)")
    return database


def test_columns_that_come_while_a_reader_prepares_its_chunk_are_in_its_next_one(
    users: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = PostgresBinding.scan_target
    with opened(users) as source, closing(source.open_chunk_reader()) as reader, users.connect() as connection:

        def slowly(binding: PostgresBinding) -> ScanTarget:
            """What the reader's thread does, and in the middle of it what the log's thread does."""
            monkeypatch.setattr(PostgresBinding, "scan_target", compiled)
            target = compiled(binding)
            connection.execute("ALTER TABLE users ADD COLUMN name text DEFAULT 'a'")
            columns = (RelationColumn("id", INT4, -1, True), RelationColumn("name", TEXT, -1, False))
            (oid,) = connection.execute("SELECT 'users'::regclass::oid").fetchone() or (0,)
            bound = source.followed.relation(Relation(oid, "public", "users", "d", columns))
            assert isinstance(bound, BoundRelation) and bound.new_schema is not None
            return target

        monkeypatch.setattr(PostgresBinding, "scan_target", slowly)
        chunks = [reader.read(ChunkRequest(0, ChunkPlan(None, (), scan=True), 10)) for _ in range(2)]
    assert [tails(chunk.rows) for chunk in chunks] == [[b'0]}},"id":1}}}\n'], [b'0]}},"id":1,"name":"a"}}}\n']]


def test_a_source_that_cannot_be_opened_leaves_no_connection(users: Database) -> None:
    with pytest.raises(SourceError, match=r"TM-PG-007.*public\.gone"), opened(users, "gone"):
        pass  # An open connection would be a warning, and that an error.


def test_a_connection_that_breaks_is_said_in_our_words(users: Database) -> None:
    with opened(users) as source, users.connect() as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'tidemark' AND datname = current_database()"
        )
        with pytest.raises(SourceError, match="TM-PG-020"):
            source.start_position(None, None)
