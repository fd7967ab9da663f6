"""The model's connector, which drives ``backfill`` as a capture engine does.

Every step of ``World`` may follow any other. ``World.check`` holds after each; ``World.quiesce`` at the end.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable

from tests.backfill.consumer import Consumer, Work
from tests.backfill.database import KEYLESS, TABLES, Database, Delete, Event, Put, Row, Snapshot, Transaction, Truncate
from tests.backfill.events import observe
from tests.backfill.reader import (
    AllVisible,
    Kept,
    Questions,
    SeenBase,
    SnapshotFence,
    key_of,
    mariadb_id,
    number_of,
    place,
    rows_by_key,
    rows_by_page,
)
from tests.backfill.records import Checkpoint, Chunk, Comparison
from tests.backfill.watched_ranges import WatchedRanges, unordered
from tidemark.backfill.counted_rows import CountedRows
from tidemark.backfill.fence import Fence
from tidemark.backfill.hidden import HiddenSet
from tidemark.backfill.keys import Key, TouchedKeys
from tidemark.backfill.limits import Limits
from tidemark.backfill.range_scan import Range, RangeScan
from tidemark.backfill.range_state import Pages
from tidemark.backfill.ranges import TableRanges
from tidemark.protocol.errors import SourceError

SMALL = Limits(
    window=4, reread_bytes=8, reread_least=1, reread_keys=3, rereads_per_chunk=2, range_bytes=400, overflows=2
)
"""Small enough to be exceeded. A key takes eight bytes of the reread list, a range some 130."""

COMPARED = 80
"""Bytes of the range whose rows are compared."""

OVERHEAD = 80
"""Bytes of a table's state besides ranges and keys."""


