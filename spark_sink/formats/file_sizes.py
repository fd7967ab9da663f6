"""The target size of a table's files: few files to plan and to read, and small files where rows change.

A changed row rewrites its file. So a table with a key is loaded into files of bounded size, and changed files are
rewritten as smaller ones: a 64th of the table, from 256 KB to 16 MB (more for tables above 128 GB). Unchanged files
stay large. Files of a history table are never rewritten, and may be larger.
"""

from __future__ import annotations

from collections.abc import Iterable

from protocol.changelog import Segment

_SMALLEST = 16 * 1024 * 1024
_LARGEST = 64 * 1024 * 1024
_LARGEST_APPENDED = 128 * 1024 * 1024

_FILES = 1024
"""About how many files a loaded table has at most, until they reach the largest size."""

_CHANGING_FILES = 8192
"""The same for a table whose rows change everywhere."""

_CHANGING_SHARE = 64
"""One changed row of a table up to 1 GB rewrites such a part of it."""

_SMALLEST_CHANGING = 256 * 1024
"""To rewrite a file costs about 8 ms whatever its size, and 10 ms for this many bytes: smaller ones save nothing."""


def loaded_bytes(table: int, *, keyed: bool) -> int:
    """The target size of a file with backfilled or appended rows, in bytes.

    Args:
        table: The size of the whole table in bytes.
        keyed: Whether the table has one row per key. Otherwise it has all events.
    """
    return min(max(table // _FILES, _SMALLEST), _LARGEST if keyed else _LARGEST_APPENDED)


def changing_bytes(table: int) -> int:
    """The target size of a file that is rewritten because its rows changed, in bytes. Only for tables with a key."""
    few_enough = min(max(table // _CHANGING_FILES, _SMALLEST), _LARGEST)
    return min(max(table // _CHANGING_SHARE, _SMALLEST_CHANGING), few_enough)


def bytes_for(segments: Iterable[Segment], table: int, *, keyed: bool) -> int:
    """The target size of the files of a part. It depends on whether most events are changes.

    Args:
        segments: The segments with the part's events.
        table: The size of the whole table with these events, in bytes.
        keyed: Whether the table has one row per key.
    """
    rows = backfilled = 0
    for segment in segments:
        rows += segment.rows
        backfilled += segment.snapshot_rows
    if keyed and 2 * backfilled < rows:
        return changing_bytes(table)
    return loaded_bytes(table, keyed=keyed)
