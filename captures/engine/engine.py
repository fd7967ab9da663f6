"""The capture engine: one loop that reads the log, emits chunks between transactions, and writes checkpoints.

The log never waits for a chunk: chunks are read beside it, and their rows wait until the log has passed their fence
(see docs/backfill.md). While the source is unreachable, the loop waits and keeps its state.
"""

from __future__ import annotations

import logging
import select
from collections.abc import Callable
from functools import partial
from typing import assert_never

from tidemark.captures.contract.errors import LostPosition, SessionEnded
from tidemark.captures.contract.log import LogBatch, LogStream
from tidemark.captures.contract.source import Source
from tidemark.captures.contract.table_events import (
    BadValuesCounted,
    ChangesPassed,
    ColumnsChanged,
    RowPartlyKnown,
    RowsAffected,
    SetAside,
    WentAway,
)
from tidemark.captures.contract.wakeup import Wakeup
from tidemark.captures.engine.announcements import Announcements
from tidemark.captures.engine.checkpoints import Checkpoints, advance_state
from tidemark.captures.engine.commands import Commands
from tidemark.captures.engine.output import Output
from tidemark.captures.engine.reconnection import Attempt, Outages, tell_lost
from tidemark.captures.engine.requests import SessionRequests
from tidemark.captures.engine.rereads import Rereads
from tidemark.captures.engine.set_aside import SetAsideTables, leave_out
from tidemark.captures.engine.source_life import FENCE_SECONDS, SourceLife
from tidemark.captures.engine.status import StatusReports
from tidemark.captures.readers.reader_pool import ReaderPool
from tidemark.captures.scheduling.backfills import Backfills
from tidemark.captures.scheduling.chunk_failures import what_is_missing
from tidemark.captures.scheduling.state import CaptureState
from tidemark.protocol.errors import ConnectorError, SourceError
from tidemark.protocol.messages import JsonObject

logger = logging.getLogger(__name__)

READ_BYTES = 1024 * 1024
"""Bytes of log decoded before the loop handles chunks, acknowledgements and output again."""

IDLE_SECONDS = 1.0
"""The longest time between two steps of the loop."""

ACKNOWLEDGE_SECONDS = 10.0
"""How long a finished capture waits for its last checkpoints to be acknowledged."""


