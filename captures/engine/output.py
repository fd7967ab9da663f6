"""Stdout: whole protocol lines, buffered, flushed at checkpoints and when the capture is idle."""

from __future__ import annotations

import os
from collections.abc import Iterable

BUFFER_BYTES = 256 * 1024
"""Bytes of a piece written to the pipe, approximately: larger pieces were no faster."""

_PIECES = 1024
"""The most buffers that writev(2) accepts: IOV_MAX, the same on all systems that have one."""


class Output:
    """Writes protocol lines to a descriptor. A broken pipe surfaces as BrokenPipeError.

    Lines are not joined first: while a log is read at full speed, that copy is a twentieth of the work.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._pending: list[bytes] = []
        self._size = 0

    def lines(self, lines: Iterable[bytes], size: int) -> None:
        """Queues encoded lines of ``size`` bytes in all."""
        self._pending.extend(lines)
        self._size += size
        if self._size >= BUFFER_BYTES:
            self.flush()

    def message(self, line: bytes) -> None:
        """Writes an encoded control message and flushes: the runtime acts on it."""
        self._pending.append(line)
        self.flush()

    def flush(self) -> None:
        """Writes everything queued to the pipe; waits while the runtime does not read."""
        pending, self._pending, self._size = self._pending, [], 0
        for first in range(0, len(pending), _PIECES):
            _write(self._descriptor, pending[first : first + _PIECES])


def _write(descriptor: int, pieces: list[bytes]) -> None:
    while pieces:
        written, whole = os.writev(descriptor, pieces), 0
        while whole < len(pieces) and written >= len(pieces[whole]):
            written -= len(pieces[whole])
            whole += 1
        pieces = pieces[whole:]
        if written:  # A signal came, or the file system is full.
            pieces[0] = pieces[0][written:]
