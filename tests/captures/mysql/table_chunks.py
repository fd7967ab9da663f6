"""Reads chunks of one table, on sessions as the connector opens them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import orjson

from tests.captures.chunk_tails import head_of
from tidemark.backfill.chunk_size import CHUNK_BYTES
from tidemark.backfill.keys import Key, key_texts
from tidemark.backfill.range_scan import ChunkPlan
from tidemark.captures.contract.chunk import Chunk, ChunkRequest
from tidemark.captures.contract.chunk_rows import ReadRows
from tidemark.captures.mysql.chunks.reader import SelectChunkReader
from tidemark.captures.mysql.chunks.scan_target import ScanTarget
from tidemark.captures.mysql.server.session import Session, connect
from tidemark.captures.mysql.tables.bindings import BoundTable, bound_tables
from tidemark.captures.mysql.terms.config import EndpointConfig, parse_endpoint, parse_resource
from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.mariadb import Database

Document = dict[str, Any]


_SEQUENCE = re.compile(r"\bseq_1_to_(\d+)\b")


@contextmanager
def session_on(database: Database) -> Iterator[Session]:
    """A session of the connector's kind, in the test's database."""
    with closing(connect(parse_endpoint(database.config()))) as session:
        session.rows(f"USE {database.name}")
        yield session


def run(database: Database, *statements: str) -> None:
    """Runs statements as an application would; ``seq_1_to_500`` is a table on MySQL too, of that many numbers."""
    with database.connect() as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(_SEQUENCE.sub(_sequence, statement) if database.is_mysql else statement)
        session = connection.thread_id()
    if any(statement.startswith("XA PREPARE") for statement in statements):
        with database.connect() as connection, connection.cursor() as cursor:
            running = f"SELECT 1 FROM information_schema.processlist WHERE id = {session}"
            # Until then no other session can end what this one has prepared.
            wait_until(lambda: not cursor.execute(running), 30, "the server has let go of the session")


def prepare_xa(database: Database, xid: str, *statements: str) -> None:
    """Leaves an XA transaction prepared, for any other session to end."""
    run(database, f"XA START {xid}", *statements, f"XA END {xid}", f"XA PREPARE {xid}")


def _sequence(table: re.Match[str]) -> str:
    digits = "(SELECT 0 AS n UNION ALL " + " UNION ALL ".join(f"SELECT {n}" for n in range(1, 10)) + ")"
    places = range(len(table[1]))
    number = " + ".join(f"{10**place} * d{place}.n" for place in places)
    joined = ", ".join(f"{digits} d{place}" for place in places)
    return f"(SELECT {number} AS seq FROM {joined} HAVING seq BETWEEN 1 AND {table[1]} ORDER BY seq) {table[0]}"


def binding_of(
    database: Database, table: str, *, salt: str = "", tinyint1_as_bool: bool = False, **resource: Any
) -> BoundTable:
    """The table as a capture with these options binds it, with those of its resource; ``salt`` is ``hash_salt``."""
    config = parse_resource({"schema": database.name, "table": table, **resource})
    with session_on(database) as session:
        (found,) = bound_tables(session, [config])
    assert found is not None
    return BoundTable(0, "t", config, found, emit_truncate=True, tinyint1_as_bool=tinyint1_as_bool, salt=salt.encode())


class TableChunks:
    """A chunk reader for one table of a database."""

    def __init__(
        self,
        database: Database,
        table: str,
        *,
        config: EndpointConfig | None = None,
        chunk_bytes: int = CHUNK_BYTES,
        as_columns: bool = False,
        **resource: Any,
    ) -> None:
        self.reader = SelectChunkReader(
            config or parse_endpoint(database.config()), columns=as_columns, chunk_bytes=chunk_bytes
        )
        self.binding = binding_of(database, table, **resource)

    @property
    def target(self) -> ScanTarget:
        return ScanTarget.of(self.binding)

    def read(
        self,
        cursor: Key | None = None,
        *,
        limit: int = 1000,
        scan: bool = True,
        rereads: Sequence[Key] = (),
        until: Key | None = None,
        where: str | None = None,
    ) -> Chunk:
        plan = ChunkPlan(cursor, tuple(rereads), scan, until, where)
        return self.reader.read(ChunkRequest(0, plan, limit), self.target)

    def scan(self, limit: int, **request: Any) -> tuple[list[Key], list[Document]]:
        """Keys and documents of a whole scan in chunks of so many rows."""
        keys: list[Key] = []
        rows: list[Document] = []
        for chunk in self.chunks(limit, **request):
            keys += chunk.rows.keys
            rows += documents(chunk.rows)
        return keys, rows

    def chunks(self, limit: int, **request: Any) -> Iterator[Chunk]:
        """The chunks of a whole scan, of so many rows each."""
        cursor: Key | None = None
        for _ in range(1000):
            chunk = self.read(cursor, limit=limit, **request)
            yield chunk
            if chunk.end:
                return
            cursor = chunk.cursor or chunk.rows.keys[-1]
        raise AssertionError(f"the scan does not come to its end: it stands at {cursor!r}")

    def close(self) -> None:
        self.reader.close()


@contextmanager
def table_chunks(database: Database, table: str, **options: Any) -> Iterator[TableChunks]:
    with closing(TableChunks(database, table, **options)) as chunks:
        yield chunks


def documents(rows: ReadRows) -> list[Document]:
    """The columns of each row, from its line."""
    head = head_of(b'{"captured":{"binding":0,"doc":{"_meta":{"source":{"cursor":"')
    lines = b"".join(rows.messages(head)).splitlines()
    found = [orjson.loads(line)["captured"]["doc"] for line in lines]
    for document in found:
        del document["_meta"]
    return found


def texts(keys: Sequence[Key]) -> list[list[str]]:
    """Keys as the state holds them."""
    return [key_texts(key) for key in keys]
