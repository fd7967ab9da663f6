"""Wakes a thread that waits in ``select``, from any other thread."""

from __future__ import annotations

import os


class Wakeup:
    """A self-pipe: threads ``set`` it, the engine's select sees ``descriptor`` readable and ``clear``s it."""

    def __init__(self) -> None:
        self.descriptor, self._write = os.pipe()
        os.set_blocking(self.descriptor, False)
        os.set_blocking(self._write, False)

    def set(self) -> None:
        """Makes ``descriptor`` readable. From any thread."""
        try:
            os.write(self._write, b"\0")
        except BlockingIOError:
            return  # The pipe is already full.

    def clear(self) -> None:
        """Makes ``descriptor`` unreadable again."""
        try:
            while os.read(self.descriptor, 4096):
                pass
        except BlockingIOError:
            return

    def close(self) -> None:
        os.close(self.descriptor)
        os.close(self._write)
