"""Reads chunks: a SELECT of a key range inside one short transaction with a consistent snapshot, with its fence."""

from __future__ import annotations

import contextlib
import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

import pymysql

from tidemark.backfill.chunk_size import CHUNK_BYTES
from tidemark.backfill.keys import Key
from tidemark.captures.contract.chunk import Chunk, ChunkRequest
from tidemark.captures.contract.chunk_rows import ChunkRows, PassOn, ReadRows
from tidemark.captures.contract.errors import TableAltered
from tidemark.captures.mysql.chunks.fence import NothingCertain, ServerFence, fence_taker
from tidemark.captures.mysql.chunks.scan_target import ScanTarget
from tidemark.captures.mysql.rows.chunk_decoder import ChunkDecoder, compile_chunk_decoder
from tidemark.captures.mysql.server.replication import end_of_log
from tidemark.captures.mysql.server.session import (
    LOCK_SECONDS,
    NO_COLUMN,
    TOGETHER_LOCK_SECONDS,
    Session,
    asking,
    connect,
    error_of,
    query_failure,
)
from tidemark.captures.mysql.server.wire import stream
from tidemark.captures.mysql.tables.catalog import read_tables
from tidemark.captures.mysql.terms.columns import reads_as
from tidemark.captures.mysql.terms.config import EndpointConfig
from tidemark.captures.tables.bad_values import BadCounts, Repairs
from tidemark.captures.tables.read_as_columns import Unusual, is_by_key
from tidemark.protocol.errors import SourceError

if TYPE_CHECKING:
    from tidemark.captures.mysql.chunks.arrow_rows import Selection

logger = logging.getLogger(__name__)

PACKAGES = ("nanoarrow",)
"""What a reader of columns needs."""

STATEMENT_SECONDS = 30
"""The longest time of a chunk's statement. What was read by then is a chunk."""

_BROKEN_OFF = {1317, 1969, 3024}
"""Errors of a query that exceeded its limit of time, or was killed."""


class Receiver(Protocol):
    """Takes the rows of a query, a block of payloads of row packets at a time."""

    @property
    def size(self) -> int:
        """Bytes of the rows so far, approximately."""

    def __len__(self) -> int: ...

    def take(self, block: list[bytes]) -> None: ...

    def rows(self) -> ReadRows:
        """All rows; no more can be taken."""


class _DecodedRows(ChunkRows):
    """Rows that come a block at a time. Arguments as ``ChunkRows``."""

    def __init__(self, decode: ChunkDecoder, first: int = 0) -> None:
        super().__init__(first)
        self._decode = decode

    def take(self, block: list[bytes]) -> None:
        tails, keys = self._decode(block, self.number)
        self.add(keys, tails)


