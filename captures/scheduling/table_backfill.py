"""One table's backfill in this session: its scans and chunks in flight, and what steers it."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tidemark.backfill.chunk_size import ChunkSize
from tidemark.backfill.keys import Key
from tidemark.backfill.limits import REREADS_PER_CHUNK
from tidemark.backfill.range_scan import RangeScan
from tidemark.backfill.range_state import Pages
from tidemark.backfill.ranges import TableRanges
from tidemark.captures.contract import causes
from tidemark.captures.contract.chunk import Barrier, Chunk, ChunkRequest
from tidemark.captures.contract.options import BackfillConfig
from tidemark.captures.contract.source import OpenedTable
from tidemark.captures.scheduling.backoff import HELD_SECONDS, Backoff
from tidemark.captures.scheduling.kept_apart import KeptApart
from tidemark.captures.scheduling.reread_record import joined
from tidemark.captures.scheduling.table_states import (
    CAPTURED,
    TEXT_LENGTH,
    Away,
    Captured,
    LeftOut,
    OnCommand,
    TableState,
    configured_otherwise,
    opened_state,
    read_as,
    was_replaced,
)
from tidemark.captures.scheduling.verification import Verification
from tidemark.protocol.errors import SourceError, TidemarkError
from tidemark.protocol.log_lines import Reread
from tidemark.protocol.messages import JsonObject

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Flight:
    """A chunk from the time that it is handed to a reader until it is emitted; ``chunk`` is there once it was read.

    Chunks with the same number are read together.
    """

    scan: RangeScan
    request: ChunkRequest
    number: int
    chunk: Chunk | None = None


@dataclass(slots=True)
class TableBackfill:
    """One table's backfill.

    Attributes:
        table: As the source has it now.
        ranges: Its scans.
        size: Of its next chunks.
        reread_size: Rows that its next chunk may read again by key. How large they are, the first ones show.
        barrier: No chunk is started before the source has passed it.
        waits_for: Why it has not, for people; empty before that is known.
        base: What the state held of the snapshot of a table without a key; None where there was none.
        kept_snapshot: What the state is to hold of it.
        unopened: No chunk is started before a snapshot is open for it: see ``contract.capabilities.ReadsInSnapshots``.
        from_scratch: The table is emptied downstream and read again: what earlier sessions emitted is not valid.
        begun: Its begin was announced, and its end was not.
        paused: By command.
        priority: Tables of higher priority are read first.
        failed: Why it is left alone, until it is taken up again.
        capture: Whether it is captured; see ``tidemark.captures.engine.set_aside``.
        error: What its last chunk failed with.
        dropped: Code and text of why rows are not read that the last command for it asked for; empty if they are.
        not_before: No chunk is started before then, by the engine's clock.
        served: Number of the last chunk, among those of all tables.
        flights: Chunks in flight.
        emitted: Rows that chunks of this session brought.
        bytes: Of their documents.
        seconds: That reading them took, added up over readers.
        reread: Why its rows are or were read again, the last time; None where nothing has happened to it.
        bad: How many bad values there were since the table was read from the start, by the policy that was followed.
        apart: The rows of which an event is kept apart for them.
        verification: Its rows are to be read once more, to be compared.
    """

    table: OpenedTable
    ranges: TableRanges
    size: ChunkSize
    reread_size: ChunkSize = field(default_factory=lambda: ChunkSize(start=1, smallest=1, largest=REREADS_PER_CHUNK))
    barrier: Barrier | None = None
    waits_for: str = ""
    base: str | None = None
    kept_snapshot: Callable[[], str | None] | None = None
    unopened: bool = False
    from_scratch: bool = False
    begun: bool = False
    paused: bool = False
    priority: int = 0
    failed: TidemarkError | None = None
    capture: TableState = CAPTURED
    error: TidemarkError | None = None
    dropped: str = ""
    not_before: float = 0.0
    served: int = 0
    flights: list[Flight] = field(default_factory=list)
    emitted: int = 0
    bytes: int = 0
    seconds: float = 0.0
    reread: Reread | None = None
    bad: Counter[str] = field(default_factory=Counter)
    apart: KeptApart = field(default_factory=KeptApart)
    verification: Verification | None = None
    backoff: Backoff = field(default_factory=Backoff)

    @property
    def done(self) -> bool:
        return self.ranges.done

    @property
    def to_read(self) -> bool:
        """Whether rows are to be read: for its backfill, to be compared, or because they were named."""
        return not self.done or self.ranges.reads_more

    @property
    def left_out(self) -> bool:
        """Nothing of it is captured, the log neither."""
        return isinstance(self.capture, LeftOut)

    @property
    def wanted(self) -> bool:
        """Whether its chunks are to be started, now or later."""
        return self.to_read and not self.paused and self.failed is None and isinstance(self.capture, Captured)

    @property
    def turn(self) -> tuple[bool, int, int, int]:
        """The least comes next: backfills before what is compared, by priority, by readers, by how long ago."""
        return self.done, -self.priority, len(self.flights), self.served

    @property
    def row_bytes(self) -> float:
        """Bytes of a document, on average; 0 before the first."""
        return self.bytes / self.emitted if self.emitted else 0.0

    @property
    def state(self) -> str:
        """The state's name in ``tidemark.protocol.log_lines.TableProgress``."""
        if isinstance(self.capture, LeftOut):
            return "set_aside" if self.capture.settled else "away"
        if isinstance(self.capture, Away):
            return "away"
        if self.done:
            return "done"
        if self.failed is not None:
            return "failed"
        if self.paused:
            return "paused"
        return "scanning" if self.flights else "waiting"

    def startable(self, now: float) -> list[RangeScan]:
        """The scans of which a chunk may be started, as far as the table is concerned."""
        ready = self.wanted and self.barrier is None and not self.unopened and now >= self.not_before
        return self.ranges.idle() if ready else []

    def flight(self, request: ChunkRequest) -> Flight | None:
        """The chunk of this very request; None when it was put off, and what came of it is of no use."""
        return next((flight for flight in self.flights if flight.request is request), None)

    def put_off(self, flight: Flight, until: float) -> None:
        """Forgets a chunk; it, or others in its place, are read again, not before ``until``."""
        flight.scan.abandon()
        self.flights.remove(flight)
        self.not_before = max(self.not_before, until)

    def put_off_all(self, until: float) -> None:
        """Forgets all chunks in flight."""
        for flight in list(self.flights):
            self.put_off(flight, until)

    def succeeded(self) -> None:
        """A chunk was read."""
        self.error = None
        self.backoff.reset()

    def brought(self, chunk: Chunk, *, progressed: bool, now: float) -> None:
        """A chunk is about to be emitted: counts what it brought, and finds the size of the next one."""
        size = chunk.rows.size + chunk.rereads.size
        self.emitted += len(chunk.rows) + len(chunk.rereads)
        self.bytes += size
        if self.reread is not None:
            self.reread.bytes_done += size
        self.seconds += chunk.seconds
        self.bad.update(chunk.bad)
        self.apart.add(chunk.apart)
        self.reread_size.measured(len(chunk.rereads), 0.0, size=chunk.rereads.size)
        self.measured(chunk, progressed=progressed, now=now)

    def measured(self, chunk: Chunk, *, progressed: bool, now: float) -> None:
        """Finds the size of the next chunk."""
        if progressed:
            rows = max(chunk.scanned, len(chunk.rows))
            self.size.measured(rows, chunk.seconds, found=len(chunk.rows), size=chunk.rows.size)
        else:
            # What the log touches all the time does not come through now: give it a moment.
            self.size.failed()
            self.not_before = now + HELD_SECONDS

    def partly_known(self, key: Key, *, kept_apart: bool) -> None:
        """The log has an event of a row that is kept apart, or that lacks columns: see ``RowPartlyKnown``."""
        if kept_apart:
            self.apart.add([key])
        elif self.apart.lacks(key) and not self.left_out:
            self.ranges.request_reread(key)

    def take_up(self) -> None:
        """Tries again what failed, without waiting."""
        self.ranges.retry()
        self.failed = None
        self.not_before = 0.0
        self.backoff.reset()

    def read_parts(self, conditions: Iterable[str]) -> bool:
        """Reads rows beside what is read already. Returns whether that is possible: otherwise all of them have to be.

        Args:
            conditions: Each for ``Range.where``.
        """
        if not self.table.key or self.left_out or not self.table.scan.reads:
            return False
        try:
            for condition in conditions:
                self.ranges.add(where=condition)
        except SourceError:  # TM-BKF-004, the state has no room for it.
            return False
        self.take_up()
        return True

    def begin(self, table: OpenedTable, barrier: Barrier | None, config: BackfillConfig) -> None:
        """Starts from nothing, with another table perhaps: what was emitted before counts no more."""
        self.put_off_all(0.0)
        self.table = table
        self.ranges = ranges_of(table, {})
        self.size = size_of_chunks(config)
        self.barrier = barrier
        self.base = None
        self.from_scratch = False
        self.bad.clear()
        self.apart.clear()
        self.take_up()

    def come_back(self, capture: Captured, table: OpenedTable, kept: JsonObject | None) -> None:
        """It can be captured again, and goes on where it stood with ``kept``; without, what it was counts no more."""
        self.capture = capture
        self.table = table
        self.take_up()
        if kept is None:
            self.from_scratch = True
        else:
            self.restore(kept)

    def restore(self, stored: JsonObject) -> None:
        """Goes on from what ``to_state`` said of this table.

        Raises:
            ProtocolError: TM-BKF-001, the state of the scan is not one.
        """
        self.bad = Counter(stored.get("bad") or {})
        self.apart.restore(stored.get("apart"))
        self.barrier = stored.get("barrier")
        self.base = None if stored.get("base") is None else str(stored["base"])
        self.ranges = ranges_of(self.table, stored.get("scan") or {})
        if stored.get("failed"):
            self.ranges.retry()

    def to_state(self) -> JsonObject:
        """The table's part of the state, without nulls."""
        if isinstance(self.capture, LeftOut):
            return {**self.capture.to_state(), **self._apart()}
        state = {"identity": self.table.identity, "scan": self.ranges.to_state(), **read_as(self.table)}
        if self.barrier is not None:
            state["barrier"] = self.barrier
        if self.table.counted and not self.done:
            base = self.base if self.kept_snapshot is None else self.kept_snapshot()
            if base is not None:
                state["base"] = base
        if self.bad:
            state["bad"] = dict(self.bad)
        if apart := self.apart.to_state():
            state["apart"] = apart
        if self.failed is not None:
            state["failed"] = {"code": self.failed.code, "text": self.failed.message[:TEXT_LENGTH]}
        return {**state, **self._apart()}

    def _apart(self) -> JsonObject:
        """What it has whether or not it is captured: commands, what was announced, and why it is read again."""
        state: JsonObject = {}
        if self.begun:
            state["begun"] = True
        if self.paused:
            state["paused"] = True
        if self.priority != self.table.priority:
            state["priority"] = [self.priority, self.table.priority]
        if self.dropped:
            state["dropped"] = self.dropped
        if self.reread is not None:
            state["reread"] = self.reread.model_dump(exclude_defaults=True)
        if self.verification is not None:
            state["verification"] = self.verification.to_state()
        return state


