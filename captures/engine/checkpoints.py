"""Checkpoints: when one is due, what it carries, and which ones the runtime has made durable."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from tidemark.captures.contract.capabilities import RemembersLayouts
from tidemark.captures.contract.source import Source
from tidemark.captures.engine.output import Output
from tidemark.captures.engine.requests import SessionRequests
from tidemark.captures.scheduling.backfills import Backfills
from tidemark.captures.scheduling.state import CaptureState
from tidemark.protocol.codec import encode
from tidemark.protocol.errors import ProtocolError
from tidemark.protocol.messages import Checkpoint, ConnectorState, JsonObject

BYTES = 4 * 1024 * 1024
"""After this much output a checkpoint is written at the next end of a transaction."""

SECONDS = 0.02
"""The shortest time between checkpoints at the end of the log: each costs a snapshot query and a flush."""

BUSY_SECONDS = 0.1
"""The shortest time between checkpoints while there is more log to read."""

SHARE = 10
"""One part of so many of the time, at most, goes into checkpoints: with thousands of tables each takes a while."""

LONGEST_PAUSE = 1.0
"""The longest time between checkpoints because of ``SHARE``."""

PROGRESS_BYTES = 16 * 1024 * 1024
"""Bytes of log that an idle capture passes before it writes a checkpoint without waiting for the heartbeat.

The source retains the log after the last checkpoint. Other databases of a busy server write much of it in 10 s."""

HIDDEN_IDS = 100
"""The most hidden transactions that a checkpoint names. There are more only on a standby, while a transaction runs on
its primary: then all later transactions count as hidden, and a barrier stands for them."""


class Checkpoints:
    """Takes everything that is written, and ends it with checkpoints.

    Args:
        heartbeat: A checkpoint is due at least this often, in seconds.
        clock: Seconds that only go forward.

    Attributes:
        changed: Something is not in the last checkpoint.
    """

    def __init__(self, output: Output, requests: SessionRequests, heartbeat: float, clock: Callable[[], float]) -> None:
        self._output = output
        self._requests = requests
        self._heartbeat = heartbeat
        self._clock = clock
        self._written_at = clock()
        self._pause = 0.0
        self._position: int | None = None
        self._bytes = 0
        self._outstanding: deque[int | None] = deque()
        self.changed = False

    def write(self, lines: list[bytes], size: int) -> None:
        """Writes captured lines, ``size`` bytes in all, which the next checkpoint covers."""
        self._output.lines(lines, size)
        self._bytes += size
        self.changed = True

    def write_piece(self, lines: bytes) -> None:
        """Writes captured lines, as one byte string."""
        self.write([lines], len(lines))

    def due(self, position: int, *, drained: bool) -> bool:
        """Whether a checkpoint is due. The log is read to ``position``; ``drained`` means that this is its end."""
        since = self._clock() - self._written_at
        if not self.changed:
            progress = 0 if self._position is None else position - self._position
            return since >= self._heartbeat or (progress >= PROGRESS_BYTES and since >= BUSY_SECONDS)
        return since >= max(SECONDS if drained else BUSY_SECONDS, self._pause) or self._bytes >= BYTES

    @property
    def remaining(self) -> float:
        """Seconds until a checkpoint is due, if nothing more is written."""
        pause = max(SECONDS, self._pause) if self.changed else self._heartbeat
        return max(0.0, self._written_at + pause - self._clock())

    def end(self, change: ConnectorState | None, position: int, took: float) -> None:
        """Writes a checkpoint with a change of state, at ``position`` of the log.

        Args:
            took: Seconds that finding the change has taken.
        """
        self._written_at = self._clock()
        self._pause = min(SHARE * took, LONGEST_PAUSE)
        self._position = position
        self.changed = False
        if change is None and not self._bytes:
            return  # There is nothing to commit, for example after a chunk without rows.
        self._output.message(encode(Checkpoint(state=change or ConnectorState(updated={}, merge_patch=True))))
        self._outstanding.append(position)
        self._bytes = 0

    @property
    def outstanding(self) -> bool:
        """Whether some checkpoints are not acknowledged."""
        return bool(self._outstanding)

    def forget_positions(self) -> None:
        """The log was replaced: acknowledgements of earlier checkpoints are no positions in the new one."""
        self._outstanding = deque([None] * len(self._outstanding))

    def durable(self) -> int | None:
        """The position of the newest checkpoint that became durable since the last call; None if none did.

        Raises:
            ProtocolError: ``TM-PRO-007`` more checkpoints are acknowledged than were outstanding; others as
                ``SessionRequests.acknowledged``.
        """
        count = self._requests.acknowledged()
        if count > len(self._outstanding):
            raise ProtocolError(
                "TM-PRO-007", f"{count} checkpoints acknowledged, {len(self._outstanding)} were outstanding"
            )
        position = None
        for _ in range(count):
            position = self._outstanding.popleft()
        return position


def advance_state(
    state: CaptureState, source: Source, backfills: Backfills, position: int, identity: JsonObject, handled: int
) -> ConnectorState | None:
    """Applies to ``state`` what a checkpoint at ``position`` holds. Returns the change; None without one.

    Args:
        identity: Of the source.
        handled: The last command's sequence.

    Raises:
        SourceError: The source cannot be queried.
    """
    hidden = backfills.hidden
    if len(hidden):
        # Nearly always every transaction is visible, and the checkpoint names none.
        hidden.purge(source.visibility())
    ids, until = hidden.ids(), backfills.hidden_until
    if len(ids) > HIDDEN_IDS:
        ids, until = [], source.barrier()
    tables = {backfill.table.state_key: backfill.to_state() for backfill in backfills.tables}
    if isinstance(source, RemembersLayouts):
        for backfill in backfills.tables:
            if not backfill.left_out:
                tables[backfill.table.state_key]["layout"] = source.layout(backfill.table.binding, position)
    return state.advance(source.format_position(position), identity, ids, tables, handled, until)
