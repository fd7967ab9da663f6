"""Chunks read straight from a database, without a capture around them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from tidemark.backfill.range_scan import ChunkPlan
from tidemark.captures.contract.chunk import Chunk, ChunkRequest
from tidemark.captures.contract.chunk_rows import ReadRows
from tidemark.captures.postgres.chunks.copy_rows import LIMITS, ChunkLimits
from tidemark.captures.postgres.chunks.reader import CopyChunkReader
from tidemark.captures.postgres.server.config import parse_endpoint, parse_resource
from tidemark.captures.postgres.server.session import ReaderEndpoint, connect
from tidemark.captures.postgres.tables.bindings import PostgresBinding, bound_tables
from tidemark.captures.postgres.tables.noted_table import NotedTable
from tidemark.captures.postgres.tables.scan_target import ScanTarget
from tidemark.captures.postgres.tables.snapshots import OWN, ImportedSnapshot
from tidemark.testing.servers.postgres import Connection, Database

Document = dict[str, Any]


@dataclass
class Table:
    """A table of a test's database, and a reader of its chunks."""

    session: Connection
    reader: CopyChunkReader
    binding: PostgresBinding
    emissions: int = 0

    @property
    def target(self) -> ScanTarget:
        return self.binding.scan_target()

    def chunk(self, limit: int = 10, *, snapshot: ImportedSnapshot = OWN, **plan: Any) -> Chunk:
        asked = ChunkPlan(**{"cursor": None, "rereads": (), "scan": True, **plan})
        return self.reader.read(ChunkRequest(0, asked, limit), replace(self.target, snapshot=snapshot))

    def chunks(self, limit: int = 10, **request: Any) -> Iterator[Chunk]:
        """The chunks of a whole scan."""
        while True:
            chunk = self.chunk(limit, **request)
            assert not chunk.rewritten
            yield chunk
            if chunk.end:
                return
            request["cursor"] = after(chunk)

    def documents(self, rows: ReadRows, position: int = 1) -> list[Document]:
        """The documents of a chunk's rows as they are written out at a position."""
        self.emissions += 1
        lines = b"".join(rows.messages(self.binding.chunk_head(position, self.emissions)))
        return [json.loads(line)["captured"]["doc"] for line in lines.splitlines()]

    def scan(self, limit: int = 10, **request: Any) -> list[Document]:
        """The documents of all chunks of a scan."""
        return [document for chunk in self.chunks(limit, **request) for document in self.documents(chunk.rows)]


def after(chunk: Chunk) -> bytes | None:
    """Where the scan goes on, as the engine takes it."""
    if chunk.cursor is not None:
        return chunk.cursor
    return chunk.rows.keys[-1] if len(chunk.rows) else chunk.request.plan.cursor


@contextmanager
def opened(
    database: Database,
    *statements: str,
    table: str = "t",
    limits: ChunkLimits = LIMITS,
    kind: type[CopyChunkReader] = CopyChunkReader,
    **resource: Any,
) -> Iterator[Table]:
    """A reader of a table that ``statements`` made."""
    config = parse_endpoint(database.config())
    with database.connect() as session, connect(config) as catalog:
        for statement in statements:
            session.execute(statement)
        options = parse_resource({"schema": "public", "table": table, **resource})
        (found,) = bound_tables(catalog, [options], "tidemark")
        assert found is not None and found.record is not None
        reader = kind(ReaderEndpoint.of(config), limits)
        try:
            yield Table(
                session,
                reader,
                PostgresBinding(0, "t", options, found, True, noted=NotedTable(files=found.record.files)),
            )
        finally:
            reader.close()


def reopened(table: Table) -> Table:
    """The same table with its columns and identity as they are now."""
    (found,) = bound_tables(table.session, [table.binding.resource], "tidemark")
    assert found is not None and found.record is not None
    return replace(table, binding=replace(table.binding, table=found, noted=NotedTable(files=found.record.files)))
