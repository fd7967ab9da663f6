"""Passes orders on to a connector that takes them, and forgets those that its committed state has."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from protocol.logs import CONTROL, LogLine
from protocol.messages import Control, JsonObject
from runtime.progress.display import Display
from runtime.steering.orders import Orders, handled

LOOK_SECONDS = 0.25
"""How often the folder is looked into."""

ANNOUNCE_SECONDS = 5.0
"""A connector that takes orders says so on stderr when it opens. After this long without that, it does not."""


class Steering:
    """One session's orders. ``heard`` is called from the thread that reads stderr, everything else from the session's.

    Args:
        root: The change log's folder.
        state: The state that the session begins with.
    """

    def __init__(self, root: Path, state: JsonObject, display: Display) -> None:
        self._orders = Orders(root)
        self._sent = handled(state)
        self._display = display
        self._takes_orders = threading.Event()
        self._opened_at = self._looked_at = time.monotonic()
        self._told = False
        self._orders.forget(self._sent)

    def heard(self, line: LogLine) -> None:
        """Takes note of the line by which a connector announces that it takes orders."""
        if line.event_type == CONTROL:
            self._takes_orders.set()

    def due(self) -> list[Control]:
        """The orders to send now: those that have come since the last time, if it is time to look again."""
        now = time.monotonic()
        if now - self._looked_at < LOOK_SECONDS:
            return []
        self._looked_at = now
        waiting = self._orders.waiting(self._sent)
        if waiting and not self._takes_orders.is_set():
            self._tell(len(waiting), now)
            return []
        if waiting:
            self._sent = waiting[-1].sequence
        return waiting

    def committed(self, state: JsonObject) -> None:
        """The connector's state is durable: what it has handled need not be kept."""
        self._orders.forget(handled(state))

    def _tell(self, count: int, now: float) -> None:
        if self._told or now - self._opened_at < ANNOUNCE_SECONDS:
            return
        self._told = True
        self._display.notice(
            "warning",
            f"{count} commands are waiting: this connector accepts none while it runs",
            code="TM-RUN-016",
        )