def opened(
    table: OpenedTable,
    stored: JsonObject | None,
    config: BackfillConfig,
    barrier: Callable[[], Barrier],
    now: float,
    *,
    taken_out: bool,
    at: str,
    asks: bool,
) -> TableBackfill:
    """The backfill as an earlier session left it, or of a new table. What had failed is tried again.

    Args:
        barrier: Asked for that of a new table.
        now: By the engine's clock.
        taken_out: It was captured once, and then not.
        at: The position of the log.
        asks: A table that would be emptied and read again waits for a command.

    Raises:
        ProtocolError: TM-BKF-001, the state of the scan is not one.
        SourceError: The source cannot be asked for a barrier.
    """
    backfill = TableBackfill(table, ranges_of(table, {}), size_of_chunks(config), priority=table.priority)
    if stored is not None:
        backfill.paused = bool(stored.get("paused"))
        backfill.begun = bool(stored.get("begun"))
        backfill.dropped = str(stored.get("dropped") or "")
        backfill.verification = Verification.of_state(stored.get("verification"))
        backfill.reread = None if stored.get("reread") is None else Reread.model_validate(stored["reread"])
        given, configured = stored.get("priority") or (table.priority, table.priority)
        if configured == table.priority:  # Otherwise it was configured after the command, which is the newer wish.
            backfill.priority = given
    backfill.capture = state = opened_state(table, stored, now, asks=asks)
    otherwise = configured_otherwise(table, stored)
    if isinstance(state, LeftOut):
        state.passed |= bool(otherwise)
        if isinstance(state.returns, OnCommand) and not state.since:
            backfill.reread = joined(backfill.reread, [causes.MADE_AGAIN_OR_KEY], at, put_off=True)
    elif was_replaced(table, stored):
        logger.warning("%s was dropped and created again, or has another key: it is read again", table.name)
        backfill.from_scratch = True
        backfill.reread = joined(backfill.reread, [causes.MADE_AGAIN_OR_KEY], at)
    elif taken_out and table.scan.reads:
        logger.warning(
            "%s is captured again: it is emptied and read again, since rows may have been deleted", table.name
        )
        backfill.from_scratch = True
        backfill.reread = joined(None, [causes.PUT_BACK], at)
    elif stored is None or (stored.get("log_only") and table.scan.reads):
        if not backfill.done:
            backfill.barrier = barrier()
        # Rows without a key would be added to those that the log brought.
        backfill.from_scratch = stored is not None and not table.key
    else:
        backfill.restore(stored)
        if otherwise and table.scan.reads:
            logger.info("%s is configured in another way: all its rows are read again", table.name)
            backfill.from_scratch = not table.key
            backfill.ranges.restart(pages_of(table))
            backfill.reread = joined(backfill.reread, otherwise, at)
    return backfill


def ranges_of(table: OpenedTable, scan: JsonObject) -> TableRanges:
    """The scans of a table as its part of the state has them; of the whole table if that is empty.

    Raises:
        ProtocolError: ``TM-BKF-001`` the state is invalid.
    """
    if not table.scan.reads:
        scan = {**scan, "scanned": True, "ranges": []}  # Rows may have to be read again by key all the same.
    return TableRanges.from_state(str(table.binding), scan, pages=pages_of(table), keyless=table.counted)


def size_of_chunks(config: BackfillConfig) -> ChunkSize:
    """The size of a table's next chunks, before the first is read."""
    return ChunkSize(config.chunk_seconds, fixed=config.chunk_rows)


def pages_of(table: OpenedTable) -> Pages | None:
    """What a physical scan reads; None by key. Places are the reader's own: it knows their file and its end."""
    return Pages("pages", None) if table.scan.by_places else None
