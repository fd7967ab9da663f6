"""Stdout: whole protocol lines, buffered, flushed at checkpoints and when the capture is idle."""

from __future__ import annotations

from collections.abc import Iterable
from typing import BinaryIO

from protocol.codec import encode
from protocol.messages import Message

BUFFER_BYTES = 256 * 1024
"""Lines are handed to the pipe in pieces of about this size: larger ones were no faster."""


class Output:
    """Writes protocol lines to a binary stream. A broken pipe surfaces as BrokenPipeError."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._pending: list[bytes] = []
        self._size = 0

    def lines(self, lines: Iterable[bytes], size: int) -> None:
        """Queues encoded lines of ``size`` bytes in all."""
        self._pending.extend(lines)
        self._size += size
        if self._size >= BUFFER_BYTES:
            self._drain()

    def message(self, message: Message) -> None:
        """Writes a control message and flushes: the other side acts on it."""
        self._pending.append(encode(message))
        self.flush()

    def flush(self) -> None:
        """Hands everything queued to the pipe; waits while the other side does not read."""
        self._drain()
        self._stream.flush()

    def _drain(self) -> None:
        if self._pending:
            self._stream.write(b"".join(self._pending))
            self._pending.clear()
            self._size = 0
