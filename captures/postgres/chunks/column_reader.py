"""Reads chunks as columns, and those as documents that have to be."""

from __future__ import annotations

import logging
import time

from tidemark.captures.contract.chunk import Chunk, ChunkRequest
from tidemark.captures.contract.chunk_rows import PassOn
from tidemark.captures.postgres.chunks.arrow_connection import ArrowConnection, StreamBroken
from tidemark.captures.postgres.chunks.arrow_rows import ArrowRows, Selection
from tidemark.captures.postgres.chunks.copy_rows import LIMITS, ChunkLimits
from tidemark.captures.postgres.chunks.reader import CopyChunkReader
from tidemark.captures.postgres.server.session import ReaderEndpoint, in_recovery
from tidemark.captures.postgres.tables.scan_target import ScanTarget
from tidemark.captures.postgres.tables.snapshots import Snapshot, SnapshotFence
from tidemark.captures.rows.column_stream import BATCH_BYTES
from tidemark.captures.tables.read_as_columns import LargeRow, Unusual, is_by_key
from tidemark.protocol.errors import SourceError

logger = logging.getLogger(__name__)


class ColumnChunkReader(CopyChunkReader):
    """Reads the scans of whole tables by key as columns, on a further connection.

    Read as documents are: rows that are read again by their keys, scans with a condition or by pages, tables without a
    key, tables that are read together, tables with a column that has no form in Arrow, and chunks with unusual values.

    See ``tidemark.captures.readers.reader_process.TableReader``.
    """

    def __init__(self, endpoint: ReaderEndpoint, limits: ChunkLimits = LIMITS) -> None:
        super().__init__(endpoint, limits)
        self._arrow: ArrowConnection | None = None
        self._selections: dict[str, tuple[ScanTarget, Selection | None]] = {}

    def read(self, request: ChunkRequest, table: ScanTarget, pass_on: PassOn | None = None) -> Chunk:
        """See ``tidemark.captures.contract.chunk.ChunkReader``."""
        by_key = is_by_key(request, key=bool(table.key), where=table.where)
        selection = self._selection(table) if by_key else None
        if selection is not None:
            try:
                return self._read_columns(request, table, selection, pass_on)
            except Unusual as why:
                logger.debug("a chunk of %s is read as documents: %s", table.name, why)
                if isinstance(why, LargeRow):
                    self._leave()  # Its buffers keep the size of the row.
        return super().read(request, table)

    def cancel(self) -> None:
        """See ``tidemark.captures.contract.chunk.ChunkReader``."""
        if (arrow := self._arrow) is not None:
            arrow.cancel()
        super().cancel()

    def close(self) -> None:
        """See ``tidemark.captures.contract.chunk.ChunkReader``."""
        self._leave()
        super().close()

    def _read_columns(
        self, request: ChunkRequest, table: ScanTarget, selection: Selection, pass_on: PassOn | None
    ) -> Chunk:
        """Raises Unusual, and SourceError as ``read``."""
        started = time.monotonic()
        arrow = self._arrow = self._arrow or self._connected_arrow(table)
        arrow.canceled = False
        try:
            snapshot = self._begin_columns(arrow, table)
            chunk = self._scan_columns(request, snapshot, arrow, table, selection, pass_on)
            if table.of_types_that_change:
                self._check(table)  # An ALTER TYPE needs no lock of the table.
        finally:
            self._rollback_columns(arrow, table)
        chunk.seconds = time.monotonic() - started
        return chunk

    def _connected_arrow(self, table: ScanTarget) -> ArrowConnection:
        try:
            arrow = ArrowConnection(self._endpoint, self._limits)
        except SourceError as error:
            # The server may have no place for a third connection, and the two that there are can read.
            raise Unusual(f"there is no connection for columns: {error}") from None
        if self._session.info.server_version >= 170000:
            # As of the other connections: it is no start-up option, which older servers would refuse.
            arrow.execute("SET transaction_timeout = 0", table.name)
        return arrow

    def _begin_columns(self, arrow: ArrowConnection, table: ScanTarget) -> Snapshot:
        """Opens the transaction, in the order of ``_begin``: what a standby is, the lock of the table, the snapshot."""
        recovery = in_recovery(self._session)
        begin = (
            "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY;"
            f" SET LOCAL statement_timeout = '{self._limits.statement_seconds}s'; "
        )
        arrow.execute(begin + table.lock().as_string(self._session), table.name)
        if (operators := table.operators()) is not None:
            arrow.execute(operators.as_string(self._session), table.name)
        snapshot = arrow.text("SELECT pg_current_snapshot()::text", table.name)
        return Snapshot.parse(snapshot, recovery=recovery)

    def _scan_columns(
        self,
        request: ChunkRequest,
        snapshot: Snapshot,
        arrow: ArrowConnection,
        table: ScanTarget,
        selection: Selection,
        pass_on: PassOn | None,
    ) -> Chunk:
        plan, limit, most = request.plan, request.limit, self._limits.chunk_bytes
        query = table.scan(plan.cursor, plan.until, None, limit, selection.columns).as_string(self._session)
        whole = True
        try:
            # A chunk ends at the end of a batch.
            with arrow.query(query, min(BATCH_BYTES, most // 8 or 1)) as (schema, arrays):
                # The server fetches the first rows meanwhile.
                chunk = Chunk(request, SnapshotFence(snapshot, self._high()))
                self._check(table)
                found = ArrowRows(selection, schema, pass_on)
                try:
                    for array in arrays:
                        before = found.size
                        found.take(array)
                        # Another batch of this size would be too much.
                        if 2 * found.size - before > most:
                            whole = False
                            arrow.end_query(arrays)
                            break
                except Unusual:
                    arrow.end_query(arrays)
                    raise
                except StreamBroken:
                    whole = False
                    if not len(found):
                        raise
        except StreamBroken as error:
            if arrow.canceled:
                raise SourceError("TM-PG-019", f"reading a chunk of {table.name} was canceled") from None
            raise Unusual(f"no rows came: {error}") from None  # What reads it as documents tells why.
        if len(found):
            chunk.rows = found.rows()
        chunk.scanned = len(found)
        chunk.end = whole and len(found) < limit
        return chunk

    def _rollback_columns(self, arrow: ArrowConnection, table: ScanTarget) -> None:
        try:
            arrow.execute("ROLLBACK", table.name)
        except SourceError as error:
            logger.debug("a connection is given up: %s", error)
            self._leave()

    def _leave(self) -> None:
        arrow, self._arrow = self._arrow, None
        if arrow is not None:
            arrow.close()

    def _selection(self, table: ScanTarget) -> Selection | None:
        known, selection = self._selections.get(table.name, (None, None))
        if known != table:
            selection = Selection.of(table)
            self._selections[table.name] = table, selection
        return selection
