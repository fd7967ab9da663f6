"""Reads chunks as columns, and those as documents that have to be."""

from __future__ import annotations

import logging

from tidemark.backfill.chunk_size import CHUNK_BYTES
from tidemark.captures.contract.chunk import Chunk, ChunkRequest
from tidemark.captures.mysql.chunks.arrow_rows import ArrowRows, Selection
from tidemark.captures.mysql.chunks.reader import SelectChunkReader
from tidemark.captures.mysql.chunks.scan_target import ScanTarget
from tidemark.captures.mysql.terms.config import EndpointConfig
from tidemark.captures.tables.read_as_columns import Unusual, is_by_key

logger = logging.getLogger(__name__)


class ColumnChunkReader(SelectChunkReader):
    """Reads the scans of whole tables by key as columns: the same query in the same snapshot, cut in another way.

    Read as documents are: rows that are read again by their keys, scans with a condition, tables that are read
    together, tables with a column that has no form in Arrow, and chunks with unusual values.

    Arguments as ``SelectChunkReader``.
    """

    def __init__(self, config: EndpointConfig, *, only_reads: bool = False, chunk_bytes: int = CHUNK_BYTES) -> None:
        super().__init__(config, only_reads=only_reads, chunk_bytes=chunk_bytes)
        self._selections: dict[str, tuple[ScanTarget, Selection | None]] = {}

    def read(self, request: ChunkRequest, target: ScanTarget) -> Chunk:
        """See ``tidemark.captures.contract.chunk.ChunkReader``."""
        by_key = is_by_key(request, key=bool(target.key), where=target.where)
        selection = self._selection(target) if by_key else None
        if selection is not None:
            try:
                return self._read(request, selection.target, lambda _: ArrowRows(selection))
            except Unusual as why:
                logger.debug("a chunk of %s is read as documents: %s", target.name, why)
                self._session.close()  # The rest of the rows is on its way.
                self._connect()
        return super().read(request, target)

    def _selection(self, target: ScanTarget) -> Selection | None:
        known, selection = self._selections.get(target.name, (None, None))
        if known != target:
            selection = Selection.of(target)
            self._selections[target.name] = target, selection
        return selection
