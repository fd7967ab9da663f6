"""The same table read as columns, and as documents."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.captures.column_batches import Logged, of_columns, of_documents
from tests.captures.mysql.table_chunks import TableChunks, table_chunks
from tests.captures.session import Rows
from tidemark.captures.contract.chunk import Chunk
from tidemark.captures.contract.chunk_rows import ColumnRows, ReadRows
from tidemark.protocol.codec import split_captured
from tidemark.testing.servers.mariadb import Database


@contextmanager
def both(database: Database, table: str = "t", **options: Any) -> Iterator[tuple[TableChunks, TableChunks]]:
    """A table that is read as columns, and the same as documents."""
    with (
        table_chunks(database, table, as_columns=True, **options) as columns,
        table_chunks(database, table, **options) as documents,
    ):
        yield columns, documents


def logged(table: TableChunks, rows: ReadRows) -> Logged:
    """What the change log has of the rows of a chunk."""
    schema = table.binding.document_schema
    if isinstance(rows, ColumnRows):
        return of_columns(b"".join(rows.pieces), schema)
    lines = b"".join(rows.messages(table.binding.chunk_head("1"))).splitlines(keepends=True)
    return of_documents([found[1] for line in lines if (found := split_captured(line))], schema)


def alike(columns: TableChunks, documents: TableChunks, **request: Any) -> Chunk:
    """A chunk of columns, which is that of documents."""
    chunk, expected = columns.read(**request), documents.read(**request)
    assert list(chunk.rows.keys) == list(expected.rows.keys)
    assert logged(columns, chunk.rows) == logged(documents, expected.rows)
    assert (chunk.end, chunk.cursor, chunk.scanned) == (expected.end, expected.cursor, expected.scanned)
    return chunk


def table_rows(database: Database, query: str) -> Rows:
    """What ``query`` gives, by its first column, as ``Session.rows`` gives a replayed table."""
    with database.connect() as connection, connection.cursor() as cursor:
        cursor.execute(query)
        names = [column[0] for column in cursor.description or ()]
        return {(row[0],): dict(zip(names, row, strict=True)) for row in cursor.fetchall()}
