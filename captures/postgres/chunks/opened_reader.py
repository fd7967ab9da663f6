"""Which reader of chunks is opened."""

from __future__ import annotations

from tidemark.captures.postgres.chunks.reader import CopyChunkReader
from tidemark.captures.postgres.server.session import ReaderEndpoint

PACKAGES = ("adbc_driver_manager", "adbc_driver_postgresql", "nanoarrow")
"""What ``ColumnChunkReader`` needs."""


def open_reader(endpoint: ReaderEndpoint, *, columns: bool) -> CopyChunkReader:
    """A reader of chunks, ``columns`` where they can be sent. Only its process imports what reads them."""
    if not columns:
        return CopyChunkReader(endpoint)
    from tidemark.captures.postgres.chunks.column_reader import ColumnChunkReader

    return ColumnChunkReader(endpoint)
