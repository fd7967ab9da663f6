"""Scans of tables without a key: the snapshots that decide which rows a scan gives, and which the log.

``tidemark.backfill.counted_rows`` has the rules. A scan begins with snapshots of its chunks' own, and leaves out rows
whose inserting transaction (``xmin``) the base does not show. So it keeps no snapshot open, and another session can
resume it. The first row that is updated or deleted has the table emptied, and read again in a snapshot that is held:
chunks import it. Until the scan ends, the server cleans up no row version that it shows.

A held snapshot ends with its connection. The scan is then resumed in another one if rows were only added meanwhile;
otherwise the table is emptied and read again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Self

import psycopg

from tidemark.backfill.counted_rows import CountedRows
from tidemark.backfill.fence import TransactionId
from tidemark.captures.contract.capabilities import Begun
from tidemark.captures.postgres.server.positions import format_lsn, parse_lsn
from tidemark.captures.postgres.server.session import asking, in_recovery
from tidemark.captures.postgres.tables.snapshots import OWN, ImportedSnapshot, Snapshot, SnapshotFence
from tidemark.captures.tables.keyless_scans import KeylessScans
from tidemark.protocol.errors import SourceError

logger = logging.getLogger(__name__)

FIRST_EPOCH = 1 << 32
"""From this transaction id on, the 32 bits that a row has of the one that wrote it do not tell which one that was."""

MOST_RUNNING = 100
"""Running transactions of a base that the state holds. With more of them, the scan cannot be resumed."""

UNWRITTEN_TRIES = 20
"""How often a snapshot is taken again because a transaction is writing to the table; then it is held instead."""

_OPEN = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"

_WRITERS = """
SELECT EXISTS (
    SELECT FROM pg_catalog.pg_locks
    WHERE locktype = 'relation' AND mode = 'RowExclusiveLock' AND granted AND relation = ANY (%s)
      AND database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database()))
"""


@dataclass(frozen=True, slots=True)
class Base:
    """See ``tidemark.backfill.counted_rows.Base``.

    Attributes:
        high: A position of the log at or after every transaction that it shows.
        certain: Not on a standby, where running transactions are unknown.
    """

    snapshot: Snapshot
    high: int
    certain: bool = True

    def shows(self, txn: TransactionId, position: int) -> bool | None:
        """See ``tidemark.backfill.counted_rows.Base``; ``position`` is that of the commit record."""
        if position > self.high:
            return False
        if not self.snapshot.hides(int(txn)):
            return True
        return False if self.certain else None

    def ran(self, txn: TransactionId) -> bool:
        """See ``tidemark.backfill.counted_rows.Base``."""
        return not self.certain or (int(txn) - self.snapshot.xmax) % FIRST_EPOCH >= FIRST_EPOCH // 2

    def text(self) -> str:
        """The text that the state keeps; empty if it can keep none."""
        snapshot = self.snapshot
        if not self.certain or len(snapshot.running) > MOST_RUNNING or snapshot.xmax >= FIRST_EPOCH:
            return ""
        running = ",".join(map(str, sorted(snapshot.running)))
        return f"{snapshot.xmin}:{snapshot.xmax}:{running}@{format_lsn(self.high)}"

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Reads what ``text`` wrote; None of anything else, such as what earlier versions kept."""
        snapshot, _, high = text.partition("@")
        try:
            return cls(Snapshot.parse(snapshot), parse_lsn(high))
        except (ValueError, SourceError):
            return None


@dataclass(slots=True)
class CountedScan:
    """The scan of one table.

    Attributes:
        rows: What the log leaves out.
        hold: Its snapshot is held.
        exported: The name of the held snapshot for chunks; empty while there is none.
        session: Its connection.
        ready: Chunks may be read.
        doubted: The held snapshot may have ended.
        tries: Snapshots that were taken while the table was written to.
    """

    name: str
    rows: CountedRows[Base]
    hold: bool = False
    exported: str = ""
    session: psycopg.Connection | None = None
    ready: bool = False
    doubted: bool = False
    tries: int = 0

    def imported(self) -> ImportedSnapshot:
        """What chunks read in."""
        base, held = self.rows.base, self.rows.held
        if base is None or (isinstance(held, SnapshotFence) and held.snapshot == base.snapshot):
            return ImportedSnapshot(self.exported)
        return ImportedSnapshot(self.exported, base.snapshot.xmax, tuple(sorted(base.snapshot.running)))

    def release(self) -> None:
        """Ends the held snapshot."""
        self.rows.held, self.exported, self.ready, self.doubted = None, "", False, False
        if self.session is not None:
            self.session.close()
            self.session = None


