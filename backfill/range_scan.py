"""The scan of one range of a table, chunk by chunk: which rows may be emitted, and where to continue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tidemark.backfill.fence import Fence
from tidemark.backfill.hidden import HiddenSet
from tidemark.backfill.keys import Key, TouchedKeys
from tidemark.backfill.limits import LIMITS, REREADS_PER_CHUNK, Limits
from tidemark.backfill.rereads import RereadList
from tidemark.backfill.window import Window


@dataclass(frozen=True, slots=True)
class Range:
    """The range of a table that a scan reads.

    Attributes:
        cursor: Its rows come after this key; in a physical scan from this page on. None: from the first row.
        until: The last key; in a physical scan the page after the last. None: to the last row. Both keys may have fewer
            columns than the table's key: then they stand for all keys that begin with them.
        where: An SQL condition of the rows; None for all rows.
        file: The name of the table's file (a PostgreSQL relfilenode) in a scan by pages; None in one by key.
        inclusive: The row with the key ``cursor`` is read, too.
        asked: A command asked for these rows: if they cannot be read, the table has not failed.
        compared: Its rows are compared with what consumers have, and are no events.
    """

    cursor: Key | None = None
    until: Key | None = None
    where: str | None = None
    file: str | None = None
    inclusive: bool = False
    asked: bool = False
    compared: bool = False


@dataclass(frozen=True, slots=True)
class ChunkPlan:
    """What the next chunk reads in one snapshot.

    Attributes:
        cursor: As of ``Range``. After a split it may lie after ``until``: then there is nothing to scan.
        rereads: Keys of more rows to select. The conditions of the scan do not apply to them.
        scan: Whether the chunk scans at all, or reads only ``rereads``.
        until: As of ``Range``.
        where: As of ``Range``.
        physical: ``cursor`` and ``until`` are pages.
        compared: As of ``Range``.
    """

    cursor: Key | None
    rereads: tuple[Key, ...]
    scan: bool
    until: Key | None = None
    where: str | None = None
    physical: bool = False
    compared: bool = False


@dataclass(frozen=True, slots=True)
class Emission:
    """The part of a chunk to emit.

    Attributes:
        keep: The scan's rows to emit, as slices in order; None for all.
        keep_rereads: Indices of the reread rows to emit.
        dropped: Scan rows left out because the log has given them, or may have: too many keys were touched.
        dropped_rereads: Reread rows left out for the same reason.
        gone: Keys of rows that were to be read again, that no row has, and that the log has not touched.
        cut: Scan rows at the end that the next chunk reads again because the reread list was full.
        progressed: Whether the backfill progressed. Otherwise a smaller chunk may help, because it takes less time.
    """

    keep: tuple[slice, ...] | None
    keep_rereads: tuple[int, ...]
    dropped: int
    dropped_rereads: int
    cut: int
    progressed: bool
    gone: tuple[Key, ...] = ()


@dataclass(slots=True)
class _InFlight:
    """A chunk that was started, and neither emitted nor abandoned. ``read`` sets the last four fields."""

    plan: ChunkPlan
    position: int
    window: Window
    leased: tuple[Key, ...]
    high: int | None = None
    read: bool = False
    keys: Sequence[Key] = ()
    reread_keys: Sequence[Key] = ()
    end: bool = False
    cursor: Key | None = None


class RangeScan:
    """The scan of one range; made by ``tidemark.backfill.ranges.TableRanges``.

    For one chunk: ``start``, then ``fenced`` and ``read`` in any order, then ``emit`` once ``ready``; or ``abandon`` at
    any time. Meanwhile the table is told what the log touches. Calls in a wrong order raise RuntimeError.

    Each chunk has its own fence and window, so chunks of several scans are independent, even if their ranges overlap: a
    row that both read is emitted twice, and never the older state after the newer one.

    Attributes:
        table: The table's id, as in the hidden set.
        range: The rest of the range.
        rows: Rows that the scan has covered, emitted or given by the log.
        finished: The whole range was scanned.
    """

    def __init__(
        self,
        table: str,
        what: Range,
        rereads: RereadList,
        *,
        keyless: bool = False,
        finished: bool = False,
        limits: Limits = LIMITS,
    ) -> None:
        self.table = table
        self.range = what
        self.rows = 0
        self.finished = finished
        self._rereads = rereads
        self._keyless = keyless
        self._limits = limits
        self._chunk: _InFlight | None = None

    @property
    def physical(self) -> bool:
        """Whether the scan is by pages, not by key."""
        return self.range.file is not None

    @property
    def in_flight(self) -> bool:
        """Whether a chunk was started and neither emitted nor abandoned."""
        return self._chunk is not None

    @property
    def awaits_rereads(self) -> bool:
        """Whether rows of its reread list have not come through."""
        return len(self._rereads) > 0

    @property
    def startable(self) -> bool:
        """Whether a chunk may be started, as far as this scan is concerned."""
        return self._chunk is None and not (self.finished and not self._rereads.idle)

    @property
    def splittable(self) -> bool:
        """Whether there may be something to scan after ``ahead``."""
        chunk = self._chunk
        return not self.finished and (chunk is None or not chunk.plan.scan or (chunk.read and not chunk.end))

    @property
    def ahead(self) -> Key | None:
        """The start of the next chunk, even while one waits to be emitted; None for the start of the range."""
        chunk = self._chunk
        return self.range.cursor if chunk is None or chunk.cursor is None else chunk.cursor

    # One chunk.

    def start(self, position: int, hidden: HiddenSet, rereads: int = REREADS_PER_CHUNK) -> ChunkPlan:
        """Starts a chunk, before its snapshot is opened.

        Args:
            position: The position up to which the log was emitted.
            hidden: The transactions emitted up to there that are not known to be visible.
            rereads: The most rows to read again by key.
        """
        if not self.startable:
            raise RuntimeError(f"table {self.table}: a chunk is in flight, or there is nothing to read")
        what = self.range
        leased = () if what.compared else self._rereads.lease(rereads)
        # Not through the reread list: an invalid key would fail every chunk of the table, and not only this range's.
        first = () if what.cursor is None or not what.inclusive else (what.cursor,)
        plan = ChunkPlan(
            what.cursor,
            first + leased,
            not self.finished,
            what.until,
            what.where,
            physical=self.physical,
            compared=what.compared,
        )
        self._chunk = _InFlight(plan, position, Window(hidden.entries(), self._limits.window), leased)
        return plan

    def fenced(self, fence: Fence) -> bool:
        """Takes the snapshot's fence, before or after the rows are read.

        Returns:
            False if the chunk cannot be emitted, because every row counts as touched, or the fence hides a transaction
            whose keys are unknown: close the snapshot, ``abandon`` the chunk, and try later.
        """
        chunk = self._in_flight()
        # Which rows without keys they touched does not matter: ``tidemark.backfill.counted_rows`` decides.
        if not chunk.window.take(fence, self.table) and not self._keyless:
            return False
        self._request_hidden(chunk.window)
        if self._useless(chunk.window):
            return False
        chunk.high = fence.high
        return True

    def read(self, keys: Sequence[Key], reread_keys: Sequence[Key], end: bool, cursor: Key | None = None) -> None:
        """Takes the rows that the chunk read in its snapshot.

        Args:
            keys: Keys of the scan's rows, in scan order. Without a key, any value for each row.
            reread_keys: Keys of the rows that were found again; those not found were deleted.
            end: The plan's range has no more rows.
            cursor: Where the scan resumes; None for the last row's key. A physical scan must give a page.
        """
        chunk = self._in_flight()
        if not chunk.plan.scan and (keys or end):
            raise RuntimeError(f"table {self.table}: the chunk has no rows to scan")
        if chunk.plan.scan and chunk.plan.physical and cursor is None and not end:
            raise RuntimeError(f"table {self.table}: a physical scan must give the page to resume at")
        chunk.keys, chunk.reread_keys, chunk.end = keys, reread_keys, end
        chunk.cursor = keys[-1] if cursor is None and keys else cursor
        chunk.read = True

    def ready(self, position: int) -> bool:
        """Whether the chunk may be emitted now.

        Args:
            position: The reader's position, which must be between transactions.
        """
        chunk = self._chunk
        if chunk is None or chunk.high is None or not chunk.read:
            return False
        return self._passed(position, max(chunk.position, chunk.high))

    def emit(self) -> Emission:
        """Ends a chunk that is ready. Its rows are emitted in one checkpoint with the state and the position."""
        chunk = self._in_flight()
        if chunk.high is None or not chunk.read:
            raise RuntimeError(f"table {self.table}: the chunk is not ready")
        touched = chunk.window.touched()
        if self._useless(chunk.window):
            self.abandon()
            return Emission((), (), len(chunk.keys), len(chunk.reread_keys), 0, progressed=False)
        self._chunk = None
        if self._keyless:
            touched = TouchedKeys()
        came_through = self._settle_rereads(chunk, touched)
        keep_rereads = self._keep_rereads(chunk.reread_keys, touched)
        keep, dropped, covered = self._keep(chunk.keys, touched)
        moved = self._advance(chunk, covered)
        return Emission(
            keep=keep,
            keep_rereads=keep_rereads,
            dropped=dropped,
            dropped_rereads=len(chunk.reread_keys) - len(keep_rereads),
            cut=len(chunk.keys) - covered,
            progressed=moved or came_through,
            gone=self._gone(chunk, touched),
        )

    def abandon(self) -> None:
        """Discards the chunk in flight, if there is one: its rows are read again later."""
        if self._chunk is not None:
            self._rereads.release(self._chunk.leased)
        self._chunk = None

    # Used by the table.

    @property
    def window(self) -> Window | None:
        """The window of the chunk in flight, which the table tells what the log touches."""
        return None if self._chunk is None else self._chunk.window

    def cancel(self) -> None:
        """Discards the chunk in flight and the range: the table is scanned again from the start."""
        self.finished = True
        self.rows = 0
        if self._chunk is not None:
            self._chunk.window.spoil()
            self._chunk.leased = ()  # By now the list is a new one.

    # The rules.

    def _passed(self, position: int, high: int) -> bool:
        """Whether the log has already given everything that the snapshot sees."""
        return position >= high

    def _useless(self, window: Window) -> bool:
        """Whether no row may be emitted. Rows without keys cannot be told apart, but a TRUNCATE touches all."""
        return window.truncated if self._keyless else window.everything

    def _request_hidden(self, window: Window) -> None:
        """Requests rereads of rows that came to their keys without all columns, in transactions hidden to the snapshot.

        The log has requested them already, but a scan that began since has discarded that, and its snapshot has no
        such row to drop. In a physical scan this applies to every row with a partial event: the scan may not have
        reached the row's place in the snapshot yet, and may have passed its later place.
        """
        if self._keyless or self.range.compared:
            return
        for key in window.partials() if self.physical else window.incomplete():
            self._rereads.request(key)

    def _remember(self, key: Key) -> bool:
        """Adds a dropped row to the reread list if the log gave only a part of it. False: cut the chunk there.

        In a physical scan the log has added it already, and there is no page at which a cut chunk could resume. A row
        that is only compared need not come.
        """
        return self.physical or self.range.compared or self._rereads.remember(key)

    def _settle_rereads(self, chunk: _InFlight, touched: TouchedKeys) -> bool:
        """Removes rows from the reread list that were emitted, deleted, or given completely by the log."""
        any_settled = False
        for key in chunk.leased:
            settled = key not in touched or not touched.partial(key)
            self._rereads.settle(key, settled)
            any_settled |= settled
        return any_settled

    @staticmethod
    def _gone(chunk: _InFlight, touched: TouchedKeys) -> tuple[Key, ...]:
        found = set(chunk.reread_keys) if chunk.plan.rereads else set()
        return tuple(key for key in chunk.plan.rereads if key not in found and key not in touched)

    def _keep_rereads(self, keys: Sequence[Key], touched: TouchedKeys) -> tuple[int, ...]:
        keep = []
        for index, key in enumerate(keys):
            if key not in touched:
                keep.append(index)
            elif touched.partial(key):
                # On the list already, unless the server's collation found the row by another spelling of its key.
                self._rereads.request(key)
        return tuple(keep)

    def _keep(self, keys: Sequence[Key], touched: TouchedKeys) -> tuple[tuple[slice, ...] | None, int, int]:
        """Slices of rows to emit, the number of dropped rows, and the number of rows covered by either."""
        if touched.isdisjoint(keys):
            return None, 0, len(keys)
        slices: list[slice] = []
        first = dropped = 0
        covered = len(keys)
        for index, key in enumerate(keys):
            if key not in touched:
                continue
            if touched.partial(key) and not self._remember(key):
                covered = index
                break
            if first < index:
                slices.append(slice(first, index))
            first = index + 1
            dropped += 1
        if first < covered:
            slices.append(slice(first, covered))
        return tuple(slices), dropped, covered

    def _advance(self, chunk: _InFlight, covered: int) -> bool:
        """Moves the cursor past the covered rows; returns False if the scan did not advance."""
        if self.finished:
            return False
        before = self.range
        whole = covered == len(chunk.keys)
        cursor = chunk.cursor if whole else chunk.keys[covered - 1] if covered else None
        self.range = replace(before, cursor=before.cursor if cursor is None else cursor, inclusive=False)
        self.rows += covered
        self.finished = chunk.end and whole
        return self.finished or self.range != before

    def _in_flight(self) -> _InFlight:
        if self._chunk is None:
            raise RuntimeError(f"table {self.table}: no chunk is in flight")
        return self._chunk
