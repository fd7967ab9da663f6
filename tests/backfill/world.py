"""The model's connector, which drives ``backfill`` as a capture engine does, and the consumer that replays its stream.

Every step of ``World`` may follow any other. ``World.check`` holds after each; ``World.quiesce`` at the end.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from backfill.hidden import HiddenSet
from backfill.keys import Key, TouchedKeys, join_key, key_texts
from backfill.scan import ChunkPlan, TableScan
from protocol.messages import JsonObject
from tests.backfill.database import TABLES, Database, Delete, Event, Put, Row, Snapshot, Truncate


@dataclass(frozen=True)
class Limits:
    """Small enough to be exceeded."""

    window: int = 4
    reread: int = 1
    request: int = 3
    hidden: int = 12


@dataclass(frozen=True)
class SnapshotFence:
    """A snapshot's fence: exact, or as on a standby, where all from the oldest running transaction on are doubtful."""

    snapshot: Snapshot
    high: int
    conservative: bool

    def hides(self, txn: int) -> bool:
        if self.conservative:
            return txn >= self.snapshot.horizon
        return txn >= self.snapshot.next_xid or txn in self.snapshot.unfinished


class Consumer:
    """Replays documents: upsert with lacking columns kept, delete, truncate; a chunk's row replaces the row."""

    def __init__(self) -> None:
        self.tables: dict[str, dict[int, dict[str, int]]] = {table: {} for table in TABLES}
        self.versions: dict[tuple[str, int], int] = {}
        self.truncated = dict.fromkeys(TABLES, 0)
        self.scanned = dict.fromkeys(TABLES, 0)
        """The largest key that a scan has given."""

    def log(self, event: Event) -> None:
        rows = self.tables[event.table]
        if isinstance(event, Truncate):
            rows.clear()
            self.truncated[event.table] = event.version
        elif isinstance(event, Delete):
            self._newer(event.table, event.key, event.version)
            rows.pop(event.key, None)
        else:
            self._newer(event.table, event.key, event.row.version)
            columns = {"version": event.row.version} if event.partial else vars(event.row)
            rows[event.key] = {**rows.get(event.key, {}), **columns}

    def chunk_row(self, table: str, key: int, row: Row) -> None:
        self._newer(table, key, row.version)
        self.tables[table][key] = dict(vars(row))

    def _newer(self, table: str, key: int, version: int) -> None:
        emitted = max(self.versions.get((table, key), 0), self.truncated[table])
        assert version >= emitted, f"row {key} of {table} went back from version {emitted} to {version}"
        self.versions[table, key] = version


@dataclass
class Chunk:
    """A chunk in flight, and how far it has come."""

    plan: ChunkPlan
    snapshot: Snapshot | None = None
    fenced: bool = False
    rows: list[tuple[int, Row]] | None = None
    rereads: list[tuple[int, Row]] = field(default_factory=list)
    truncated_until: int = 0


@dataclass
class Checkpoint:
    position: int
    hidden: list[int]
    scans: dict[str, str]
    consumer: Consumer


