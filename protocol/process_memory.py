"""A process and its memory: how often Python searches for cycles, and what the C library keeps of what was freed.

Cycles are objects that refer to each other, and to which nothing else does.
"""

from __future__ import annotations

import contextlib
import gc
import sys

_OBJECTS = 20_000
"""New objects between two searches. Rows, transactions and tables have no cycles; Python's default is 700."""

LARGE_BYTES = 1024 * 1024
"""Bytes of a block, such as a large row, from which on it is returned to the system when it is freed."""

KEPT_BYTES = 32 * 1024 * 1024
"""Bytes of smaller freed blocks, such as those of a chunk, that may stay: they are soon needed again."""

FEW_BYTES = 8 * 1024 * 1024
"""The same, of a process that makes large rows of small pieces."""

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h


def collect_never() -> None:
    """Makes Python search no more, until ``collect_rarely``.

    What is imported stays. Searches in between took a tenth of the time of a short process, and more with the default.
    """
    gc.disable()


def collect_rarely() -> None:
    """Makes Python search less often than by default, and not in what there is by now.

    Searches took a twelfth of a connector's time with small transactions, and a quarter of the runtime's with thousands
    of tables.
    """
    gc.freeze()
    gc.set_threshold(_OBJECTS)
    gc.enable()


def bound_freed_memory(kept: int = KEPT_BYTES) -> None:
    """Limits how much freed memory this process keeps: so many bytes of small blocks.

    By default glibc raises its thresholds to the largest block ever freed, and twice that (mallopt(3)). After a few
    rows of 16 MB a process would hold several times as much permanently. Other C libraries have no such call.
    """
    if sys.platform == "linux":
        import ctypes  # Not for processes that answer one request.

        with contextlib.suppress(AttributeError):
            library = ctypes.CDLL(None)
            library.mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES)
            library.mallopt(_M_TRIM_THRESHOLD, kept)
