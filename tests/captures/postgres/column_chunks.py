"""The same table read as columns, and as documents."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from tests.captures.column_batches import Logged, of_columns, of_documents
from tests.captures.postgres.chunk_reads import Table, opened
from tidemark.captures.contract.chunk import Chunk
from tidemark.captures.contract.chunk_rows import ColumnRows, ReadRows
from tidemark.captures.postgres.chunks.column_reader import ColumnChunkReader
from tidemark.captures.postgres.chunks.copy_rows import LIMITS, ChunkLimits
from tidemark.captures.postgres.server.config import parse_endpoint
from tidemark.captures.postgres.server.session import ReaderEndpoint
from tidemark.protocol.codec import split_captured
from tidemark.testing.servers.postgres import Database


@contextmanager
def both(
    database: Database, *statements: str, limits: ChunkLimits = LIMITS, **resource: Any
) -> Iterator[tuple[Table, Table]]:
    """A table that is read as columns, and the same as documents."""
    with opened(database, *statements, limits=limits, **resource) as documents:
        reader = ColumnChunkReader(ReaderEndpoint.of(parse_endpoint(database.config())), limits)
        try:
            yield replace(documents, reader=reader), documents
        finally:
            reader.close()


def logged(table: Table, rows: ReadRows) -> Logged:
    """What the change log has of the rows of a chunk."""
    schema = table.binding.document_schema
    if isinstance(rows, ColumnRows):
        return of_columns(b"".join(rows.pieces), schema)
    lines = b"".join(rows.messages(table.binding.chunk_head(1, 1))).splitlines(keepends=True)
    return of_documents([found[1] for line in lines if (found := split_captured(line))], schema)


def alike(columns: Table, documents: Table, limit: int = 10_000, **plan: Any) -> Chunk:
    """A chunk of columns, which is that of documents."""
    chunk, expected = columns.chunk(limit, **plan), documents.chunk(limit, **plan)
    assert list(chunk.rows.keys) == list(expected.rows.keys)
    assert logged(columns, chunk.rows) == logged(documents, expected.rows)
    assert (chunk.end, chunk.cursor, chunk.scanned) == (expected.end, expected.cursor, expected.scanned)
    return chunk
