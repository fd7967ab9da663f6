"""Reads chunks: COPY of some rows of a table inside one short REPEATABLE READ transaction, with its fence."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import replace

from psycopg import sql

from tidemark.backfill.keys import Key
from tidemark.captures.contract.chunk import Chunk, ChunkRequest
from tidemark.captures.contract.chunk_rows import PassOn
from tidemark.captures.contract.errors import TableAltered
from tidemark.captures.postgres.catalog.encodings import transcoder
from tidemark.captures.postgres.catalog.table_record import read_records
from tidemark.captures.postgres.chunks.copy_rows import LIMITS, ChunkLimits, CopyConnection, UnsayableText
from tidemark.captures.postgres.chunks.pages import File, Place, Rewritten, files_query, next_pages, parse_file
from tidemark.captures.postgres.chunks.row_decoder import ChunkDecoder, DecodedRows
from tidemark.captures.postgres.server.session import LONG_ANSWER_SECONDS, ReaderEndpoint, asking, connect, connect_pq
from tidemark.captures.postgres.tables.scan_target import ScanTarget
from tidemark.captures.postgres.tables.snapshots import Snapshot, SnapshotFence, high_position
from tidemark.captures.tables.bad_values import UNDECODABLE, BadValues
from tidemark.protocol.errors import SourceError

logger = logging.getLogger(__name__)

_SHORT_WAIT = sql.SQL("SET LOCAL lock_timeout = '1s'")


class CopyChunkReader:
    """Reads chunks: a connection for rows, one for fences.

    See ``tidemark.captures.readers.reader_process.TableReader``.
    """

    def __init__(self, endpoint: ReaderEndpoint, limits: ChunkLimits = LIMITS) -> None:
        self._endpoint = endpoint
        self._session = connect(endpoint, LONG_ANSWER_SECONDS)
        self._limits = limits
        self._rows = self._connected()
        self._decoders: dict[str, tuple[ScanTarget, ChunkDecoder]] = {}

    def _connected(self) -> CopyConnection:
        return CopyConnection(connect_pq(self._endpoint), transcoder(lambda: self._session), self._limits)

    def read(self, request: ChunkRequest, table: ScanTarget, pass_on: PassOn | None = None) -> Chunk:
        """Reads a chunk of ``table``; see ``tidemark.captures.contract.chunk.ChunkReader``."""
        started = time.monotonic()
        try:
            fence = self._begin(table, table.lock())
            self._check(table)
            chunk = self._chunk(request, table, fence)
            if table.of_types_that_change:
                self._check(table)  # An ALTER TYPE needs no lock of the table.
        finally:
            self._rows.rollback()  # Also after an error: the transaction must not stay open longer than the chunk.
        chunk.seconds = time.monotonic() - started
        return chunk

    def read_together(self, requests: Sequence[ChunkRequest], tables: Sequence[ScanTarget]) -> list[Chunk | None]:
        """See ``tidemark.captures.contract.chunk.ChunkReader``."""
        chunks: list[Chunk | None] = [None] * len(requests)
        same = [True] * len(requests)
        # The search path, by which operators are found, is the transaction's.
        places = [place for place, table in enumerate(tables) if table.operators() is None]
        if not places:
            return chunks
        try:
            # A table that is locked must not keep the locks of all others: each of them would block its ALTER TABLE.
            locks = sql.SQL("; ").join([_SHORT_WAIT, *(tables[place].lock() for place in places)])
            fence = self._begin(tables[places[0]], locks)
            same = self._unaltered(tables)
            size = 0
            for place in places:
                if same[place] and size < self._limits.chunk_bytes and self._rows.in_transaction:
                    chunks[place] = chunk = self._chunk(requests[place], tables[place], fence)
                    size += chunk.rows.size
        except SourceError as error:
            # Whatever it is, the chunk that is read by itself tells, and what was read before is right.
            logger.debug("tables are read one by one: %s", error)
        finally:
            self._rows.rollback()
        if self._rows.closed:
            self._rows = self._connected()
        if any(table.of_types_that_change for table in tables):
            same = self._unaltered(tables)
        return [chunk if unaltered else None for chunk, unaltered in zip(chunks, same, strict=True)]

    def _chunk(self, request: ChunkRequest, table: ScanTarget, fence: SnapshotFence) -> Chunk:
        """The rows of a chunk, within the transaction."""
        started = time.monotonic()
        decoder = self._decoder(table)
        decoder.bad.clear()
        decoder.apart.clear()
        chunk = Chunk(request, fence)
        # Rereads come first: a scan that is ended early takes its transaction with it. They are few, and a row that is
        # not found counts as deleted, so they are never ended early.
        self._reread(chunk, table)
        if request.plan.physical and request.plan.scan:
            self._scan_pages(chunk, table)
        elif request.plan.scan:
            self._scan_keys(chunk, table)
        chunk.bad = decoder.bad.copy()
        chunk.apart = decoder.apart.copy()
        chunk.seconds = time.monotonic() - started
        return chunk

    def files(self, table: ScanTarget) -> list[File]:
        """What a physical scan of the table reads, in its order."""
        result = self._rows.execute(files_query(table.table.oid), table.name)
        return [
            parse_file([_decoded(result.get_value(row, column)) for column in range(result.nfields)])
            for row in range(result.ntuples)
        ]

    def cancel(self) -> None:
        """See ``tidemark.captures.contract.chunk.ChunkReader``."""
        self._rows.cancel()

    def close(self) -> None:
        """See ``tidemark.captures.contract.chunk.ChunkReader``."""
        self._rows.close()
        self._session.close()

    # The transaction.

    def _begin(self, table: ScanTarget, locks: sql.Composable) -> SnapshotFence:
        """Opens the transaction, with tables locked before its snapshot is taken.

        To a snapshot that is older than an ALTER TABLE which rewrote the table, the table is empty (PostgreSQL docs,
        13.6 "Caveats"): the scan would take that for its end.
        """
        recovery = self._rows.in_recovery  # As it was before the snapshot: a promotion in between must not be missed.
        begin = sql.SQL(
            "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY; {} SET LOCAL statement_timeout = '{}s'; {}"
        ).format(table.snapshot.imported(), sql.SQL(str(self._limits.statement_seconds)), locks)
        self._rows.execute(self._text(begin), table.name)
        if (operators := table.operators()) is not None:
            self._rows.execute(self._text(operators), table.name)
        snapshot = self._value("SELECT pg_current_snapshot()", table.name)
        return SnapshotFence(Snapshot.parse(snapshot, recovery=recovery), self._high())

    def _high(self) -> int:
        return high_position(self._session, read_only=self._endpoint.read_only)

    def _check(self, table: ScanTarget) -> None:
        """The lock keeps the table as it is now; the decoder is for what the log, or the catalog, showed last.

        Asked beside the transaction, whose snapshot would show the catalog as it was all the time.
        """
        if not all(self._unaltered([table])):
            raise TableAltered(
                "TM-PG-030", f"{table.name} was altered or created again, and the log has not reached that yet"
            )

    def _unaltered(self, tables: Sequence[ScanTarget]) -> list[bool]:
        with asking(f"checking {tables[0].name}"):
            records = read_records(self._session, "", [table.table.path for table in tables])
        return [table.fits(records.get(table.table.path)) for table in tables]

    # What is read in it.

    def _reread(self, chunk: Chunk, table: ScanTarget) -> None:
        if keys := chunk.request.plan.rereads:
            found = DecodedRows(self._decoder(table))
            self._rows.copy(self._text(table.rows(keys)), found.take, table.name, whole=True)
            chunk.rereads = found.rows()

    def _scan_keys(self, chunk: Chunk, table: ScanTarget) -> None:
        plan, limit = chunk.request.plan, chunk.request.limit
        cursor, until, where = plan.cursor, plan.until, plan.where
        conditional = bool(table.where or where)
        # Rows that meet the condition may be rare: the chunk ends with what it looks at, not with what it finds.
        bound = self._key(table.bound(cursor, until, where, limit), table) if conditional else None
        query = table.scan(cursor, until if bound is None else bound, where, None if conditional else limit)
        found = DecodedRows(self._decoder(table), len(chunk.rereads))
        whole = self._rows.copy(self._text(query), found.take, table.name)
        chunk.take_scan(found.rows(), limit, whole=whole, conditional=conditional, bound=bound)

    def _scan_pages(self, chunk: Chunk, table: ScanTarget) -> None:
        plan, limit = chunk.request.plan, chunk.request.limit
        files = self.files(table)
        cursor, until = (None if key is None else Place.parse(key) for key in (plan.cursor, plan.until))
        try:
            pages = next_pages(files, cursor, until, limit)
        except Rewritten:
            chunk.rewritten = True
            return
        if pages is None:
            chunk.end = True
            return
        start = pages.start
        query = table.pages(pages.file.relation, (start.page, start.line), pages.stop, plan.where, limit)
        placed = DecodedRows(self._decoder(table), len(chunk.rereads), placed=True)
        whole = self._rows.copy(self._text(query), placed.take, table.name)
        rows = chunk.rows = placed.rows()
        chunk.scanned = len(rows)
        if whole and len(rows) < limit:
            after = pages.after
            chunk.scanned = max(round((pages.stop - start.page) * pages.file.density), len(rows))
            chunk.cursor = None if after is None else after.key()
            chunk.end = after is None
        else:
            chunk.cursor = replace(start, page=placed.last[0], line=placed.last[1]).key()

    def _decoder(self, table: ScanTarget) -> ChunkDecoder:
        known, decoder = self._decoders.get(table.name, (None, None))
        if decoder is None or known != table:
            quoted = sql.Identifier(*table.table.path).as_string(self._session)
            decoder = ChunkDecoder(table.columns, table.key_names, table=table.name, quoted_table=quoted)
            self._decoders[table.name] = table, decoder
        return decoder

    # Queries.

    def _text(self, query: sql.Composable) -> bytes:
        return query.as_bytes(self._session)

    def _value(self, query: str, name: str) -> str:
        return _decoded(self._rows.execute(query.encode(), name).get_value(0, 0)) or ""

    def _key(self, query: sql.Composable, table: ScanTarget) -> Key | None:
        try:
            result = self._rows.execute(self._text(query), table.name)
        except UnsayableText:
            raise BadValues(table.name, dict.fromkeys(table.key_names, UNDECODABLE)) from None
        if not result.ntuples:
            return None
        return b"\0".join(result.get_value(0, column) or b"" for column in range(result.nfields))


def _decoded(value: bytes | None) -> str | None:
    return None if value is None else value.decode()
