"""Which reader of chunks is opened."""

from __future__ import annotations

from tidemark.captures.mysql.chunks.reader import SelectChunkReader
from tidemark.captures.mysql.terms.config import EndpointConfig

PACKAGES = ("nanoarrow",)
"""What ``ColumnChunkReader`` needs."""


def open_reader(config: EndpointConfig, *, only_reads: bool, columns: bool) -> SelectChunkReader:
    """A reader of chunks, ``columns`` where they can be sent. Only its process imports what makes them."""
    if not columns:
        return SelectChunkReader(config, only_reads=only_reads)
    from tidemark.captures.mysql.chunks.column_reader import ColumnChunkReader

    return ColumnChunkReader(config, only_reads=only_reads)
