"""The backfills of a capture: which table is read next, and what becomes of each chunk."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain

from backfill.chunk_size import ChunkSize
from backfill.hidden import HiddenSet
from backfill.scan import TableScan
from captures.interface import Barrier, Chunk, ChunkRequest, LogBatch, OpenedTable, Source
from captures.readers import ChunkFailure, ReaderPool, must_stop
from captures.state import CaptureState
from protocol.errors import TidemarkError
from protocol.messages import JsonObject

logger = logging.getLogger(__name__)

MAX_FAILURES = 8
"""Chunks of a table that may fail in a row before the capture stops with the error."""

RETRY_SECONDS = 0.5
"""Wait after a failed chunk, doubled with each failure in a row, at most ``MAX_RETRY_SECONDS``."""

MAX_RETRY_SECONDS = 30.0

HELD_SECONDS = 0.1
"""Wait before a chunk is tried again whose snapshot could not be used."""


@dataclass(slots=True)
class TableBackfill:
    """One table's backfill in this session. ``anew``: what earlier sessions emitted of the table no longer holds."""

    table: OpenedTable
    scan: TableScan
    size: ChunkSize
    barrier: Barrier | None
    anew: bool = False
    failures: int = 0
    not_before: float = 0.0
    last_served: int = 0
    request: ChunkRequest | None = None
    chunk: Chunk | None = None

    def to_state(self) -> JsonObject:
        state: JsonObject = {"identity": self.table.identity, "scan": self.scan.to_state()}
        if self.barrier is not None:
            state["barrier"] = self.barrier
        return state


