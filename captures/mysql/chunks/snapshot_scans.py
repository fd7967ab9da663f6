"""The scans of tables without a key: where in the log each one's snapshot stands, and what the log leaves out.

No window can hold such rows, so each must come either from the snapshot or from the log. The snapshot is opened when
the table was just emptied downstream, while the log stands between two transactions. What the log has of the table
between there and the snapshot is in the snapshot, and so it is left out; all of what comes after the snapshot is not.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from captures.contract.chunk import Chunk, ChunkRequest
from captures.mysql.chunks.fence import GtidFence, ServerFence
from captures.mysql.chunks.snapshot_scan import begin_again, begin_request
from captures.mysql.log.gtid import MysqlGtids
from captures.mysql.log.position import LogPosition
from captures.scheduling.reader_process import ReaderProcess
from protocol.errors import ConnectorError, SourceError

logger = logging.getLogger(__name__)

AGAIN_SECONDS = 1.0
"""Wait before another snapshot is tried, after one that did not show all of the log that was read."""


@dataclass(slots=True)
class _Scan:
    """Of one table.

    Attributes:
        process: Reads it, and holds its snapshot open.
        fence: Of the snapshot that was opened last; it says what the log leaves out, also when the scan is over.
        open: The snapshot is there to be read.
        tried: It was tried to open one, and that one was of no use.
        failure: Why there was none, until the next chunk tells.
    """

    process: ReaderProcess
    lock: threading.Lock = field(default_factory=threading.Lock)
    fence: ServerFence | None = None
    open: bool = False
    tried: bool = False
    failure: SourceError | None = None

    def end(self) -> None:
        """Ends the process, unless a chunk is being read: who reads it looks after it."""
        if self.lock.acquire(blocking=False):
            try:
                self.open = False
                self.process.close()
            finally:
                self.lock.release()


class SnapshotScans:
    """Those of one source.

    Args:
        open_process: Makes the process of a scan.
    """

    def __init__(self, open_process: Callable[[], ReaderProcess]) -> None:
        self._open_process = open_process
        self._scans: dict[int, _Scan] = {}

    # The log's thread.

    def begin(self, binding: int, position: LogPosition, committing: Collection[str] = ()) -> None:
        """Opens the table's snapshot, now that the table was emptied downstream while the log stands at ``position``.

        ``committing`` are the xids whose XA COMMIT the log has shown, and that may not be visible yet.

        Without a process there is none: the first chunk makes it, and has the table emptied again. Then also all
        transactions are over that had written to the table before the log was read, and were to be waited for.
        """
        scan = self._scans.get(binding)
        # A chunk that is no longer needed may still be read.
        if scan is None or not position.order or not scan.lock.acquire(blocking=False):
            return
        try:
            scan.open = False
            scan.tried = True
            fence = scan.process.read(begin_request(binding)).fence
            assert isinstance(fence, ServerFence)
            scan.open = shows_all(fence, position, committing)
            if scan.open:
                scan.fence = fence
        except SourceError as error:
            scan.failure = error
        except ConnectorError:
            del self._scans[binding]  # The first chunk tries again, and tells.
            scan.process.close()
        finally:
            scan.lock.release()

    def leaves_out(self, binding: int, gtid: str, position: int, xid: str = "") -> bool | None:
        """Whether the table's snapshot has what a transaction did; see ``in_snapshot``. False without a snapshot."""
        scan = self._scans.get(binding)
        fence = None if scan is None else scan.fence
        return False if fence is None else in_snapshot(fence, gtid, position, xid)

    def place(self, binding: int, position: int) -> int:
        """Where the rows of the table's chunks stand in the log; ``position`` is where they are emitted."""
        scan = self._scans.get(binding)
        return position if scan is None or scan.fence is None else scan.fence.high

    def close(self) -> None:
        """Ends all scans, also while readers' threads go on: what they bring is of no use."""
        scans, self._scans = self._scans, {}
        for scan in scans.values():
            scan.end()

    # Readers' threads.

    def read(self, request: ChunkRequest, name: str) -> Chunk:
        """The next rows, or, where there is no snapshot to read, a chunk that has the table emptied first."""
        scan = self._scans.get(request.binding)
        if scan is None:
            logger.warning(
                "%s has no key: it is read in one transaction. Until the end, ALTER TABLE waits, and the server keeps "
                "old row versions; if it breaks, it starts again",
                name,
            )
            scan = self._scans[request.binding] = _Scan(self._open_process())
        try:
            with scan.lock:
                return self._next(scan, request)
        except ConnectorError:
            if self._scans.get(request.binding) is scan:
                del self._scans[request.binding]  # Its process has ended: the next chunk makes another.
            raise
        finally:
            if self._scans.get(request.binding) is not scan:
                scan.end()

    @staticmethod
    def _next(scan: _Scan, request: ChunkRequest) -> Chunk:
        started = time.monotonic()
        if scan.open:
            scan.open = False  # Until the chunk is there.
            chunk = scan.process.read(request)
            scan.open = not chunk.rewritten
            return chunk
        if scan.failure is not None:
            failure, scan.failure = scan.failure, None
            raise failure
        if scan.tried:
            time.sleep(AGAIN_SECONDS)
        return begin_again(request, started)


def in_snapshot(fence: ServerFence, gtid: str, position: int, xid: str = "") -> bool | None:
    """Whether a snapshot shows a transaction; None if unknown.

    Args:
        gtid: The transaction's, empty without.
        position: In the log, of something that it did: after its begin, and not after its end.
        xid: Of the prepared transaction that it commits.
    """
    if position > fence.high:
        return False
    # What was logged before GTIDs were switched on has none.
    shown = gtid != "" and gtid in fence.executed if isinstance(fence, GtidFence) else fence.shows(position, xid)
    return True if shown else None


def shows_all(fence: ServerFence, position: LogPosition, committing: Collection[str] = ()) -> bool:
    """Whether the snapshot shows every transaction of the log up to there: what was emitted of it was taken back.

    Args:
        committing: As of ``SnapshotScans.begin``.
    """
    if isinstance(fence, GtidFence):
        return fence.executed.contains_all(MysqlGtids(position.gtids))
    return fence.visible >= position.order and fence.prepared.isdisjoint(committing)
