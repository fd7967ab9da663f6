"""Detects a connector that hangs: one that has sent status lines, and then sends nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from tidemark.protocol.errors import ConnectorError
from tidemark.protocol.log_lines import LogLine
from tidemark.protocol.logs import STATUS

STEP_SECONDS = 2.0
"""At most this much of the time between two looks counts: more passes only while the connector was not read."""


class Watchdog:
    """Over all sessions of one connector. ``heard`` is called from the thread that reads stderr.

    A connector that never wrote a status line is never considered hanging: it may have nothing to send.

    Args:
        name: What messages call the connector.
        seconds: How long it may send nothing once it is opened; 0 for no limit.
        answer_seconds: How long it may send nothing before that, while it queries the source.
    """

    def __init__(
        self, name: str, seconds: float, answer_seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._name = name
        self._seconds = seconds
        self._answer_seconds = answer_seconds
        self._clock = clock
        self._beats = False
        self._said_something = threading.Event()
        self._limit = answer_seconds
        self._silent = 0.0
        self._looked_at = clock()

    def opening(self) -> None:
        """A session begins."""
        self._limit = self._answer_seconds
        self._silent = 0.0
        self._looked_at = self._clock()

    def opened(self) -> None:
        """The connector has sent ``opened``."""
        self._limit = self._seconds

    def heard(self, line: LogLine) -> None:
        """It wrote a log line."""
        if line.event_type == STATUS:
            self._beats = True
        self._said_something.set()

    def said(self) -> None:
        """It wrote to stdout."""
        self._said_something.set()

    def look(self) -> None:
        """Call it from time to time, only right after checking whether stdout has output.

        Raises:
            ConnectorError: ``TM-RUN-019`` it hangs.
        """
        now = self._clock()
        passed, self._looked_at = min(now - self._looked_at, STEP_SECONDS), now
        if self._said_something.is_set():
            self._said_something.clear()
            self._silent = 0.0
            return
        self._silent += passed
        if self._seconds and self._beats and self._silent >= self._limit:
            raise ConnectorError("TM-RUN-019", f"{self._name} has sent nothing for {self._silent:.0f} s")
