"""The backfills of a capture: which table is read next, and what becomes of each chunk."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import cache, partial
from itertools import chain, islice

from tidemark.backfill.hidden import HiddenSet
from tidemark.backfill.range_scan import RangeScan
from tidemark.captures.contract.capabilities import Begun
from tidemark.captures.contract.chunk import Barrier, Chunk, ChunkRequest
from tidemark.captures.contract.log import Transaction
from tidemark.captures.contract.source import OpenedTable, Source
from tidemark.captures.contract.table_events import BadValuesCounted, ColumnsChanged, RowEvent, RowPartlyKnown, WentAway
from tidemark.captures.readers.reader_pool import ChunkFailure, ChunkPutOff, ReaderPool
from tidemark.captures.scheduling.backoff import HELD_SECONDS
from tidemark.captures.scheduling.chunk_failures import Failures, leave_alone
from tidemark.captures.scheduling.range_splitting import RangeSplitter
from tidemark.captures.scheduling.repairs import Repairs
from tidemark.captures.scheduling.reread_record import end
from tidemark.captures.scheduling.small_tables import SMALL_ROWS, read_together, reads_whole
from tidemark.captures.scheduling.state import CaptureState
from tidemark.captures.scheduling.table_backfill import Flight, TableBackfill, opened, pages_of
from tidemark.captures.scheduling.throttle import Throttle
from tidemark.captures.scheduling.verifications import Verifications
from tidemark.protocol.errors import TidemarkError

logger = logging.getLogger(__name__)

FLIGHTS = 2
"""Chunks for each reader, read or being read: while the log is far behind, no more are kept in memory."""

BARRIER_SECONDS = 1.0
"""How often it is asked whether the transactions are over that a table waits for."""


class Backfills:
    """All tables of a capture that are, or will be, or were, backfilled.

    Args:
        clock: Seconds that only go forward.

    Attributes:
        tables: By binding.
        latest: The tables as the source has them now; ``TableBackfill.table`` is as its backfill began.
        hidden: Transactions that were emitted and that snapshots may not see yet.
        hidden_until: A barrier behind which those of an earlier session are visible too: no chunk is started before.
        emptied: Bindings that must be emptied downstream before their backfill goes on.
        verifications: Of tables of which all rows are read once more, to be compared.
        repairs: Of rows that somebody names.
        unfinished: Tables of which rows are to be read, as ``look`` found them last.
    """

    def __init__(self, source: Source, state: CaptureState, readers: ReaderPool, clock: Callable[[], float]) -> None:
        self._source = source
        self._readers = readers
        self._clock = clock
        self._served = 0
        self._names = _TableNames()
        self._splitter = RangeSplitter(source)
        self._failures = Failures(source, clock)
        self.throttle = Throttle(source.options.backfill, source.replica_lag, clock)
        self.hidden = HiddenSet()
        self.hidden.restore(state.hidden)
        self.hidden_until = state.hidden_until
        barrier = cache(source.barrier)
        self.tables = [
            opened(
                table,
                state.binding(table.state_key),
                source.options.backfill,
                barrier,
                clock(),
                taken_out=state.was_taken_out(table.state_key),
                at=state.cursor or "",
                asks=source.options.asks,
            )
            for table in source.tables
        ]
        for backfill in self.tables:
            if not (backfill.from_scratch or backfill.left_out):
                self._await_snapshot(backfill)
        self.verifications = Verifications(self.tables, lambda: self.hidden)
        self.repairs = Repairs(source)
        self.latest = list(source.tables)
        self.emptied = {backfill.table.binding for backfill in self.tables if backfill.from_scratch}
        self.look()
        if not self.done:
            readers.ahead()

    def look(self) -> None:
        """Finds what is unfinished, before each step of the engine: there may be thousands of tables."""
        self.unfinished = [b for b in self.tables if b.to_read and not b.left_out]

    @property
    def done(self) -> bool:
        return not self.unfinished

    @property
    def finished(self) -> bool:
        """All is done that can be."""
        return all(b.failed or b.done for b in self.unfinished)

    @property
    def scanned(self) -> bool:
        """Whether it is finished but for rows that are to be read again by their keys."""
        return all(b.ranges.scanned or b.failed for b in self.unfinished)

    @property
    def failed(self) -> list[TableBackfill]:
        """Those that are left alone."""
        return [b for b in self.tables if b.failed is not None and not b.left_out]

    @property
    def set_aside(self) -> list[TableBackfill]:
        """Those of which nothing is captured."""
        return [b for b in self.tables if b.left_out]

    @property
    def waiting(self) -> bool:
        """Some chunk has been read and waits for the log to pass its fence."""
        return any(flight.chunk is not None for b in self.tables for flight in b.flights)

    def take_over(self, changed: Iterable[OpenedTable]) -> None:
        """Takes what ``Source.changed_tables`` hands over."""
        for table in changed:
            self.latest[table.binding] = table

    def found_unfit(self) -> list[WentAway]:
        """Tables that chunks found, since this was asked last, not to be as they can be captured."""
        found, self._failures.unfit = self._failures.unfit, {}
        return [WentAway(binding, error) for binding, error in found.items()]

    # The log.

    def tracked(self) -> frozenset[int]:
        """The bindings whose touched keys the log must record."""
        return frozenset(b.table.binding for b in self.unfinished)

    def observe(self, transactions: Iterable[Transaction]) -> None:
        """Takes note of what the log touched."""
        unfinished = {backfill.table.binding for backfill in self.unfinished}
        for transaction in transactions:
            if unfinished:
                for binding in unfinished - transaction.tracked:
                    self.tables[binding].ranges.truncate()  # Its keys were not recorded: treat every row as touched.
                for binding in unfinished & transaction.touched.keys() & transaction.tracked:
                    self.tables[binding].ranges.observe_all(transaction.touched[binding])
            tracked = self._names[transaction.tracked]
            touched_tables = {str(binding): keys for binding, keys in transaction.touched.items()}
            self.hidden.add(transaction.txn, touched_tables, tracked)
            for binding, key in transaction.incomplete:
                if not self.tables[binding].left_out:
                    self.tables[binding].ranges.request_reread(key)

    def take(self, event: RowEvent) -> None:
        """Takes note of what the log says of a table's rows."""
        table = self.tables[event.binding]
        match event:
            case BadValuesCounted():
                table.bad[event.policy] += event.count
            case RowPartlyKnown():
                table.partly_known(event.key, kept_apart=event.kept_apart)
            case ColumnsChanged():
                table.put_off_all(self._clock() + HELD_SECONDS)

    def forget_hidden(self) -> None:
        """The log is another one: what was hidden of the old one, a barrier of each table keeps from chunks."""
        self.hidden = HiddenSet()
        self.hidden_until = None
        for backfill in self.tables:
            backfill.put_off_all(0.0)  # Their fences are positions of the old log.

    # Chunks come back.

    def collect(self) -> None:
        """Takes chunks that readers brought, and gives each to its scan, or puts it off."""
        for result in self._readers.take():
            backfill = self.tables[result.request.binding]
            flight = backfill.flight(result.request)
            if isinstance(result, ChunkFailure):
                self._failures.take(backfill, flight, result)
                continue
            if isinstance(result, Chunk):
                self._failures.connected()
            if flight is None:
                continue  # It was put off while it was read; what has been started since has another window.
            if isinstance(result, ChunkPutOff):
                backfill.put_off(flight, 0.0)
            elif result.rewritten:
                logger.info("%s was rewritten, so its scan cannot continue: it starts again", backfill.table.name)
                self.read_over(backfill)
            elif not flight.scan.fenced(result.fence):
                backfill.put_off(flight, self._clock() + HELD_SECONDS)
            else:
                self.hidden.purge(result.fence)
                backfill.succeeded()
                flight.chunk = result
                flight.scan.read(result.rows.keys, result.rereads.keys, result.end, result.cursor)

    def emit_ready(self, position: int, write: Callable[[bytes], None]) -> bool:
        """Writes the chunks whose turn has come, now that the log stands between transactions at ``position``.

        Asks the source nothing: what a scan has given out must be written.

        Returns:
            Whether there were any: the state is another then, even if no row was to be written.
        """
        ready = [
            (backfill, flight.chunk, flight.scan.emit())
            for backfill in self.tables
            for flight in backfill.flights
            if flight.chunk is not None and flight.scan.ready(position)
        ]
        for backfill, chunk, emission in ready:
            backfill.flights = [flight for flight in backfill.flights if flight.chunk is not chunk]
            self.throttle.spend(len(chunk.rows) + len(chunk.rereads), chunk.rows.size + chunk.rereads.size)
            if chunk.request.plan.compared:
                self.verifications.brought(backfill, chunk, emission, self._clock())
                continue
            backfill.brought(chunk, progressed=emission.progressed, now=self._clock())
        if ready:
            self.start(position)  # The server is not idle while these rows go down the pipe.
        for backfill, chunk, emission in ready:
            head = self._source.chunk_head(backfill.table.binding, position)
            if chunk.request.plan.compared:
                self.verifications.write(backfill, chunk, emission, head, write)
                continue
            again = [slice(index, index + 1) for index in emission.keep_rereads]
            # First what is gone: a row with another spelling of a key may be found by it.
            gone = self.repairs.gone(backfill, emission, position)
            for piece in chain(gone, chunk.rereads.messages(head, again), chunk.rows.messages(head, emission.keep)):
                write(piece)
        for backfill, chunk, _ in ready:
            if backfill.reread is not None and backfill.done:
                end(backfill.reread)
            if chunk.request.plan.scan and not chunk.request.plan.compared and backfill.done:
                if backfill.table.counted:
                    self._source.end_snapshot(backfill.table.binding)
                logger.info("the backfill of %s is complete", backfill.table.name, extra={"rows": backfill.ranges.rows})
        return bool(ready)

    # Chunks are started.

    def pause(self, longest: float) -> float:
        """Seconds until a table that was put off may be tried again, ``longest`` at most."""
        now = self._clock()
        due = [b.not_before - now for b in self.unfinished if b.wanted and not b.flights]
        if not due or self._readers.free <= 0:
            return longest
        return min(longest, max(0.0, min(due), self._failures.connect_at - now, self.throttle.remaining()))

    def consult(self) -> None:
        """Asks the source what has to be known before chunks are started. Raises SourceError."""
        now = self._clock()
        if self._readers.free <= 0 or now < self._failures.connect_at:
            return
        due = [b for b in self.unfinished if b.wanted and now >= b.not_before]
        if not due:
            return
        self.throttle.ask()
        passed = cache(self._source.passed)
        if self.hidden_until is not None and not passed(self.hidden_until):
            for backfill in due:
                backfill.not_before = now + BARRIER_SECONDS
            return
        self.hidden_until = None
        for backfill in due:
            if (failure := backfill.ranges.failure) is not None:
                leave_alone(backfill, backfill.table.outrun(failure))
            elif backfill.barrier is not None and not passed(backfill.barrier):
                # Such a transaction may have written to the table before its changes were captured: it must end first.
                awaited = self._source.awaited(backfill.barrier) or "some whose process is not known"
                began = not backfill.waits_for
                backfill.waits_for = f"transactions that were running when the table was added: {awaited}"
                if began:  # From then on the status tells.
                    logger.info("the backfill of %s waits for %s", backfill.table.name, backfill.waits_for)
                backfill.not_before = now + BARRIER_SECONDS
            else:
                backfill.barrier, backfill.waits_for = None, ""
                self._begin_snapshot(backfill, now)
        if self.throttle.remaining() > 0:
            return
        ready = chain.from_iterable(b.startable(now) for b in due)
        spare = self._readers.free - len(list(islice(ready, self._readers.free)))  # There may be thousands.
        if spare > 0:
            due = [b for b in due if b.wanted and b.barrier is None and not b.unopened]
            self._splitter.cut(due, spare + 1, now)

    def start(self, position: int) -> None:
        """Hands chunks to free readers: tables of the highest priority first, among equals the least served."""
        now = self._clock()
        held = self.hidden_until is not None or self.throttle.remaining() > 0
        if self._readers.free <= 0 or now < self._failures.connect_at or held:
            return
        idle = {b.table.binding: scans for b in self.unfinished if (scans := b.startable(now))}
        room = FLIGHTS * self._source.options.backfill.readers - self._in_flight
        for _ in range(min(room, self._readers.free)):
            if not idle:
                break
            first = min((self.tables[binding] for binding in idle), key=lambda each: each.turn)
            if self._yields(first):
                break
            together = [first] if self.throttle.limits_rate else read_together(first, idle, self.tables)
            self._served += 1
            self._readers.submit(*(self._start(each, idle[each.table.binding].pop(0), position) for each in together))
            idle = {binding: scans for binding, scans in idle.items() if scans}

    @property
    def _in_flight(self) -> int:
        """Chunks, or chunks together, that readers have or that wait for the log."""
        return len({flight.number for backfill in self.tables for flight in backfill.flights})

    def _yields(self, backfill: TableBackfill) -> bool:
        """Whether it leaves the readers to tables of higher priority, also to those whose chunks wait for the log.

        Otherwise it would be read in between whenever the log is slower than a chunk.
        """
        busy = self._in_flight >= self._source.options.backfill.readers
        return busy and any(other.flights for other in self.tables if other.priority > backfill.priority)

    def _start(self, backfill: TableBackfill, scan: RangeScan, position: int) -> ChunkRequest:
        plan = scan.start(position, self.hidden, backfill.reread_size.rows)
        backfill.served = self._served
        rows = min(backfill.size.rows, SMALL_ROWS) if reads_whole(backfill, scan) else backfill.size.rows
        request = ChunkRequest(backfill.table.binding, plan, self.throttle.chunk_rows(rows, backfill.row_bytes))
        backfill.flights.append(Flight(scan, request, self._served))
        return request

    # Tables without a key.

    def come_back(self, bindings: Iterable[int]) -> None:
        """Tables are captured again that were left out; some of them where they stood."""
        for binding in bindings:
            if self.tables[binding].from_scratch:
                self.emptied.add(binding)
            else:
                self._await_snapshot(self.tables[binding])

    def _await_snapshot(self, backfill: TableBackfill) -> None:
        """The log has to know of a table without a key, before it is read on, what its scan gives."""
        if backfill.table.counted and not backfill.done:
            binding = backfill.table.binding
            self._source.await_snapshot(binding, backfill.base)
            backfill.kept_snapshot = partial(self._source.kept_snapshot, binding)
            backfill.unopened = True

    def _begin_snapshot(self, backfill: TableBackfill, now: float) -> None:
        """Opens the snapshot of a table without a key, or another one if that has ended."""
        if not backfill.table.counted:
            return
        binding = backfill.table.binding
        table = str(binding)
        hidden = [each.txn for each in self.hidden.entries() if table in each.touched or table not in each.tracked]
        try:
            begun = self._source.begin_snapshot(binding, hidden)
        except TidemarkError as error:
            self._failures.of_table(backfill, None, error)
            return
        backfill.unopened = begun is not Begun.OPEN
        if begun is Begun.LOST:
            logger.warning("the scan of %s cannot be resumed: it is emptied and read again", backfill.table.name)
            self.emptied.add(binding)
        if begun is not Begun.OPEN:
            backfill.not_before = now + HELD_SECONDS

    # Beginning again.

    def restart(self, bindings: Iterable[int], barrier: Barrier) -> None:
        """Begins backfills from nothing, with the tables as the source has them now."""
        for binding in bindings:
            self.tables[binding].begin(self.latest[binding], barrier, self._source.options.backfill)
            self._await_snapshot(self.tables[binding])

    def read_again(self, backfill: TableBackfill) -> None:
        """Reads a whole table again: what there is downstream is overwritten row by row."""
        backfill.put_off_all(0.0)
        backfill.ranges.restart(pages_of(backfill.table))

    def read_over(self, backfill: TableBackfill) -> None:
        """Has a table read again, a little later; without a key the table is emptied first."""
        backfill.put_off_all(self._clock() + HELD_SECONDS)
        if backfill.table.key:
            self.read_again(backfill)
        else:
            self.emptied.add(backfill.table.binding)


class _TableNames(dict[frozenset[int], frozenset[str]]):
    """Sets of bindings as the hidden set names them. There are few different ones, and one per transaction is asked."""

    def __missing__(self, bindings: frozenset[int]) -> frozenset[str]:
        self.clear()  # Of a capture of thousands of tables, the set becomes another one thousands of times.
        names = self[bindings] = frozenset(map(str, bindings))
        return names