class Backfills:
    """All tables of a capture that are, or will be, or were, backfilled.

    Args:
        clock: Seconds that only go forward.
    """

    def __init__(
        self,
        source: Source,
        state: CaptureState,
        hidden: HiddenSet,
        readers: ReaderPool,
        clock: Callable[[], float],
    ) -> None:
        self._source = source
        self._hidden = hidden
        self._readers = readers
        self._clock = clock
        self._served = 0
        self._names = _TableNames()
        self.tables = [_backfill(source, table, state) for table in source.tables]

    @property
    def unfinished(self) -> list[TableBackfill]:
        return [b for b in self.tables if not b.scan.done]

    @property
    def done(self) -> bool:
        return all(b.scan.done for b in self.tables)

    def tracked(self) -> frozenset[int]:
        """The bindings whose touched keys the log must record."""
        return frozenset(b.table.binding for b in self.tables if not b.scan.done)

    def observe(self, batch: LogBatch) -> None:
        """Takes note of what the log touched."""
        unfinished = self.unfinished
        for transaction in batch.transactions:
            for backfill in unfinished:
                binding = backfill.table.binding
                if binding not in transaction.tracked:
                    backfill.scan.truncate()  # Its keys were not recorded: treat every row as touched.
                elif (touched := transaction.touched.get(binding)) is not None:
                    backfill.scan.observe_all(touched)
            tracked = self._names[transaction.tracked]
            touched_tables = {str(binding): keys for binding, keys in transaction.touched.items()}
            self._hidden.add(transaction.txn, touched_tables, tracked)
            for binding, key in transaction.incomplete:
                self.tables[binding].scan.request_reread(key)
        for binding in batch.changed:
            backfill = self.tables[binding]
            if backfill.scan.in_flight:
                self._set_aside(backfill, HELD_SECONDS)

    def collect(self) -> None:
        """Takes chunks that readers brought, and gives each to its scan, or puts it off."""
        for result in self._readers.take():
            backfill = self.tables[result.request.binding]
            if isinstance(result, ChunkFailure):
                self._failed(backfill, result)
            elif result.request is not backfill.request:
                continue  # It was set aside while it was read; what has been started since has another window.
            elif not backfill.scan.fenced(result.fence):
                self._set_aside(backfill, HELD_SECONDS)
            else:
                self._hidden.purge(result.fence)
                backfill.failures = 0
                backfill.chunk = result
                backfill.scan.read(result.rows.keys, result.rereads.keys, result.end)

    def emit_ready(self, position: int, write: Callable[[bytes], None]) -> bool:
        """Writes the chunks whose turn has come, now that the log stands between transactions at ``position``.

        Returns:
            Whether there were any: the state is another then, even if no row was to be written.
        """
        ready = [
            (backfill, chunk, backfill.scan.emit())
            for backfill in self.tables
            if (chunk := backfill.chunk) is not None and backfill.scan.ready(position)
        ]
        for backfill, chunk, emission in ready:
            backfill.chunk = backfill.request = None
            if emission.progressed:
                backfill.size.measured(len(chunk.rows), chunk.seconds)
            else:
                # What the log touches all the time does not come through now: give it a moment.
                backfill.size.failed()
                backfill.not_before = self._clock() + HELD_SECONDS
        if ready:
            self.start(position)  # The server is not idle while these rows go down the pipe.
        for backfill, chunk, emission in ready:
            head = self._source.chunk_head(backfill.table.binding, position)
            again = [slice(index, index + 1) for index in emission.keep_rereads]
            for piece in chain(chunk.rereads.lines(head, again), chunk.rows.lines(head, emission.keep)):
                write(piece)
            if backfill.scan.done:
                logger.info("backfilled %s", backfill.table.name, extra={"rows": backfill.scan.rows})
        if ready and self.done:
            self._readers.close()
        return bool(ready)

    @property
    def waiting(self) -> bool:
        """Some chunk has been read and waits for the log to pass its fence."""
        return any(b.chunk is not None for b in self.tables)

    def pause(self, longest: float) -> float:
        """Seconds until a table that was put off may be tried again, ``longest`` at most."""
        now = self._clock()
        due = [b.not_before - now for b in self.unfinished if not b.scan.in_flight]
        return max(0.0, min([longest, *due])) if due and self._readers.free > 0 else longest

    def start(self, position: int) -> None:
        """Hands chunks to free readers, tables of the highest priority first, in turn among equals."""
        if self._readers.free <= 0:
            return
        now = self._clock()
        idle = [b for b in self.unfinished if not b.scan.in_flight and now >= b.not_before]
        idle.sort(key=lambda b: (-b.table.priority, b.last_served))
        for backfill in idle[: self._readers.free]:
            if not self._barrier_passed(backfill, now):
                continue
            plan = backfill.scan.start(position, self._hidden)
            self._served += 1
            backfill.last_served = self._served
            backfill.request = ChunkRequest(
                backfill.table.binding, plan.cursor, plan.scan, plan.rereads, backfill.size.rows
            )
            self._readers.submit(backfill.request)

    def _barrier_passed(self, backfill: TableBackfill, now: float) -> bool:
        if backfill.barrier is None:
            return True
        if self._source.passed(backfill.barrier):
            backfill.barrier = None
            return True
        # Such a transaction may have written to the table before its changes were captured: it must end first.
        logger.info(
            "%s waits for transactions that were running when it was added",
            backfill.table.name,
            extra={"barrier": backfill.barrier},
        )
        backfill.not_before = now + 1.0
        return False

    def _failed(self, backfill: TableBackfill, failure: ChunkFailure) -> None:
        backfill.failures += 1
        if must_stop(failure) or backfill.failures >= MAX_FAILURES:
            raise failure.error
        assert isinstance(failure.error, TidemarkError)
        wait = min(RETRY_SECONDS * 2 ** (backfill.failures - 1), MAX_RETRY_SECONDS)
        logger.warning("%s; trying again in %.1f s", failure.error.message, wait, extra={"code": failure.error.code})
        if failure.request is backfill.request:
            self._set_aside(backfill, wait)

    def _set_aside(self, backfill: TableBackfill, seconds: float) -> None:
        backfill.scan.abandon()
        backfill.chunk = backfill.request = None
        backfill.not_before = self._clock() + seconds


class _TableNames(dict[frozenset[int], frozenset[str]]):
    """Sets of bindings as the hidden set names them. There are few different ones, and one per transaction is asked."""

    def __missing__(self, bindings: frozenset[int]) -> frozenset[str]:
        names = self[bindings] = frozenset(map(str, bindings))
        return names


def _backfill(source: Source, table: OpenedTable, state: CaptureState) -> TableBackfill:
    name = str(table.binding)
    stored = state.binding(table.state_key)
    size = ChunkSize(source.options.chunk_seconds, fixed=source.options.chunk_rows)
    if stored is None:
        scan = _new_scan(table)
        return TableBackfill(table, scan, size, None if scan.done else source.barrier())
    if stored.get("identity") != table.identity:
        logger.warning("%s was dropped and made again, or has another key; it is read anew", table.name)
        return TableBackfill(table, _new_scan(table), size, source.barrier(), anew=True)
    return TableBackfill(table, TableScan.from_state(name, stored.get("scan") or {}), size, stored.get("barrier"))


def _new_scan(table: OpenedTable) -> TableScan:
    name = str(table.binding)
    return TableScan.from_state(name, {"scanned": True, "done": True}) if table.scan == "none" else TableScan(name)