class World:
    """A database, a connector with one scan per table, and a consumer.

    Args:
        filled: Keys of the rows that are there at the beginning.
        limits: Limits of scans and of the hidden set.
        whole_transactions: The connector tells scans what the log touched when a transaction has ended, rather than
            event by event.
    """

    def __init__(
        self, filled: Iterable[int] = (), limits: Limits | None = None, *, whole_transactions: bool = False
    ) -> None:
        self.position: int
        self.event: int  # Of the transaction at this position, the next event to emit.
        self.limits = limits or Limits()
        self.whole_transactions = whole_transactions
        self.database = Database()
        self.database.fill(filled)
        self.trusted_from = dict.fromkeys(TABLES, 0)
        self._restore(Checkpoint(0, [], {table: "{}" for table in TABLES}, Consumer()))
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
                self.tracked = track.union(table for table in TABLES if table in self.chunks or self._begun(table))
            transaction = self.database.log[self.position]
            self._emit(transaction.events[self.event])
            self.event += 1
            if self.event == len(transaction.events):
                self._end_transaction(transaction.xid)

    def _emit(self, event: Event) -> None:
        self.consumer.log(event)
        scan = self.scans[event.table]
        touched = None
        if event.table in self.tracked:
            touched = self.touched.setdefault(event.table, TouchedKeys(self.limits.window))
        if isinstance(event, Truncate):
            if touched is not None:
                touched.truncate()
            if not self.whole_transactions:
                scan.truncate()
            return
        partial = isinstance(event, Put) and event.partial
        inserted = isinstance(event, Put) and event.inserted
        if touched is not None:
            touched.add(_key(event.key), partial, inserted)
        if not self.whole_transactions:
            scan.observe(_key(event.key), partial, inserted)

    def _end_transaction(self, xid: int) -> None:
        if self.whole_transactions:
            for table, touched in self.touched.items():
                self.scans[table].observe_all(touched)
        self.hidden.add(xid, self.touched, self.tracked)
        self.position += 1
        self.event = 0
        self.check()

    # The chunks' steps:

    def chunk(self, table: str, limit: int = 2, *, conservative: bool = False, tight: bool = True) -> bool:
        """Takes the table's chunk one step further; False when it cannot.

        Args:
            table: The table.
            limit: Rows that the scan asks for.
            conservative: The fence hides what it is not sure of.
            tight: The fence's high position is the lowest possible one; otherwise the end of the log.
        """
        chunk = self.chunks.get(table)
        if chunk is None:
            return self.start(table)
        if chunk.snapshot is None:
            chunk.snapshot = self.database.snapshot()
            return True
        if not chunk.fenced:
            self._fence(table, chunk, chunk.snapshot, conservative, tight)
            return True
        if chunk.rows is None:
            return self._read(table, chunk, chunk.snapshot, limit)
        return self._emit_chunk(table, chunk, chunk.rows)

    def start(self, table: str) -> bool:
        scan = self.scans[table]
        if scan.done or (self.event and self.whole_transactions and table not in self.tracked):
            return False
        self.chunks[table] = Chunk(scan.start(self.position, self.hidden))
        if self.event and not self.whole_transactions:
            if table in self.tracked:
                scan.observe_all(self.touched.get(table, TouchedKeys()))
            else:
                scan.truncate()  # Nobody knows what this transaction has touched so far.
        return True

    def _fence(self, table: str, chunk: Chunk, snapshot: Snapshot, conservative: bool, tight: bool) -> None:
        fence = SnapshotFence(snapshot, snapshot.lowest_high if tight else len(self.database.log), conservative)
        self.hidden.purge(fence)
        chunk.fenced = self.scans[table].fenced(fence)
        if not chunk.fenced:
            self.abandon(table)

    def _read(self, table: str, chunk: Chunk, snapshot: Snapshot, limit: int) -> bool:
        found = self.database.select(snapshot, table)
        if found is None:
            return False
        if self.database.truncates[table] != snapshot.truncates[table]:
            chunk.truncated_until = self.database.last_truncate[table]
        after = 0 if chunk.plan.cursor is None else _number(chunk.plan.cursor)
        rest = sorted(key for key in found if key > after) if chunk.plan.scan else []
        chunk.rows = [(key, found[key]) for key in rest[:limit]]
        chunk.rereads = [(key, found[key]) for key in map(_number, chunk.plan.rereads) if key in found]
        self.scans[table].read(
            [_key(key) for key, _ in chunk.rows],
            [_key(key) for key, _ in chunk.rereads],
            chunk.plan.scan and len(rest) < limit,
        )
        return True

    def _emit_chunk(self, table: str, chunk: Chunk, rows: list[tuple[int, Row]]) -> bool:
        scan = self.scans[table]
        if self.event or not scan.ready(self.position):
            return False
        before = _unordered(scan.to_state())
        emission = scan.emit()
        del self.chunks[table]
        kept = rows if emission.keep is None else [row for part in emission.keep for row in rows[part]]
        assert len(kept) + emission.dropped + emission.cut == len(rows)
        assert emission.progressed or _unordered(scan.to_state()) == before
        for key, row in kept:
            assert key > self.consumer.scanned[table], f"row {key} of {table} was scanned twice"
            self.consumer.scanned[table] = key
            self.consumer.chunk_row(table, key, row)
        for index in emission.keep_rereads:
            self.consumer.chunk_row(table, *chunk.rereads[index])
        # A chunk that found the table emptied ahead of the log is right once the log has emptied it, too.
        self.trusted_from[table] = max(self.trusted_from[table], chunk.truncated_until)
        self.check()
        return True

    def abandon(self, table: str) -> None:
        """The chunk's connection is lost, or its fence refused."""
        self.scans[table].abandon()
        self.chunks.pop(table, None)

    def restart(self, table: str) -> None:
        """The table's key changed."""
        self.scans[table].restart()
        self.chunks.pop(table, None)
        self.consumer.scanned[table] = 0

    def refresh(self, *, conservative: bool = False) -> None:
        """A query of what is visible, before a checkpoint."""
        self.hidden.purge(SnapshotFence(self.database.snapshot(), 0, conservative))

    # Checkpoints and crashes:

    def checkpoint(self) -> None:
        """Everything emitted so far becomes durable; only between transactions."""
        if not self.event:
            self.durable = self._checkpoint()

    def crash(self) -> None:
        """The connector is killed; what was emitted after the last checkpoint is lost."""
        self._restore(self.durable)

    def _checkpoint(self) -> Checkpoint:
        scans = {table: json.dumps(scan.to_state()) for table, scan in self.scans.items()}
        return Checkpoint(self.position, self.hidden.ids(), scans, copy.deepcopy(self.consumer))

    def _restore(self, checkpoint: Checkpoint) -> None:
        self.position = checkpoint.position
        self.event = 0
        self.consumer: Consumer = copy.deepcopy(checkpoint.consumer)
        self.hidden: HiddenSet = HiddenSet(self.limits.hidden)
        self.hidden.restore(checkpoint.hidden)
        self.chunks: dict[str, Chunk] = {}
        self.scans: dict[str, TableScan] = {
            table: self._scan(table, json.loads(state)) for table, state in checkpoint.scans.items()
        }

    def _scan(self, table: str, state: object) -> TableScan:
        return WatchedScan.from_state(
            table,
            state,
            reread_limit=self.limits.reread,
            window_limit=self.limits.window,
            request_limit=self.limits.request,
        ).watched_by(lambda: self.consumer.scanned.__setitem__(table, 0))

    # What must hold:

    def check(self) -> None:
        """A table whose backfill is done equals, replayed, the table as of the log's position."""
        if self.event:
            return
        for table, scan in self.scans.items():
            if scan.done and self.position >= self.trusted_from[table]:
                expected = {key: vars(row) for key, row in self.database.states[self.position][table].items()}
                assert self.consumer.tables[table] == expected, f"table {table} is done and differs"

    def quiesce(self) -> None:
        """Everything becomes visible, the log is read and the backfill ends; then every table is equal."""
        while self.database.invisible:
            self.database.reveal(0)
        self.database.running.clear()
        self.read_log(1_000_000)
        self.check()
        for table in TABLES:
            for _ in range(100):
                if not self.chunk(table):
                    break
            assert self.scans[table].done, f"the backfill of {table} does not end"
        self.check()

    def _begun(self, table: str) -> bool:
        state = self.scans[table].to_state()
        return bool(state["cursor"] or state["rereads"] or state["scanned"])


class WatchedScan(TableScan):
    """Tells when it begins again by itself."""

    def watched_by(self, begins_again: Callable[[], None]) -> WatchedScan:
        self._begins_again = begins_again
        return self

    def _scan_again(self) -> None:
        super()._scan_again()
        self._begins_again()


def _unordered(state: JsonObject) -> JsonObject:
    return {**state, "rereads": sorted(state["rereads"])}


def _key(number: int) -> Key:
    return join_key([str(number).encode()])


def _number(key: Key) -> int:
    return int(key_texts(key)[0])
