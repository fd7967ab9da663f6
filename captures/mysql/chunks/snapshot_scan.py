"""Reads a table without a key: all rows in one snapshot, by one query, a chunk at a time.

Nothing identifies such rows, so no query can resume where another one ended. The transaction stays open during the
whole scan.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator

import pymysql

from tidemark.backfill.chunk_size import CHUNK_BYTES
from tidemark.backfill.keys import Key
from tidemark.backfill.range_scan import ChunkPlan
from tidemark.captures.contract.chunk import Chunk, ChunkRequest
from tidemark.captures.contract.chunk_rows import ChunkRows
from tidemark.captures.mysql.chunks.fence import NothingCertain, ServerFence, fence_taker
from tidemark.captures.mysql.chunks.reader import check_shape
from tidemark.captures.mysql.chunks.scan_target import ScanTarget
from tidemark.captures.mysql.rows.chunk_decoder import ChunkDecoder, compile_chunk_decoder
from tidemark.captures.mysql.server.result_rows import stream
from tidemark.captures.mysql.server.session import Session, asking, connect, query_failure
from tidemark.captures.mysql.server.wire import break_off
from tidemark.captures.mysql.terms.config import EndpointConfig
from tidemark.captures.readers.reader_process import TableReader
from tidemark.captures.tables.bad_values import BadCounts, Repairs

WRITE_SECONDS = 31_536_000
"""How long the server waits for us to take rows (``net_write_timeout``), since chunks may be held back: its maximum."""


class SnapshotScan(TableReader):
    """One scan at a time, over a connection of its own. See
    ``tidemark.captures.readers.reader_process.TableReader``.

    A request that scans nothing opens the snapshot, and its chunk has the snapshot's fence. Others take the next rows;
    their cursor is the number of rows before. If a request does not continue where the last one ended, because that
    chunk was not used or the snapshot is gone, it gets a chunk that is ``rewritten``: the scan begins again.
    """

    def __init__(self, config: EndpointConfig) -> None:
        self._config = config
        self._session: Session | None = None
        self._tails: Iterator[list[bytes]] = iter(())
        self._fence: ServerFence | None = None
        self._given = 0
        self._bad: BadCounts = Counter()

    def read(self, request: ChunkRequest, target: ScanTarget) -> Chunk:
        """See ``tidemark.captures.contract.chunk.ChunkReader``."""
        started = time.monotonic()
        try:
            if not request.plan.scan:
                return self._begun(request, target, started)
            if self._fence is None or self._given != _given(request.plan.cursor):
                self._end()
                return begin_again(request, started)
            return self._next(request, self._fence, started)
        except (pymysql.Error, OSError) as error:
            self._end()
            raise query_failure(error, f"reading {target.name} in one snapshot") from None
        except BaseException:
            self._end()
            raise

    def cancel(self) -> None:
        """See ``tidemark.captures.contract.chunk.ChunkReader``: the end of the process ends the scan."""

    def close(self) -> None:
        """See ``tidemark.captures.contract.chunk.ChunkReader``."""
        self._end()

    def _begun(self, request: ChunkRequest, target: ScanTarget, started: float) -> Chunk:
        self._end()
        session = self._session = connect(self._config)
        with asking("preparing a scan in one snapshot"):
            # The log waits meanwhile. MySQL's shortest time is a second.
            wait = 0 if session.mariadb else 1
            session.rows(f"SET SESSION net_write_timeout = {WRITE_SECONDS}, lock_wait_timeout = {wait}")
        self._fence = fence_taker(session, self._config).open()
        session.rows(target.touch())
        check_shape(session, target)
        self._bad.clear()
        decode = compile_chunk_decoder(
            target.columns,
            (),
            table=target.name,
            tinyint1_as_bool=target.tinyint1_as_bool,
            repairs=Repairs(target.name, self._bad),
        )
        self._tails = _decoded(decode, stream(session.connection, target.everything()))
        self._given = 0
        return Chunk(request, self._fence, seconds=time.monotonic() - started)

    def _next(self, request: ChunkRequest, fence: ServerFence, started: float) -> Chunk:
        found = ChunkRows()
        end = False
        while len(found) < request.limit and found.size < CHUNK_BYTES:
            block = next(self._tails, None)
            if block is None:
                end = True
                break
            found.add([b""] * len(block), block)
        self._given += len(found)
        if end:
            self._end()
        bad = self._bad.copy()
        self._bad.clear()
        return Chunk(
            request=request,
            fence=fence,
            rows=found.rows(),
            end=end,
            seconds=time.monotonic() - started,
            cursor=b"%d" % self._given,
            scanned=len(found),
            bad=bad,
        )

    def _end(self) -> None:
        self._tails = iter(())
        self._fence = None
        if self._session is not None:
            break_off(self._session.connection)  # There may be unread rows.
            self._session = None


def _decoded(decode: ChunkDecoder, blocks: Iterable[list[bytes]]) -> Iterator[list[bytes]]:
    """The tails of a whole scan, whose rows are numbered over all chunks."""
    first = 0
    for block in blocks:
        yield decode(block, first)[0]
        first += len(block)


def _given(cursor: Key | None) -> int:
    return 0 if cursor is None else int(cursor)


def begin_request(binding: int) -> ChunkRequest:
    """The request that opens a table's snapshot, and reads no row."""
    return ChunkRequest(binding, ChunkPlan(None, (), scan=False), limit=0)


def begin_again(request: ChunkRequest, started: float) -> Chunk:
    """The chunk that restarts the scan of the table."""
    return Chunk(request, NothingCertain(0), seconds=time.monotonic() - started, rewritten=True)
