"""Stderr for lines that may be lost: a capture waits neither for whoever reads them, nor for the disk they go to."""

from __future__ import annotations

import os
from contextlib import suppress
from select import PIPE_BUF, select
from typing import TextIO

PATIENCE_SECONDS = 1.0
"""How long a line waits for a reader that has kept up so far. The next ones do not wait."""


class LossyStderr:
    """Writes lines whole, unless nobody takes them: then they, or their ends, are dropped.

    Args:
        stream: Stderr; None in a process that was started without: its number may be that of any file then.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self._descriptor = None if stream is None else stream.fileno()
        self._is_cut = False
        self._keeps_up = True

    def write(self, line: str) -> None:
        """Writes a line with its end."""
        if self._descriptor is None:
            return
        rest = (b"\n" if self._is_cut else b"") + line.encode()
        whole = len(rest)
        with suppress(OSError):  # No reader is left, or no space.
            # A pipe that takes anything takes so much at once.
            while rest and self._takes(self._descriptor):
                rest = rest[os.write(self._descriptor, rest[:PIPE_BUF]) :]
        if len(rest) < whole:
            self._is_cut = bool(rest)

    def _takes(self, descriptor: int) -> bool:
        patience = PATIENCE_SECONDS if self._keeps_up else 0
        self._keeps_up = bool(select([], [descriptor], [], patience)[1])
        return self._keeps_up