class Capture:
    """One session of a capture, from ``opened`` to the end.

    Args:
        source: The opened database.
        state: Of the last session's last checkpoint; ``{}`` for a new capture.
        output: Stdout.
        requests: Stdin.
        wakeup: Set by ``requests`` and chunk readers to wake this loop.
        stop_when_caught_up: End once every backfill is done and the log is read to its end at that time.
        clock: Seconds that only go forward.
    """

    _log: LogStream

    def __init__(
        self,
        source: Source,
        state: CaptureState,
        output: Output,
        requests: SessionRequests,
        wakeup: Wakeup,
        *,
        stop_when_caught_up: bool,
        clock: Callable[[], float],
    ) -> None:
        self._source = source
        self._state = state
        self._requests = requests
        self._wakeup = wakeup
        self._stop_when_caught_up = stop_when_caught_up
        self._clock = clock
        self._checkpoints = Checkpoints(output, requests, source.options.heartbeat_seconds, clock)
        self._outages = Outages(clock)
        self._identity: JsonObject = {}
        self._identity_changed = False
        self._undecided = False
        self._position = 0
        self._durable: int | None = None
        self._stop_at: int | None = None

    def run(self) -> None:
        """Captures until the end of stdin or, with ``stop_when_caught_up``, until everything is captured.

        Raises:
            TidemarkError: Any other end. A retryable error ends the session only before the log is open.
        """
        lost = None
        try:
            leave_out(self._source, self._state)
            self._position = self._source.start_position(self._state.cursor, self._state.source, self._ended)
            self._identity = self._source.identity()
            self._log = self._source.open_log(self._position)
        except LostPosition as error:
            lost = error
            self._open_new_log(lost)
        except SessionEnded:
            self._requests.acknowledged()  # The last request on stdin may have been an error.
            return
        readers = ReaderPool(self._source.open_chunk_reader, self._source.options.backfill.readers, self._wakeup)
        try:
            self._backfills = Backfills(self._source, self._state, readers, self._clock)
            self._asides = SetAsideTables(self._source, self._backfills.tables, self._clock)
            self._announcements = Announcements(self._source, self._backfills, self._checkpoints)
            self._rereads = Rereads(self._source, self._backfills, self._asides, self._announcements)
            self._commands = Commands(self._source, self._backfills, self._rereads, self._state.control)
            self._life = SourceLife(self._source.options.heartbeat_seconds, self._clock)
            self._status = StatusReports(self._source, self._backfills, self._life, self._clock)
            if lost is not None:
                self._read_all_again(lost)
            self._announce()
            self._loop()
        finally:
            readers.close()
            self._log.close()

    def _loop(self) -> None:
        while True:
            self._backfills.look()
            try:
                if self._over():
                    break
                self._turn()
            except SourceError as error:
                if not self._reconnect(error):
                    return
        self._acknowledge()  # The last request on stdin may have been an error.
        missing = what_is_missing(self._backfills.set_aside, self._backfills.failed)
        if self._stop_when_caught_up and missing is not None:
            raise missing

    def _turn(self) -> None:
        """Reads some of the log, and handles chunks, commands, tables and checkpoints.

        A step records its input before it queries the source, because the query may fail.
        """
        log = self._log
        log.track(self._backfills.tracked())
        batch = log.read(READ_BYTES, self._patience(), self._wakeup.descriptor)
        self._wakeup.clear()
        self._observe(batch)
        self._acknowledge()
        if self._commands.take(self._requests.commands()):
            self._checkpoints.changed = True
        self._backfills.collect()
        if log.between_transactions:
            self._look_after_tables()
            self._read_tables_again()
            self._backfills.consult()
            if self._backfills.emit_ready(self._position, self._checkpoints.write_piece):
                self._checkpoints.changed = True
            self._announcements.ends()
            if self._checkpoints.due(self._position, drained=batch.drained):
                self._checkpoint()
            # Now it is known best what is visible.
            self._checkpoints.changed |= self._backfills.verifications.attend(self._checkpoints.write_piece)
            self._backfills.start(self._position)
        self._life.ask(log, waits=self._backfills.waiting or self._stop_at is not None)
        self._status.report(self._position, log, drained=batch.drained)

    def _observe(self, batch: LogBatch) -> None:
        if batch.lines:
            self._checkpoints.write(batch.lines, batch.size)
        if batch.lines or self._log.position != self._position:
            self._outages.progressed()
        self._position = self._log.position
        self._backfills.take_over(self._source.changed_tables())
        self._backfills.observe(batch.transactions)
        for event in batch.events:
            match event:
                case ColumnsChanged() | BadValuesCounted() | RowPartlyKnown():
                    self._backfills.take(event)
                case RowsAffected():
                    self._rereads.take(event)
                case WentAway() | SetAside() | ChangesPassed():
                    self._asides.take(event, self._position)
                case _:
                    assert_never(event)
        self._identity_changed |= batch.noted
        self._undecided = batch.undecided

    # Beginnings.

    def _announce(self) -> None:
        self._asides.begin(self._source.format_position(self._position))
        self._announcements.session(self._state)
        self._read_tables_again()
        self._checkpoint()

    def _look_after_tables(self) -> None:
        """Sets tables aside, and returns to those that can be captured again."""
        for event in self._backfills.found_unfit():
            self._asides.take(event, self._position)
        if self._backfills.set_aside or not self._asides.settled:
            back = self._asides.attend(self._position)
            self._backfills.take_over(self._source.changed_tables())
            self._announcements.schemas(back)
            self._identity_changed |= bool(back)
            self._backfills.come_back(back)
        if self._asides.changed():
            self._checkpoints.changed = True

    def _read_tables_again(self) -> None:
        """Begins to read tables again. The state gets the tables as they are now in the same checkpoint."""
        self._rereads.carry_out(self._position)
        self._identity_changed |= self._rereads.changed()
        if self._identity_changed:
            self._identity = self._source.identity()
            self._identity_changed = False
            self._checkpoints.changed = True

    def _open_new_log(self, lost: LostPosition) -> None:
        """Opens the log from a new start. Raises ``lost`` if the configuration does not allow that."""
        if self._source.options.on_lost_position != "backfill":
            raise lost
        position = self._source.start_over(self._ended)
        self._log = self._source.open_log(position)
        self._identity = self._source.identity()
        self._position = position

    def _read_all_again(self, lost: LostPosition) -> None:
        """After ``_open_new_log``: discards everything that was known from the old log, and all chunks."""
        self._backfills.take_over(self._source.changed_tables())
        # A table that is captured from its log only cannot be read again: its rows downstream stay.
        readable = [table for table in self._backfills.latest if table.scan.reads]
        tell_lost(lost, readable)
        self._durable = None
        self._stop_at = None
        self._checkpoints.forget_positions()
        self._backfills.forget_hidden()
        self._rereads.lost_position({table.binding for table in readable}, self._position)
        self._asides.passed(table.binding for table in self._backfills.latest)

    # The source is unreachable.

    def _reconnect(self, error: SourceError) -> bool:
        """Waits for the source and answers stdin meanwhile. Returns False at the end of the session."""
        # Otherwise a server that shuts down would wait for the reader of its log.
        self._log.close()
        lost: LostPosition | None = None
        while True:
            if isinstance(error, LostPosition) and lost is None:
                lost = error
            else:
                wait = self._outages.failed(error)
                self._status.away(self._outages.away_seconds)
                if not self._pass(wait):
                    return self._end_away(error)
            attempt = Attempt(partial(self._connect, lost))
            while not attempt.over:
                if not self._pass(IDLE_SECONDS, attempt.descriptor):
                    return self._end_away(error)
            try:
                identity = attempt.result()
                if lost is not None:
                    self._read_all_again(lost)
                elif self._durable is not None:
                    self._log.acknowledge(self._durable)
            except SourceError as again:
                if again is lost:
                    raise
                error = again
                continue
            if self._identity != identity:  # After a failover the state must have the new server first.
                self._identity = identity
                self._checkpoints.changed = True
            self._outages.connected()
            return True

    def _connect(self, lost: LostPosition | None) -> JsonObject:
        """Reconnects to the source and asks for its identity. Meanwhile the engine's own thread only answers stdin."""
        self._source.reconnect()
        if lost is None:
            self._log.reconnect()
        else:
            self._log.close()
            self._open_new_log(lost)
        return self._source.identity()

    def _pass(self, seconds: float, ended: int | None = None) -> bool:
        """Waits without the source until ``ended`` is readable. Returns False at the end of the session."""
        awaited = [self._wakeup.descriptor, *([] if ended is None else [ended])]
        until = self._clock() + seconds
        while (left := until - self._clock()) > 0:
            ready = select.select(awaited, [], [], min(left, IDLE_SECONDS))[0]
            self._status.still_away(self._outages.away_seconds)
            self._wakeup.clear()
            durable = self._checkpoints.durable()
            self._durable = self._durable if durable is None else durable
            if self._commands.take(self._requests.commands(), away=True):
                self._checkpoints.changed = True
            if self._ended():
                return False
            if ended in ready:
                break
        return True

    def _end_away(self, error: SourceError) -> bool:
        """Ends the session while the source is unreachable: cleanly only if all output is in a checkpoint."""
        self._checkpoints.durable()  # The last request on stdin may have been an error.
        if not self._checkpoints.changed:
            return False
        raise ConnectorError(
            "TM-CAP-006",
            f"stdin ended while the source was unreachable, with output that is not in a checkpoint yet: {error}",
        )

    # Checkpoints and acknowledgements.

    def _checkpoint(self) -> None:
        """Writes a checkpoint for all output so far. Only between transactions."""
        began, handled = self._clock(), self._commands.handled
        change = advance_state(self._state, self._source, self._backfills, self._position, self._identity, handled)
        self._checkpoints.end(change, self._position, self._clock() - began)

    def _acknowledge(self) -> None:
        durable = self._checkpoints.durable()
        if durable is not None:
            self._durable = durable
            self._log.acknowledge(durable)

    # Waiting and stopping.

    def _patience(self) -> float:
        """Seconds that the loop may wait for the log."""
        if not self._log.between_transactions:
            return IDLE_SECONDS  # Everything else waits for the end of the transaction.
        if self._checkpoints.changed:
            return self._checkpoints.remaining
        if self._backfills.waiting or self._stop_at is not None:
            return FENCE_SECONDS
        if not self._backfills.done:
            return self._backfills.pause(IDLE_SECONDS)
        return min(IDLE_SECONDS, self._source.options.heartbeat_seconds)

    def _over(self) -> bool:
        if not self._log.between_transactions or self._checkpoints.changed:
            return False
        return self._caught_up() if self._stop_when_caught_up else self._ended()

    def _ended(self) -> bool:
        """Whether acknowledgements have ended: the source could never discard what would follow."""
        return self._requests.closed and not self._stop_when_caught_up

    def _caught_up(self) -> bool:
        backfills = self._backfills
        waits = self._rereads.pending or self._commands.under_way or self._undecided
        if waits or not backfills.scanned or not self._asides.settled:
            self._stop_at = None
            return False
        # As long as somebody writes, the log may ask for more rows to be read again. That does not move the
        # place in the log at which this ends.
        if self._stop_at is None:
            self._stop_at = self._source.end_of_log()
        if self._position < self._stop_at or not backfills.finished:
            return False
        self._checkpoint()
        self._await_acknowledgements()
        if self._commands.take(self._requests.commands()):
            self._checkpoints.changed = True  # Commands that came before the acknowledgements.
            return False
        self._status.finish(self._position, self._log)
        return True

    def _await_acknowledgements(self) -> None:
        deadline = self._clock() + ACKNOWLEDGE_SECONDS
        while self._checkpoints.outstanding and not self._requests.closed:
            left = deadline - self._clock()
            if left <= 0:
                return
            select.select([self._wakeup.descriptor], [], [], left)
            self._wakeup.clear()
            self._acknowledge()