class World:
    """A database, a connector with one backfill per table, and a consumer.

    Args:
        filled: Keys of the rows that are there at the beginning.
        limits: What a table may hold.
        hidden: Keys that the hidden set may hold.
        whole_transactions: The connector tells backfills what the log touched when a transaction has ended, rather than
            event by event.
        physical: The tables that are scanned by pages, besides the one without a key.
        open_end: Such a scan goes to the last page that there is when it comes there, not when it was set up.
        mariadb: The database orders its transactions and tells of its snapshots as MariaDB does.
    """

    def __init__(
        self,
        filled: Iterable[int] = (),
        limits: Limits = SMALL,
        *,
        hidden: int = 12,
        whole_transactions: bool = False,
        physical: Iterable[str] = (),
        open_end: bool = False,
        mariadb: bool = False,
    ) -> None:
        self.position: int
        self.event: int  # Of the transaction at this position, the next event to emit.
        self.ranges: dict[str, TableRanges]
        self.chunks: dict[RangeScan, Chunk]
        self.consumer: Consumer
        self.counting: CountedRows[SeenBase] | None
        self.held: Snapshot | None
        self.opened: bool
        self.miscounted: bool
        self.comparisons: dict[str, Comparison]
        self.hidden: HiddenSet
        self.limits = limits
        self.hidden_limit = hidden
        self.whole_transactions = whole_transactions
        self.physical = frozenset({KEYLESS, *physical})
        self.open_end = open_end
        self.mariadb = mariadb
        self.database = Database(ordered=mariadb)
        self.database.fill(filled)
        self.trusted_from = dict.fromkeys(TABLES, 0)
        self._restore(Checkpoint(0, [], {table: "{}" for table in TABLES}, Kept(), Consumer(), {}))
        self.durable = self._checkpoint()

    # The database's steps are those of Database. The reader's:

    def read_log(self, events: int, track: frozenset[str] = frozenset(TABLES)) -> None:
        """Emits the next events of the log. ``track``: the tables that shall be tracked, where there is a choice."""
        for _ in range(events):
            if self.position == len(self.database.log):
                return
            if self.event == 0:
                # A table that was not begun need not be tracked: its first chunk waits for such transactions.
                self.touched: dict[str, TouchedKeys] = {}
                self.incomplete: list[tuple[str, Key]] = []
                self.tracked = track.union(table for table in TABLES if self._must_track(table))
            transaction = self.database.log[self.position]
            self._emit(transaction.events[self.event], transaction.xid)
            self.event += 1
            if self.event == len(transaction.events):
                self._end_transaction(transaction)

    def _emit(self, event: Event, xid: int) -> None:
        if event.table == KEYLESS and self.counting is not None:
            if not self.counting.from_scan(xid, self.position + 1):
                if not isinstance(event, Truncate):
                    self.miscounted |= not self.counting.follow(xid, removes=isinstance(event, Delete))
                self.consumer.log(event)
        else:
            self.consumer.log(event)
        ranges = self.ranges[event.table]
        if (comparison := self.comparisons.get(event.table)) is not None:
            comparison.emptied |= isinstance(event, Truncate)
            if not isinstance(event, Truncate):
                comparison.touched.add(event.key)
        touched = None
        if event.table in self.tracked:
            touched = self.touched.setdefault(event.table, TouchedKeys(self.limits.window))
        if isinstance(event, Truncate):
            if touched is not None:
                touched.truncate()
            if not self.whole_transactions:
                ranges.truncate()
            return
        key = key_of(event.key)
        partial = isinstance(event, Put) and event.partial
        inserted = isinstance(event, Put) and event.inserted
        if touched is not None:
            touched.add(key, partial, inserted)
        elif partial and inserted:
            self.incomplete.append((event.table, key))
        if not self.whole_transactions:
            observe(ranges, key, partial, inserted)

    def _end_transaction(self, transaction: Transaction) -> None:
        if self.whole_transactions:
            for table, ranges in self.ranges.items():
                if table not in self.tracked:
                    ranges.truncate()
                elif table in self.touched:
                    ranges.observe_all(self.touched[table])
        for table, key in self.incomplete:
            self.ranges[table].request_reread(key)
        txn = mariadb_id(transaction, self.position + 1) if self.mariadb else transaction.xid
        self.hidden.add(txn, self.touched, self.tracked)
        self.position += 1
        self.event = 0
        if self.miscounted:
            self.hold = True
            self.restart(KEYLESS)
        self.check()

    # The chunks' steps:

    def chunk(
        self, table: str, limit: int = 2, *, which: int = 0, conservative: bool = False, tight: bool = True
    ) -> bool:
        """Takes one of the table's chunks one step further; False when it cannot.

        Args:
            table: The table.
            limit: Rows, or pages, that the scan asks for.
            which: Of the table's scans that are idle or in flight.
            conservative: The fence hides what it is not sure of.
            tight: The fence's high position is the lowest possible one; otherwise the end of the log.
        """
        ranges = self.ranges[table]
        known = [*ranges.scans, *([] if ranges.comparison is None else [ranges.comparison])]
        scans = [scan for scan in known if scan in self.chunks] + ranges.idle()
        if not scans:
            return False
        scan = scans[which % len(scans)]
        chunk = self.chunks.get(scan)
        if chunk is None:
            return self._start(table, scan)
        if chunk.snapshot is None:
            if table == KEYLESS and self.held is not None:
                chunk.snapshot = self.held
            else:
                chunk.snapshot = self.database.snapshot() if chunk.questions is None else chunk.questions.ask()
            return True
        if not chunk.fenced:
            self._fence(scan, chunk, chunk.snapshot, conservative, tight)
            return True
        if chunk.rows is None:
            return self._read(scan, chunk, chunk.snapshot, limit)
        return self._emit_chunk(scan, chunk, chunk.rows)

    def _start(self, table: str, scan: RangeScan) -> bool:
        if table == KEYLESS and not self.opened:
            lost = self.counting is not None and self.counting.changed
            if lost or not self._begin_snapshot():
                return lost and self.restart(KEYLESS)
        questions = Questions(self.database) if self.mariadb and table != KEYLESS else None
        self.chunks[scan] = Chunk(table, scan.start(self.position, self.hidden), questions)
        if self.event and not self.whole_transactions:
            if table in self.tracked:
                self.ranges[table].observe_all(self.touched.get(table, TouchedKeys()))
            else:
                self.ranges[table].truncate()  # Nobody knows what this transaction has touched so far.
        return True

    def _begin_snapshot(self) -> bool:
        """Whether the table without a key can be read; its snapshot is opened between two transactions of the log."""
        counting = self.counting
        assert counting is not None
        if self.event:
            return False
        snapshot = self.database.snapshot()
        if counting.base is None:
            if any(index < self.position for index in self.database.invisible):
                return False  # It does not show all that the log has left out.
            counting.base = SeenBase(snapshot, len(self.database.log))
        if self.hold:
            self.held = snapshot
            counting.held = SnapshotFence(snapshot, 0, conservative=False)
        self.opened = True
        return True

    def _counted(self, found: dict[int, Row]) -> dict[int, Row]:
        """The rows of a chunk that the scan gives, as far as their writers tell."""
        assert self.counting is not None and self.counting.base is not None
        base = self.counting.base.snapshot
        if self.held is base:
            return found
        log = self.database.log
        return {key: row for key, row in found.items() if row.writer < 0 or log[row.writer].xid < base.next_xid}

    def _fence(self, scan: RangeScan, chunk: Chunk, snapshot: Snapshot, conservative: bool, tight: bool) -> None:
        fence: Fence
        if chunk.questions is not None:
            fence = chunk.questions.fence()
        elif self.mariadb:
            fence = AllVisible(len(self.database.log))  # Of the table without a key: nothing that is hidden matters.
        else:
            fence = SnapshotFence(snapshot, snapshot.lowest_high if tight else len(self.database.log), conservative)
        if chunk.table != KEYLESS:
            self.hidden.purge(fence)
        chunk.fenced = scan.fenced(fence)
        if not chunk.fenced:
            scan.abandon()
            del self.chunks[scan]

    def _read(self, scan: RangeScan, chunk: Chunk, snapshot: Snapshot, limit: int) -> bool:
        table, plan, database = chunk.table, chunk.plan, self.database
        found = database.select(snapshot, table)
        if found is None:
            return False
        if plan.physical and self.files[table] != database.files[table]:
            return self.restart(table)  # The pages of this snapshot's file are others.
        if database.truncates[table] != snapshot.truncates[table]:
            chunk.truncated_until = database.last_truncate[table]
        if table == KEYLESS:
            found = self._counted(found)
        keys, end, cursor = (
            rows_by_page(plan, found, limit, database.pages[table])
            if plan.physical
            else rows_by_key(plan, found, limit)
        )
        chunk.rows = [(key, found[key]) for key in keys]
        chunk.rereads = [(key, found[key]) for key in map(number_of, plan.rereads) if key in found]
        if plan.physical and plan.scan:
            assert cursor is not None
            chunk.places = list(range(place(plan.cursor, 0), cursor))
        scan.read(
            [key_of(key) for key in keys],
            [key_of(key) for key, _ in chunk.rereads],
            end,
            None if cursor is None else key_of(cursor),
        )
        return True

    def _emit_chunk(self, scan: RangeScan, chunk: Chunk, rows: list[tuple[int, Row]]) -> bool:
        if self.event or not scan.ready(self.position):
            return False
        table = chunk.table
        ranges = self.ranges[table]
        before = unordered(ranges.to_state())
        work = self.consumer.work[table]
        emission = scan.emit()
        del self.chunks[scan]
        kept = rows if emission.keep is None else [row for part in emission.keep for row in rows[part]]
        assert len(kept) + emission.dropped + emission.cut == len(rows)
        after = unordered(ranges.to_state())
        # The count of overflows starts anew once the last chunk of a table that is done is over.
        forgotten = {**before, "overflows": 0} if before["done"] else before
        same = after in (before, forgotten) or after["overflows"] > 0
        assert emission.progressed or same, "the state changed without progress"
        if chunk.plan.compared:
            self._compare(scan, chunk, kept, whole=emission.progressed and scan.finished)
            self.check()
            return True
        if emission.progressed:
            places = [key for key, _ in kept] if chunk.places is None else chunk.places
            work.allowed += len(places) if chunk.split else 0
            work.add(places)
        for key, row in kept:
            self.consumer.chunk_row(table, key, row)
        for index in emission.keep_rereads:
            self.consumer.chunk_row(table, *chunk.rereads[index])
        if table == KEYLESS and ranges.done:
            self.counting, self.held = None, None
        # A chunk that found the table emptied ahead of the log is right once the log has emptied it, too.
        self.trusted_from[table] = max(self.trusted_from[table], chunk.truncated_until)
        self.check()
        return True

    def _compare(self, scan: RangeScan, chunk: Chunk, kept: list[tuple[int, Row]], *, whole: bool) -> None:
        """The rows of a chunk are what the consumer has. After the last one, it has no others that nobody touched."""
        table = chunk.table
        comparison = self.comparisons.get(table)
        if comparison is None or self.position < max(self.trusted_from[table], chunk.truncated_until):
            self.comparisons.pop(table, None)
            return
        for key, row in kept:
            assert self.consumer.tables[table].get(key) == row.columns(), f"row {key} of {table} differs when compared"
            comparison.found.add(key)
        if whole:
            del self.comparisons[table]
            alone = comparison.there - comparison.touched - comparison.found
            assert comparison.emptied or not alone, f"rows {alone} of {table} are too many when compared"

    # Steering and mishaps:

    def compare(self, table: str) -> None:
        """All rows are to be compared, once everything that was emitted is visible."""
        done = table != KEYLESS and self.ranges[table].done and self.position >= self.trusted_from[table]
        if self.event or len(self.hidden) or not done:
            return
        earlier = [scan for scan, chunk in self.chunks.items() if chunk.table == table and chunk.plan.compared]
        self.chunks = {scan: chunk for scan, chunk in self.chunks.items() if scan not in earlier}
        self.ranges[table].compare()
        self.comparisons[table] = Comparison(frozenset(self.consumer.tables[table]))

    def split(self, table: str, which: int, numbers: Iterable[int]) -> None:
        """A range is cut at those keys, or pages, that lie in what is left of it."""
        scans = [scan for scan in self.ranges[table].scans if not scan.finished]
        if not scans:
            return
        scan = scans[which % len(scans)]
        first, last = place(scan.range.cursor, 0), place(scan.range.until, 1_000)
        bounds = [key_of(number) for number in sorted(numbers) if first < number < last]
        if self.ranges[table].split(scan, bounds) and scan in self.chunks:
            self.chunks[scan].split = True

    def add(self, table: str, first: int | None, until: int | None, where: str | None) -> None:
        """Some rows are asked for again."""
        ranges = self.ranges[table]
        if table == KEYLESS:
            return
        self.consumer.work[table].counted = False
        with contextlib.suppress(SourceError):  # There may be no room, which changes nothing.
            ranges.add(None if first is None else key_of(first), None if until is None else key_of(until), where)

    def abandon(self, table: str, which: int = 0) -> None:
        """A chunk's connection is lost, or its fence refused."""
        scans = [scan for scan, chunk in self.chunks.items() if chunk.table == table]
        if scans:
            scan = scans[which % len(scans)]
            scan.abandon()
            del self.chunks[scan]

    def restart(self, table: str) -> bool:
        """The table's key changed, or its file, or somebody asks for it."""
        if table == KEYLESS:
            if self.event:
                return False
            self._count_anew(Kept())
        self.files[table] = self.database.files[table]
        self.ranges[table].restart(self._pages(table))
        self.chunks = {scan: chunk for scan, chunk in self.chunks.items() if chunk.table != table}
        self.consumer.work[table] = Work()
        self.comparisons.pop(table, None)
        return True

    def _count_anew(self, kept: Kept | None) -> None:
        """The scan of the table without a key begins, or is resumed, or was complete."""
        if kept is not None and kept == Kept():
            self.consumer.empty(KEYLESS)
        self.counting = None if kept is None else CountedRows(kept.base, changed=kept.lost)
        self.held = None
        self.opened = False
        self.miscounted = False

    def refresh(self, *, conservative: bool = False) -> None:
        """A query of what is visible, before a checkpoint."""
        if not self.mariadb:
            self.hidden.purge(SnapshotFence(self.database.snapshot(), 0, conservative))
            return
        questions = Questions(self.database)
        while questions.ask() is None:
            pass
        self.hidden.purge(questions.fence())

    # Checkpoints and crashes:

    def checkpoint(self) -> None:
        """Everything emitted so far becomes durable; only between transactions."""
        if not self.event:
            self.durable = self._checkpoint()

    def crash(self) -> None:
        """The connector is killed; what was emitted after the last checkpoint is lost."""
        self._restore(self.durable)

    def _checkpoint(self) -> Checkpoint:
        states = {table: json.dumps(ranges.to_state()) for table, ranges in self.ranges.items()}
        for state in states.values():
            most = OVERHEAD + max(self.limits.reread_bytes, 8) + max(self.limits.range_bytes, 130)
            assert len(state) <= most + (COMPARED if '"compared"' in state else 0), state
        counting = self.counting
        kept = None if counting is None else Kept(counting.base, counting.changed)
        comparisons = {table: each.copy() for table, each in self.comparisons.items()}
        return Checkpoint(self.position, self.hidden.ids(), states, kept, self.consumer.copy(), comparisons)

    def _restore(self, checkpoint: Checkpoint) -> None:
        self.position = checkpoint.position
        self.event = 0
        self.consumer = checkpoint.consumer.copy()
        self.comparisons = {table: each.copy() for table, each in checkpoint.comparisons.items()}
        self.hold = checkpoint.counting is not None and checkpoint.counting.lost
        self._count_anew(checkpoint.counting)
        self.hidden = HiddenSet(self.hidden_limit)
        self.hidden.restore(checkpoint.hidden)
        self.chunks = {}
        self.files = dict(self.database.files)  # As the connector found them when it opened the tables.
        self.ranges = {table: self._ranges(table, state) for table, state in checkpoint.ranges.items()}

    def _ranges(self, table: str, state: str) -> TableRanges:
        stored = json.loads(state)
        ranges = WatchedRanges.from_state(
            table, stored, pages=self._pages(table), keyless=table == KEYLESS, limits=self.limits
        )
        ranges.watched_by(self.consumer.work)
        if ranges.rewritten or stored.get("ranges") == [{}]:
            self.consumer.work[table] = Work()
        if ranges.rewritten and table == KEYLESS:
            self._count_anew(Kept())
        return ranges

    def _pages(self, table: str) -> Pages | None:
        if table not in self.physical:
            return None
        # Rows that the base shows may be in any page that there is when it is taken.
        end = None if self.open_end or table == KEYLESS else key_of(self.database.pages[table])
        return Pages(str(self.database.files[table]), end)

    # What must hold:

    def check(self) -> None:
        """A table whose backfill is done equals, replayed, the table as of the log's position."""
        if self.event:
            return
        for table, ranges in self.ranges.items():
            if self.position >= self.trusted_from[table] and ranges.done:
                rows = self.database.states[self.position][table]
                if table == KEYLESS:
                    counts = {key: count for key, count in self.consumer.counts.items() if count}
                    assert counts == dict.fromkeys(rows, 1), f"table {table} is done and was counted wrong"
                    continue
                expected = {key: row.columns() for key, row in rows.items()}
                assert self.consumer.tables[table] == expected, f"table {table} is done and differs"

    def quiesce(self) -> None:
        """Everything becomes visible, the log is read and the backfill ends; then every table is equal."""
        while self.database.prepared:
            self.database.commit_prepared(0)
        while self.database.invisible:
            self.database.reveal(0)
        self.database.running.clear()
        self.read_log(1_000_000)
        self.check()
        for table, ranges in self.ranges.items():
            for _ in range(300):
                if ranges.failure is not None:
                    self.restart(table)
                if not self.chunk(table):
                    break
            assert ranges.done, f"the backfill of {table} does not end"
        self.check()

    def _must_track(self, table: str) -> bool:
        ranges = self.ranges[table]
        untouched = Range(), Range(file=str(self.files[table]))
        return not ranges.done and not (len(ranges.scans) == 1 and ranges.scans[0].range in untouched)
