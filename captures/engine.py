"""The capture engine: one loop that reads the log, lets chunks through between transactions, and writes checkpoints.

The log is never left unread for a chunk: chunks are read by threads of their own, and what they bring waits until the
log has passed their fence (see docs/backfill.md).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from backfill.hidden import HiddenSet
from captures.backfills import Backfills
from captures.interface import LogStream, Source
from captures.output import Output
from captures.readers import ReaderPool
from captures.requests import Acknowledgements, Wakeup
from captures.state import CaptureState
from captures.status import StatusReports
from protocol.codec import encode
from protocol.errors import ProtocolError
from protocol.messages import Checkpoint, ConnectorState, SourcedSchema

READ_BYTES = 1024 * 1024
"""Log that is decoded before the loop looks at chunks, acknowledgements and its output again."""

CHECKPOINT_BYTES = 4 * 1024 * 1024
"""A checkpoint is written at the first end of a transaction after this much output."""

CHECKPOINT_SECONDS = 0.02
"""Otherwise, when the log is read to its end, at most this often: a checkpoint costs a snapshot query and a flush."""

BUSY_CHECKPOINT_SECONDS = 0.1
"""And at most this long after the last one while there is more log to read."""

IDLE_SECONDS = 1.0
"""The loop looks around at least this often."""

FENCE_SECONDS = 0.05
"""While a chunk waits for the log, the server is asked this often how far it is."""

ACKNOWLEDGE_SECONDS = 10.0
"""How long a finished capture waits for its last checkpoints to be acknowledged."""


class Capture:
    """One session of a capture, from ``opened`` to the end.

    Args:
        source: The opened database.
        state: What the last session left, ``{}`` when there was none.
        output: Stdout.
        acknowledgements: Stdin.
        stop_when_caught_up: End once every backfill is done and the log is read to where the server is then.
        clock: Seconds that only go forward.
    """

    def __init__(
        self,
        source: Source,
        state: CaptureState,
        output: Output,
        acknowledgements: Acknowledgements,
        wakeup: Wakeup,
        *,
        stop_when_caught_up: bool,
        clock: Callable[[], float],
    ) -> None:
        self._source = source
        self._state = state
        self._output = output
        self._acknowledgements = acknowledgements
        self._wakeup = wakeup
        self._stop_when_caught_up = stop_when_caught_up
        self._clock = clock
        self._identity = source.identity()
        self._position = source.start_position(state.cursor, state.source)
        self._hidden = HiddenSet()
        self._hidden.restore(state.hidden)
        self._readers = ReaderPool(source.open_chunk_reader, source.options.readers, wakeup)
        self._backfills = Backfills(source, state, self._hidden, self._readers, clock)
        self._status = StatusReports(source, self._backfills, clock)
        self._unacknowledged: deque[int] = deque()
        self._output_bytes = 0
        self._checkpoint_at = clock()
        self._stop_at: int | None = None
        self._finished_at: float | None = None
        self._progress_asked = 0.0

    def run(self) -> None:
        """Captures until told to stop: by ``stop_when_caught_up``, or by the end of stdin.

        Raises:
            TidemarkError: What ends the session otherwise.
        """
        log = self._source.open_log(self._position)
        try:
            self._announce()
            self._loop(log)
        finally:
            self._readers.close()
            log.close()

    def _loop(self, log: LogStream) -> None:
        while not self._over(log):
            log.track(self._backfills.tracked())
            batch = log.read(READ_BYTES, self._patience(), self._wakeup.descriptor)
            self._wakeup.clear()
            if batch.lines:
                self._write(batch.lines, batch.size)
                self._changed = True
            self._position = log.position
            self._backfills.observe(batch)
            self._acknowledge(log)
            self._backfills.collect()
            if log.between_transactions:
                emitted = self._backfills.emit_ready(self._position, lambda lines: self._write([lines], len(lines)))
                self._changed = self._changed or emitted
                self._checkpoint_if_due(drained=batch.drained)
                self._backfills.start(self._position)
            self._nudge(log)
            self._status.report(self._position, log, drained=batch.drained)
        self._acknowledge(log)  # What came last on stdin may have been an error.

    def _write(self, lines: list[bytes], size: int) -> None:
        self._output.lines(lines, size)
        self._output_bytes += size

    def _announce(self) -> None:
        for table in self._source.tables:
            line = encode(SourcedSchema(binding=table.binding, document_schema=table.document_schema))
            self._write([line], len(line))
        for backfill in self._backfills.tables:
            if backfill.anew:
                line = self._source.truncation(backfill.table.binding, self._position)
                self._write([line], len(line))
        self._checkpoint()

    # Checkpoints and acknowledgements.

    def _checkpoint_if_due(self, *, drained: bool) -> None:
        since = self._clock() - self._checkpoint_at
        if self._changed:
            pause = CHECKPOINT_SECONDS if drained else BUSY_CHECKPOINT_SECONDS
            if since >= pause or self._output_bytes >= CHECKPOINT_BYTES:
                self._checkpoint()
        elif since >= self._source.heartbeat_seconds:
            self._checkpoint()

    def _checkpoint(self) -> None:
        """Everything written so far, and the state after it. Only between transactions."""
        if len(self._hidden):
            # Nearly always this finds every transaction visible, and the checkpoint names none.
            self._hidden.purge(self._source.visibility())
        change = self._state.advance(
            self._source.format_position(self._position),
            self._identity,
            self._hidden.ids(),
            {backfill.table.state_key: backfill.to_state() for backfill in self._backfills.tables},
        )
        self._checkpoint_at = self._clock()
        self._changed = False
        if change is None and not self._output_bytes:
            return  # A chunk that brought nothing, say: there is nothing to commit.
        self._output.message(Checkpoint(state=change or ConnectorState(updated={}, merge_patch=True)))
        self._unacknowledged.append(self._position)
        self._output_bytes = 0

    def _acknowledge(self, log: LogStream) -> None:
        count = self._acknowledgements.take()
        if count > len(self._unacknowledged):
            raise ProtocolError(
                "TM-PRO-007", f"{count} checkpoints acknowledged, {len(self._unacknowledged)} were outstanding"
            )
        position = None
        for _ in range(count):
            position = self._unacknowledged.popleft()
        if position is not None:
            log.acknowledge(position)

    # Waiting and stopping.

    def _patience(self) -> float:
        """How long the log may stay silent before the loop has something else to do."""
        if self._changed:
            return max(0.0, self._checkpoint_at + CHECKPOINT_SECONDS - self._clock())
        if self._backfills.waiting or self._stop_at is not None:
            return FENCE_SECONDS
        if not self._backfills.done:
            return self._backfills.pause(IDLE_SECONDS)
        return min(IDLE_SECONDS, self._source.heartbeat_seconds)

    def _nudge(self, log: LogStream) -> None:
        """Asks the server where it is, while something waits for the log to reach a position."""
        if not self._backfills.waiting and self._stop_at is None:
            return
        now = self._clock()
        if now - self._progress_asked >= FENCE_SECONDS:
            self._progress_asked = now
            log.request_progress()

    def _over(self, log: LogStream) -> bool:
        if not log.between_transactions or self._changed:
            return False
        if self._stop_when_caught_up:
            return self._caught_up(log)
        # Nobody acknowledges any more, so nothing of what would follow could ever be let go of at the source.
        return self._acknowledgements.closed

    def _caught_up(self, log: LogStream) -> bool:
        if not self._backfills.done:
            self._stop_at = None
            return False
        if self._stop_at is None:
            self._stop_at = self._source.end_of_log()
        if self._position < self._stop_at:
            return False
        if self._finished_at is None:
            self._finished_at = self._clock()
            self._checkpoint()
            self._status.finish(self._position, log)
        waited = self._clock() - self._finished_at
        return self._acknowledgements.closed or not self._unacknowledged or waited >= ACKNOWLEDGE_SECONDS
