"""Stderr for lines that may be lost: a capture waits neither for whoever reads them, nor for the disk they go to."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import UTC, datetime
from select import PIPE_BUF, select
from typing import TextIO

import orjson

PATIENCE_SECONDS = 1.0
"""How long a line waits for a reader that has kept up so far. The next ones do not wait."""


class LossyStderr:
    """Writes lines of JSON whole, unless nobody takes them: then they, or their ends, are dropped.

    The next one that is taken has a line before it that says how many are missing.

    Args:
        stream: Stderr; None in a process that was started without: its number may be that of any file then.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self._descriptor = None if stream is None else stream.fileno()
        self._is_cut = False
        self._missing = 0
        self._keeps_up = True

    def write(self, line: str) -> None:
        """Writes a line with its end."""
        if self._descriptor is None:
            return
        rest = (b"\n" if self._is_cut else b"") + self._what_is_missing() + line.encode()
        whole = len(rest)
        with suppress(OSError):  # No reader is left, or no space.
            # A pipe that takes anything takes so much at once.
            while rest and self._takes(self._descriptor):
                rest = rest[os.write(self._descriptor, rest[:PIPE_BUF]) :]
        if len(rest) < whole:
            self._is_cut = bool(rest)
        self._missing = self._missing + 1 if rest else 0

    def _what_is_missing(self) -> bytes:
        if not self._missing:
            return b""
        message = f"{self._missing} lines before this one were dropped, or their ends: nobody took them"
        line = {"ts": datetime.now(UTC).isoformat(), "level": "warning", "message": message}
        return orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)

    def _takes(self, descriptor: int) -> bool:
        patience = PATIENCE_SECONDS if self._keeps_up else 0
        self._keeps_up = bool(select([], [descriptor], [], patience)[1])
        return self._keeps_up
