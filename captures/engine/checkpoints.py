"""Checkpoints: when one is due, what it carries, and which of them the other side has made durable."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from captures.process.output import Output
from captures.process.requests import SessionRequests
from protocol.errors import ProtocolError
from protocol.messages import Checkpoint, ConnectorState

BYTES = 4 * 1024 * 1024
"""A checkpoint is written at the first end of a transaction after this much output."""

SECONDS = 0.02
"""Otherwise, when the log is read to its end, at most this often: a checkpoint costs a snapshot query and a flush."""

BUSY_SECONDS = 0.1
"""And at most this long after the last one while there is more log to read."""


PROGRESS_BYTES = 16 * 1024 * 1024
"""Log that an idle capture passes before a checkpoint says so, without waiting for the heartbeat: the source keeps what
no checkpoint has. In 10 s busy neighbours write more than an operator wants to keep."""


class Checkpoints:
    """Takes everything that is written, and divides it.

    Args:
        heartbeat: A checkpoint is due at least this often, in seconds.
        clock: Seconds that only go forward.

    Attributes:
        changed: There is something that the last checkpoint does not have.
    """

    def __init__(self, output: Output, requests: SessionRequests, heartbeat: float, clock: Callable[[], float]) -> None:
        self._output = output
        self._requests = requests
        self._heartbeat = heartbeat
        self._clock = clock
        self._written_at = clock()
        self._position: int | None = None
        self._bytes = 0
        self._outstanding: deque[int | None] = deque()
        self.changed = False

    def write(self, lines: list[bytes], size: int) -> None:
        """Writes captured lines, which the next checkpoint covers."""
        self._output.lines(lines, size)
        self._bytes += size
        self.changed = True

    def write_piece(self, lines: bytes) -> None:
        """Writes captured lines that are in one piece."""
        self.write([lines], len(lines))

    def due(self, position: int, *, drained: bool) -> bool:
        """Whether it is time for one, now that the log is read to ``position``."""
        since = self._clock() - self._written_at
        if not self.changed:
            progress = 0 if self._position is None else position - self._position
            return since >= self._heartbeat or (progress >= PROGRESS_BYTES and since >= BUSY_SECONDS)
        return since >= (SECONDS if drained else BUSY_SECONDS) or self._bytes >= BYTES

    @property
    def remaining(self) -> float:
        """Seconds until one is due, if nothing more comes."""
        return max(0.0, self._written_at + (SECONDS if self.changed else self._heartbeat) - self._clock())

    def end(self, change: ConnectorState | None, position: int) -> None:
        """Ends what was written with a checkpoint that carries ``change``, at ``position`` of the log."""
        self._written_at = self._clock()
        self._position = position
        self.changed = False
        if change is None and not self._bytes:
            return  # A chunk that brought nothing, say: there is nothing to commit.
        self._output.message(Checkpoint(state=change or ConnectorState(updated={}, merge_patch=True)))
        self._outstanding.append(position)
        self._bytes = 0

    @property
    def outstanding(self) -> bool:
        """Some are not acknowledged."""
        return bool(self._outstanding)

    def forget_positions(self) -> None:
        """The log is another one from here on: acknowledgements of earlier checkpoints say nothing about it."""
        self._outstanding = deque([None] * len(self._outstanding))

    def durable(self) -> int | None:
        """The position of the newest checkpoint that has become durable since the last call, None when none has.

        Raises:
            ProtocolError: ``TM-PRO-007`` more are acknowledged than there were, and what stdin brought otherwise.
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