class CountedScans(KeylessScans[CountedScan]):
    """Those of one source, used by the log's thread; see ``tidemark.captures.contract.capabilities.ReadsInSnapshots``.
    ``high`` gives the position of the log after a snapshot was opened.
    """

    def __init__(self, connect: Callable[[], psycopg.Connection], high: Callable[[], int]) -> None:
        super().__init__()
        self._connect = connect
        self._high = high

    def rows(self, binding: int) -> CountedRows[Base] | None:
        """What the log leaves out of a table; None where it is not scanned, or has a key."""
        scan = self._scans.get(binding)
        return None if scan is None else scan.rows

    def snapshot(self, binding: int) -> ImportedSnapshot:
        """What chunks of a table read in. Readers' threads ask."""
        scan = self._scans.get(binding)
        return OWN if scan is None else scan.imported()

    def expect(self, binding: int, name: str, kept: str | None) -> None:
        """See ``ReadsInSnapshots.await_snapshot``."""
        earlier = self._scans.pop(binding, None)
        base = None if kept is None else Base.parse(kept)
        lost = kept is not None and base is None
        scan = self._scans[binding] = CountedScan(name, CountedRows(base, changed=lost), hold=lost)
        if earlier is not None:
            # What had the table read again is likely to come again.
            scan.hold |= earlier.hold or earlier.rows.changed
            earlier.release()

    def begin(self, binding: int, relations: Sequence[int], unseen: Collection[TransactionId]) -> Begun:
        """See ``ReadsInSnapshots.begin_snapshot``.

        Args:
            relations: The oids of the table and of its partitions.
        """
        scan = self._scans[binding]
        if scan.doubted and not self._lasts(scan):
            logger.warning("the snapshot in which %s is read has ended", scan.name)
            scan.release()
        if scan.ready:
            return Begun.OPEN
        if scan.rows.changed:
            return Begun.LOST
        try:
            with asking(f"opening a snapshot for {scan.name}"):
                return self._open(scan, relations, unseen)
        except BaseException:
            scan.release()
            raise

    def _open(self, scan: CountedScan, relations: Sequence[int], unseen: Collection[TransactionId]) -> Begun:
        if scan.session is None:
            scan.session = self._connect()
        session = scan.session
        standby = in_recovery(session)  # Before the snapshot is taken: see CopyChunkReader.
        session.execute(_OPEN)
        text, exported = _one_row(session, "SELECT pg_current_snapshot()::text, pg_export_snapshot()")
        snapshot = Snapshot.parse(text, recovery=standby)
        high = self._high()
        resumed = scan.rows.base is not None
        if snapshot.xmax >= FIRST_EPOCH and resumed:
            scan.release()
            return Begun.LOST
        if not resumed and any(snapshot.hides(int(xid)) for xid in unseen):
            session.execute("ROLLBACK")
            return Begun.LATER
        scan.hold |= standby or snapshot.xmax >= FIRST_EPOCH
        if not scan.hold and not resumed and _one_row(session, _WRITERS, list(relations))[0]:
            session.execute("ROLLBACK")
            scan.tries += 1
            scan.hold = scan.tries >= UNWRITTEN_TRIES
            return Begun.LATER
        if not resumed:
            scan.rows.base = Base(snapshot, high, certain=not standby)
        if scan.hold:
            logger.warning(
                "%s has no key: it is read in one snapshot, so that changes of its rows are counted right. Until the "
                "end, the server keeps old row versions",
                scan.name,
            )
            scan.rows.held, scan.exported = SnapshotFence(snapshot, high), exported
        else:
            scan.release()
        scan.ready = True
        return Begun.OPEN

    @staticmethod
    def _lasts(scan: CountedScan) -> bool:
        """Whether the held snapshot is still there."""
        scan.doubted = False
        if scan.session is None:
            return True
        try:
            scan.session.execute("SELECT 1")
        except psycopg.Error:
            return False
        return True

    def doubt(self, binding: int) -> None:
        """A chunk of the table could not be read."""
        if (scan := self._scans.get(binding)) is not None:
            scan.doubted = True

    def doubt_all(self) -> None:
        """The server was away."""
        for scan in self._scans.values():
            scan.doubted = True

    def kept(self, binding: int) -> str | None:
        """See ``ReadsInSnapshots.kept_snapshot``."""
        scan = self._scans.get(binding)
        if scan is None or (scan.rows.base is None and not scan.rows.changed):
            return None
        return "" if scan.rows.changed or scan.rows.base is None else scan.rows.base.text()


def _one_row(session: psycopg.Connection, query: str, *parameters: object) -> Sequence[str]:
    row = session.execute(query.encode(), parameters).fetchone()
    assert row is not None
    return row
