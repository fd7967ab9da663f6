"""Limits the memory that the C library holds."""

from __future__ import annotations

import contextlib
import ctypes
import sys

LARGE_BYTES = 1024 * 1024
"""Bytes of a block, such as a large row, from which on it is returned to the system when it is freed."""

KEPT_BYTES = 32 * 1024 * 1024
"""Bytes of smaller freed blocks, such as those of a chunk, that may stay: they are soon needed again."""

FEW_BYTES = 8 * 1024 * 1024
"""The same, of a process that makes large rows of small pieces."""

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h


def bound_freed_memory(kept: int = KEPT_BYTES) -> None:
    """Limits how much freed memory this process keeps: so many bytes of small blocks.

    By default glibc raises its thresholds to the largest block ever freed, and twice that (mallopt(3)). After a few
    rows of 16 MB a process would hold several times as much permanently. Other C libraries have no such call.
    """
    if sys.platform == "linux":
        with contextlib.suppress(AttributeError):
            library = ctypes.CDLL(None)
            library.mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES)
            library.mallopt(_M_TRIM_THRESHOLD, kept)
