"""Whether the process that started this one lives: a capture ends with the command that runs many."""

from __future__ import annotations

import os
import signal
import threading

VARIABLE = "TIDEMARK_PARENT"
"""The number of an open file that ends when the parent does: a pipe whose other end only the parent has."""


def end_with_parent() -> None:
    """Has this process interrupted when its parent ends, however that ends. Nothing where nobody asked for it."""
    given = os.environ.pop(VARIABLE, "")
    if given:
        threading.Thread(target=_end_with, args=(int(given),), name="parent", daemon=True).start()


def _end_with(file: int) -> None:
    os.read(file, 1)
    os.kill(os.getpid(), signal.SIGTERM)