class SelectChunkReader:
    """Reads chunks over one connection. See ``tidemark.captures.readers.reader_process.TableReader``.

    Args:
        columns: Scans of whole tables by key are sent as columns: the same query in the same snapshot, cut in another
            way. Other chunks, tables with a column that has no form in Arrow, and unusual values are not.
        chunk_bytes: A chunk ends early above this size: memory must not depend on the width of rows.
    """

    def __init__(
        self,
        config: EndpointConfig,
        *,
        only_reads: bool = False,
        columns: bool = False,
        chunk_bytes: int = CHUNK_BYTES,
    ) -> None:
        self._config = config
        self._columns = columns
        self._selections: dict[str, tuple[ScanTarget, Selection | None]] = {}
        self._chunk_bytes = chunk_bytes
        self._only_reads = only_reads
        self._bad: BadCounts = Counter()
        self._decoders: dict[str, tuple[ScanTarget, ChunkDecoder]] = {}
        self._row_bytes: dict[int, float] = {}
        self._cancelled = False
        self._connect()

    def read(self, request: ChunkRequest, target: ScanTarget, pass_on: PassOn | None = None) -> Chunk:
        """Reads a chunk of ``target``; see ``tidemark.captures.contract.chunk.ChunkReader``."""
        if self._columns and is_by_key(request, key=bool(target.key), where=target.where):
            selection = self._selection(target)
            if selection is not None:
                try:
                    return self._read(request, selection.target, lambda _: selection.gathered(pass_on))
                except Unusual as why:
                    logger.debug("a chunk of %s is read as documents: %s", target.name, why)
                    self._session.close()  # The rest of the rows is on its way.
                    self._connect()
        return self._read(request, target, partial(self._decoded, target))

    def _selection(self, target: ScanTarget) -> Selection | None:
        from tidemark.captures.mysql.chunks.arrow_rows import Selection  # Only where columns can be sent.

        known, selection = self._selections.get(target.name, (None, None))
        if known != target:
            selection = Selection.of(target)
            self._selections[target.name] = target, selection
        return selection

    def _read(self, request: ChunkRequest, target: ScanTarget, receiver: Callable[[int], Receiver]) -> Chunk:
        """The same; ``receiver`` makes what takes the rows of the scan, whose first one has this number."""
        started = time.monotonic()
        self._cancelled = False
        try:
            snapshot = self._fences.open()
            self._session.rows(target.touch())
            check_shape(self._session, target)
            chunk = self._chunk(request, snapshot, target, receiver)
            if self._session.connection.open:
                self._session.rows("ROLLBACK")
            else:
                self._connect()
            if not target.table.transactional:
                chunk.fence = NothingCertain(end_of_log(self._session))
        except (pymysql.Error, OSError) as error:
            failure = query_failure(error, f"reading a chunk of {target.name}")
            if error_of(error)[0] == NO_COLUMN:
                self._look_again(target)
            raise failure from None
        chunk.seconds = time.monotonic() - started
        return chunk

    def read_together(self, requests: Sequence[ChunkRequest], targets: Sequence[ScanTarget]) -> list[Chunk | None]:
        chunks: list[Chunk | None] = [None] * len(requests)
        self._cancelled = False
        try:
            # A table that is locked must not keep the locks of all others: each of them would block its ALTER TABLE.
            self._session.rows(f"SET SESSION lock_wait_timeout = {TOGETHER_LOCK_SECONDS}")
            snapshot = self._fences.open()
            self._session.rows(" UNION ALL ".join(f"({target.touch()})" for target in targets))
            same = unaltered(self._session, targets)
            size = 0
            for place, (request, target) in enumerate(zip(requests, targets, strict=True)):
                if same[place] and target.table.transactional and size < self._chunk_bytes:
                    receiver = partial(self._decoded, target)
                    chunks[place] = chunk = self._chunk(request, snapshot, target, receiver)
                    size += chunk.rows.size
        except (pymysql.Error, OSError, SourceError) as error:
            # Whatever it is, the chunk that is read by itself tells, and what was read before is right.
            logger.debug("tables are read one by one: %s", error_of(error)[0] or type(error).__name__)
            self._session.close()
        if self._session.connection.open:
            with asking("ending a snapshot"):
                self._session.rows("ROLLBACK")
                self._session.rows(f"SET SESSION lock_wait_timeout = {LOCK_SECONDS}")
        else:
            self._connect()
        return chunks

    def _chunk(
        self, request: ChunkRequest, snapshot: ServerFence, target: ScanTarget, receiver: Callable[[int], Receiver]
    ) -> Chunk:
        """The rows of a chunk, within the transaction."""
        started = time.monotonic()
        self._bad.clear()
        # Rereads come first: a scan that is ended early takes its connection with it. They are few, and a row that is
        # not found counts as deleted, so they are never ended early.
        chunk = Chunk(request, snapshot)
        self._reread(chunk, target)
        if request.plan.scan:
            self._scan(chunk, target, receiver(len(chunk.rereads)))
        chunk.bad = self._bad.copy()
        chunk.seconds = time.monotonic() - started
        return chunk

    def _look_again(self, target: ScanTarget) -> None:
        """Raises TableAltered if a column is gone: within the snapshot MySQL's catalog is older than the table."""
        with asking(f"checking {target.name}"):
            self._session.rows("ROLLBACK")
            check_shape(self._session, target)

    def cancel(self) -> None:
        self._cancelled = True
        thread = self._session.connection.thread_id()
        # If this fails, the read ends by its own limit.
        with contextlib.suppress(SourceError, pymysql.Error), contextlib.closing(connect(self._config)) as other:
            other.rows(f"KILL QUERY {thread}")

    def close(self) -> None:
        self._session.close()

    def _connect(self) -> None:
        self._session = connect(self._config)
        with asking("preparing a chunk reader"):
            self._fences = fence_taker(self._session, self._config, only_reads=self._only_reads)
            limit = (
                f"max_statement_time = {STATEMENT_SECONDS}"
                if self._session.mariadb
                else f"max_execution_time = {STATEMENT_SECONDS * 1000}"
            )
            self._session.rows(f"SET SESSION {limit}")

    def _reread(self, chunk: Chunk, target: ScanTarget) -> None:
        if keys := chunk.request.plan.rereads:
            found = self._decoded(target)
            self._select(target.rows(keys), found, whole=True)
            chunk.rereads = found.rows()

    def _scan(self, chunk: Chunk, target: ScanTarget, found: Receiver) -> None:
        plan, limit = chunk.request.plan, self._limit(chunk.request)
        cursor, until, where = plan.cursor, plan.until, plan.where
        conditional = bool(target.where or where)
        # Rows that meet the condition may be rare: what is examined limits the chunk, not what is found.
        bound = self._bound(target, cursor, until, limit) if conditional else None
        query = target.scan(cursor, until if bound is None else bound, where, None if conditional else limit)
        whole = self._select(query, found)
        rows = found.rows()
        if len(rows):
            self._row_bytes[chunk.request.binding] = rows.size / len(rows)
        chunk.take_scan(rows, limit, whole=whole, conditional=conditional, bound=bound)

    def _bound(self, target: ScanTarget, cursor: Key | None, until: Key | None, rows: int) -> Key | None:
        found = _DecodedRows(compile_chunk_decoder(target.key, target.key_names, table=target.name))
        self._select(target.bound(cursor, until, rows), found, whole=True)
        return found.rows().keys[0] if len(found) else None

    def _decoded(self, target: ScanTarget, first: int = 0) -> Receiver:
        """A receiver of rows, numbered from ``first`` on: a chunk's rereads and scan are numbered together."""
        known = self._decoders.get(target.name)
        if known is None or known[0] != target:
            decode = compile_chunk_decoder(
                target.columns,
                target.key_names,
                table=target.name,
                tinyint1_as_bool=target.tinyint1_as_bool,
                repairs=Repairs(target.name, self._bad),
            )
            known = self._decoders[target.name] = target, decode
        return _DecodedRows(known[1], first)

    def _limit(self, request: ChunkRequest) -> int:
        """The rows that probably fit, so that wide ones seldom cost the connection."""
        width = self._row_bytes.get(request.binding)
        return request.limit if width is None else max(1, min(request.limit, int(self._chunk_bytes / width)))

    def _select(self, query: str, found: Receiver, *, whole: bool = False) -> bool:
        """Takes the rows of ``query``. Returns False if it ended early: we end it by size, and the server by time. If
        all rows are needed, ``whole``, it raises instead.
        """
        try:
            for block in stream(self._session.connection, query):
                found.take(block)
                if found.size > self._chunk_bytes and not whole:
                    self._session.close()
                    return False
        except pymysql.Error as error:
            if whole or not len(found) or self._cancelled or error_of(error)[0] not in _BROKEN_OFF:
                raise
            return False
        return True


def check_shape(session: Session, target: ScanTarget) -> None:
    """Checks that the table has the columns that were shown last. Raises TableAltered ``TM-MY-030``, pymysql.Error."""
    if not all(unaltered(session, [target])):
        raise TableAltered("TM-MY-030", f"{target.name} was altered, and the log has not reached that yet")


def unaltered(session: Session, targets: Sequence[ScanTarget]) -> list[bool]:
    """Whether the table of each still has the columns of the decoder. Raises pymysql.Error."""
    paths = [session.folded(target.table.path) for target in targets]
    found = {session.folded(t.path): t.columns for t in read_tables(session, paths)}
    return [reads_as(found.get(path, ()), each.table.columns) for path, each in zip(paths, targets, strict=True)]
