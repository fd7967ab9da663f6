"""How large a table's files should be: few enough to plan and to read, and small where rows change.

A changed row rewrites the file it is in. So a table with a key is loaded into files of a bounded size; where its rows
change, rewritten files are smaller: a 64th of the table, from 256 KB to 16 MB (more for tables above 128 GB).
What stays as it was loaded stays in large ones. Files of a history table are never rewritten, and may be larger.
"""

from __future__ import annotations

from collections.abc import Iterable

from protocol.changelog import Segment

_SMALLEST = 16 * 1024 * 1024
_LARGEST = 64 * 1024 * 1024
_LARGEST_APPENDED = 128 * 1024 * 1024

_FILES = 1024
"""A table that is loaded has about so many at most, as long as none is too large."""

_CHANGING_FILES = 8192
"""And one whose rows change all over."""

_CHANGING_SHARE = 64
"""One changed row of a table up to 1 GB rewrites such a part of it."""

_SMALLEST_CHANGING = 256 * 1024
"""To rewrite a file costs about 8 ms whatever its size, and 10 ms for this many bytes: smaller ones save nothing."""


def loaded_bytes(table: int, *, keyed: bool) -> int:
    """Bytes of a file with rows that were backfilled, or appended.

    Args:
        table: Bytes of the whole table.
        keyed: It has one row a key. Otherwise it has all events.
    """
    return min(max(table // _FILES, _SMALLEST), _LARGEST if keyed else _LARGEST_APPENDED)


def changing_bytes(table: int) -> int:
    """Bytes of a file that is rewritten because rows in it changed; of a table with a key."""
    few_enough = min(max(table // _CHANGING_FILES, _SMALLEST), _LARGEST)
    return min(max(table // _CHANGING_SHARE, _SMALLEST_CHANGING), few_enough)


def bytes_for(segments: Iterable[Segment], table: int, *, keyed: bool) -> int:
    """Bytes of the files that a part's events come into: by whether most of them are changes.

    Args:
        segments: With the part's events.
        table: Bytes of the whole table, these events included.
        keyed: It has one row a key.
    """
    rows = backfilled = 0
    for segment in segments:
        rows += segment.rows
        backfilled += segment.snapshot_rows
    if keyed and 2 * backfilled < rows:
        return changing_bytes(table)
    return loaded_bytes(table, keyed=keyed)
