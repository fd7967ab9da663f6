"""The scans of tables without a key: all rows in one snapshot, by one query, a chunk at a time.

Nothing identifies such rows, so no query can resume where another one ended: the transaction stays open meanwhile. No
window can hold them, so each must come either from the snapshot or from the log. A snapshot is opened while the log is
between two transactions. The snapshot has all that the log has of the table before it, which is therefore left out.
Everything after the snapshot comes from the log.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field

import pymysql

from tidemark.backfill.chunk_size import CHUNK_BYTES
from tidemark.backfill.keys import Key
from tidemark.backfill.range_scan import ChunkPlan
from tidemark.captures.contract.capabilities import Begun
from tidemark.captures.contract.chunk import Chunk, ChunkRequest
from tidemark.captures.contract.chunk_rows import ChunkRows, PassOn
from tidemark.captures.mysql.chunks.fence import GtidFence, NothingCertain, ServerFence, fence_taker
from tidemark.captures.mysql.chunks.reader import check_shape
from tidemark.captures.mysql.chunks.scan_target import ScanTarget
from tidemark.captures.mysql.rows.chunk_decoder import ChunkDecoder, compile_chunk_decoder
from tidemark.captures.mysql.server.session import Session, asking, connect, query_failure
from tidemark.captures.mysql.server.wire import break_off, stream
from tidemark.captures.mysql.terms.config import EndpointConfig
from tidemark.captures.mysql.terms.gtid import MysqlGtids
from tidemark.captures.mysql.terms.position import LogPosition
from tidemark.captures.readers.reader_process import ReaderProcess, TableReader
from tidemark.captures.tables.bad_values import BadCounts, Repairs
from tidemark.captures.tables.keyless_scans import KeylessScans
from tidemark.protocol.errors import ConnectorError

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Scan:
    """The scan of one table.

    Attributes:
        lost: An earlier session read a part of the table in a snapshot that no longer exists.
        fence: Of the snapshot; None before there is one, while the log leaves out everything.
    """

    name: str
    lost: bool
    lock: threading.Lock = field(default_factory=threading.Lock)
    process: ReaderProcess | None = None
    fence: ServerFence | None = None
    open: bool = False

    def release(self) -> None:
        """Ends the process, unless a chunk is being read: then its reader ends it."""
        if self.lock.acquire(blocking=False):
            try:
                self.open = False
                if self.process is not None:
                    self.process.close()
                    self.process = None
            finally:
                self.lock.release()


class SnapshotScans(KeylessScans[_Scan]):
    """Those of one source; see ``tidemark.captures.contract.capabilities.ReadsInSnapshots``."""

    def __init__(self, open_process: Callable[[], ReaderProcess]) -> None:
        super().__init__()
        self._open_process = open_process

    # The log's thread.

    def expect(self, binding: int, name: str, kept: str | None) -> None:
        """The scan of a table begins; or an earlier session's should resume, which is impossible."""
        self.end(binding)
        self._scans[binding] = _Scan(name, lost=kept is not None)

    def begin(self, binding: int, position: LogPosition, committing: Collection[str] = ()) -> Begun:
        """Opens the table's snapshot, with the log between two transactions at ``position``; ``committing`` are the
        xids whose XA COMMIT the log has shown, and that may not be visible yet. Raises SourceError, and ConnectorError
        if the scan's process ended.
        """
        scan = self._scans[binding]
        if scan.lost:
            return Begun.LOST
        if scan.fence is not None:
            return Begun.OPEN  # Or it has ended: then the next chunk says so.
        if not position.order:
            return Begun.LATER
        if scan.process is None:
            logger.warning(
                "%s has no key: it is read in one transaction. Until the end, ALTER TABLE waits, and the server keeps "
                "old row versions; if it breaks, it starts again",
                scan.name,
            )
            scan.process = self._open_process()
        try:
            opens = ChunkRequest(binding, ChunkPlan(None, (), scan=False), limit=0)
            fence = scan.process.read(opens).fence
        except ConnectorError:
            scan.release()
            raise
        assert isinstance(fence, ServerFence)
        scan.open = shows_all(fence, position, committing)
        if scan.open:
            scan.fence = fence
        return Begun.OPEN if scan.open else Begun.LATER

    def leaves_out(self, binding: int, gtid: str, position: int, xid: str = "") -> bool | None:
        """Whether the table's snapshot has what a transaction did; see ``in_snapshot``. False without a scan."""
        scan = self._scans.get(binding)
        if scan is None or scan.lost:
            return False
        return True if scan.fence is None else in_snapshot(scan.fence, gtid, position, xid)

    def place(self, binding: int, position: int) -> int:
        """The log position of the rows of the table's chunks, which are emitted at ``position``."""
        scan = self._scans.get(binding)
        return position if scan is None or scan.fence is None else scan.fence.high

    def kept(self, binding: int) -> str | None:
        """The state's mark of a scan, which no other session can resume."""
        scan = self._scans.get(binding)
        return None if scan is None or (scan.fence is None and not scan.lost) else ""

    # Readers' threads.

    def read(self, request: ChunkRequest) -> Chunk:
        """The next rows; or, if the snapshot has ended, a chunk that restarts the scan."""
        started = time.monotonic()
        scan = self._scans.get(request.binding)
        if scan is None:
            return _begin_again(request, started)
        try:
            with scan.lock:
                if not scan.open or scan.process is None:
                    return _begin_again(request, started)
                scan.open = False  # Until the chunk is there.
                chunk = scan.process.read(request)
                scan.open = not chunk.rewritten
                return chunk
        finally:
            if self._scans.get(request.binding) is not scan:
                scan.release()


def in_snapshot(fence: ServerFence, gtid: str, position: int, xid: str = "") -> bool | None:
    """Whether a snapshot shows a transaction; None if unknown.

    Args:
        gtid: The transaction's, empty without.
        position: In the log, of one of its events: after its beginning, and not after its end.
    """
    if position > fence.high:
        return False
    # Transactions from before GTIDs were switched on have none.
    shown = gtid != "" and gtid in fence.executed if isinstance(fence, GtidFence) else fence.shows(position, xid)
    return True if shown else None


def shows_all(fence: ServerFence, position: LogPosition, committing: Collection[str] = ()) -> bool:
    """Whether the snapshot shows every transaction of the log up to ``position``."""
    if isinstance(fence, GtidFence):
        return fence.executed.contains_all(MysqlGtids(position.gtids))
    return fence.visible >= position.order and fence.prepared.isdisjoint(committing)


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

    def read(self, request: ChunkRequest, target: ScanTarget, pass_on: PassOn | None = None) -> Chunk:
        started = time.monotonic()
        try:
            if not request.plan.scan:
                return self._begun(request, target, started)
            if self._fence is None or self._given != _given(request.plan.cursor):
                self.close()
                return _begin_again(request, started)
            return self._next(request, self._fence, started)
        except (pymysql.Error, OSError) as error:
            self.close()
            raise query_failure(error, f"reading {target.name} in one snapshot") from None
        except BaseException:
            self.close()
            raise

    def cancel(self) -> None:
        """See ``tidemark.captures.contract.chunk.ChunkReader``: the end of the process ends the scan."""

    def _begun(self, request: ChunkRequest, target: ScanTarget, started: float) -> Chunk:
        self.close()
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
            self.close()
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

    def close(self) -> None:
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


def _begin_again(request: ChunkRequest, started: float) -> Chunk:
    """The chunk that restarts the scan of the table."""
    return Chunk(request, NothingCertain(0), seconds=time.monotonic() - started, rewritten=True)
