"""SIGINT and SIGTERM raise KeyboardInterrupt, so that everything that is open is closed."""

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
    """A context manager that handles SIGINT and SIGTERM; only in the main thread.

    A signal raises KeyboardInterrupt at once. Inside ``deferred`` the first signal only makes ``descriptor`` readable,
    and ``check`` raises between two steps, so that each step is finished. A second signal always raises at once, for a
    user who does not want to wait.
    """

    def __init__(self) -> None:
        self.descriptor, self._write = os.pipe()
        self._noted = False
        self._deferred = False

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Inside this context the first signal waits for ``check``."""
        self._deferred = True
        try:
            yield
        finally:
            self._deferred = False

    def check(self) -> None:
        """Raises KeyboardInterrupt if a signal came."""
        if self._noted:
            raise KeyboardInterrupt

    def sleep(self, seconds: float) -> None:
        """Sleeps for so many seconds. A signal ends the sleep and raises KeyboardInterrupt."""
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
