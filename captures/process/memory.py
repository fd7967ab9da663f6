"""When memory is freed, and how much of it the C library keeps."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import sys

LARGE_BYTES = 1024 * 1024
"""Blocks of this size, such as a row may be, are given back to the system as soon as they are free."""

KEPT_BYTES = 32 * 1024 * 1024
"""This much of smaller blocks, such as those of a chunk, may stay: they are soon needed again."""

_COLLECTION_OBJECTS = 20_000
"""Rows and transactions make no cycles, but are many: Python would look for cycles after every 700 objects."""

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h


def bound_freed_memory() -> None:
    """Limits how much freed memory this process keeps.

    By itself glibc raises its bounds to the largest block that was ever freed, and twice that (mallopt(3)): after a few
    rows of 16 MB a process would keep several times as much for good. Other C libraries have no such call.
    """
    if sys.platform == "linux":
        with contextlib.suppress(AttributeError):
            library = ctypes.CDLL(None)
            library.mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES)
            library.mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)


def collect_rarely() -> None:
    """Makes Python look for cycles less often: that took a twelfth of the time of small transactions."""
    gc.set_threshold(_COLLECTION_OBJECTS)
