"""What monitors are told of the log: they ask again and again, and a look may cost requests of an object store."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

from tidemark.protocol.errors import ChangeLogError

T = TypeVar("T")

KNOWN_SECONDS = 30.0
"""How long a monitor is told what was found last."""


class AskedRarely(Generic[T]):
    """What was found last, for so long as that is not old. From any thread.

    Args:
        look: Finds it.
        nothing: What is told before anything was found.
        clock: Returns seconds.
    """

    def __init__(self, look: Callable[[], T], nothing: T, clock: Callable[[], float] = time.monotonic) -> None:
        self._look = look
        self._known = nothing
        self._clock = clock
        self._lock = Lock()
        self._looked_at: float | None = None

    def __call__(self) -> T:
        """Nothing new while the log cannot be read, which the capture itself tells."""
        with self._lock:
            now = self._clock()
            if self._looked_at is None or now - self._looked_at >= KNOWN_SECONDS:
                try:
                    self._known = self._look()
                except (ChangeLogError, OSError):
                    return self._known
                self._looked_at = now
            return self._known
