"""SIGINT and SIGTERM: both raise KeyboardInterrupt, so that whatever is open is closed on the way out."""

from __future__ import annotations

import os
import selectors
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Self

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """As a context manager takes over SIGINT and SIGTERM; only in the main thread.

    A signal raises KeyboardInterrupt wherever the program is. Inside ``deferred`` the first one is only noted:
    ``descriptor`` becomes readable, and ``check`` raises between two steps, so that none is left half done. A second
    signal raises at once all the same, for whoever does not want to wait.
    """

    def __init__(self) -> None:
        self.descriptor, self._write = os.pipe()
        self._noted = False
        self._deferred = False

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Inside, the first signal waits for ``check``."""
        self._deferred = True
        try:
            yield
        finally:
            self._deferred = False

    def check(self) -> None:
        """Raises KeyboardInterrupt when a signal came."""
        if self._noted:
            raise KeyboardInterrupt

    def sleep(self, seconds: float) -> None:
        """Sleeps, less when a signal comes: then raises KeyboardInterrupt."""
        self.check()
        with selectors.DefaultSelector() as selector:
            selector.register(self.descriptor, selectors.EVENT_READ)
            selector.select(seconds)
        self.check()

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._note) for number in SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        os.close(self.descriptor)
        os.close(self._write)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._noted or not self._deferred:
            raise KeyboardInterrupt
        self._noted = True
        os.write(self._write, b"\0")
