"""The scans of tables without a key: the log position of each snapshot, and what the log leaves out.

No window can hold such rows, so each must come either from the snapshot or from the log. A snapshot is opened while the
log is between two transactions. The snapshot has all that the log has of the table before it, which is therefore left
out. Everything after the snapshot comes from the log.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from tidemark.captures.contract.capabilities import Begun
from tidemark.captures.contract.chunk import Chunk, ChunkRequest
from tidemark.captures.mysql.chunks.fence import GtidFence, ServerFence
from tidemark.captures.mysql.chunks.snapshot_scan import begin_again, begin_request
from tidemark.captures.mysql.terms.gtid import MysqlGtids
from tidemark.captures.mysql.terms.position import LogPosition
from tidemark.captures.readers.reader_process import ReaderProcess
from tidemark.captures.tables.keyless_scans import KeylessScans
from tidemark.protocol.errors import ConnectorError

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Scan:
    """Of one table.

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
        """Opens the table's snapshot, with the log between two transactions at ``position``.

        Args:
            committing: The xids whose XA COMMIT the log has shown, and that may not be visible yet.

        Raises:
            SourceError: The server refuses.
            ConnectorError: The scan's process ended.
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
            fence = scan.process.read(begin_request(binding)).fence
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
            return begin_again(request, started)
        try:
            with scan.lock:
                if not scan.open or scan.process is None:
                    return begin_again(request, started)
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
