"""The target size of a table's files: few files to plan and to read, and small files where rows change.

A changed row rewrites its file. So a table with a key is loaded into files of bounded size, and changed files are
rewritten as smaller ones: a 64th of the table, from 256 KB to 16 MB (more for tables above 128 GB). Unchanged files
stay large. Files of a history table are never rewritten, and may be larger.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidemark.protocol.changelog import Segment

_CHANGING_FILES = 8192
"""About how many files a table has at most whose rows change everywhere, until they reach the largest size."""

_CHANGING_SHARE = 64
"""One changed row of a table up to 1 GB rewrites such a part of it."""

_SMALLEST_CHANGING = 256 * 1024
"""To rewrite a file costs about 8 ms whatever its size, and 10 ms for this many bytes: smaller ones save nothing."""


_FILES_A_FOLD = 4
"""So many tasks at least have a file each to write, where rows are only added. A fold's own cost is small beside it."""


@dataclass(frozen=True, slots=True)
class FileSizes:
    """Decides the target size of files, in bytes.

    Attributes:
        smallest: Of a loaded file, and the largest that a changing file is for a table of few files.
        largest: Of a file of a table with a key.
        largest_appended: Of a file of a table of all events.
        files: About how many files a loaded table has at most, until they reach the largest size.
    """

    smallest: int = 16 * 1024 * 1024
    largest: int = 64 * 1024 * 1024
    largest_appended: int = 128 * 1024 * 1024
    files: int = 1024

    def loaded(self, table: int, *, keyed: bool) -> int:
        """The target size of a file with backfilled or appended rows.

        Args:
            table: The size of the whole table in bytes.
            keyed: Whether the table has one row per key. Otherwise it has all events.
        """
        return min(max(table // self.files, self.smallest), self.largest if keyed else self.largest_appended)

    def is_filled(self, lacks: int, table: int, *, keyed: bool) -> bool:
        """Whether so many bytes of the log make some files of a loaded table. Arguments as of ``loaded``."""
        return lacks >= _FILES_A_FOLD * self.loaded(table + lacks, keyed=keyed)

    def changing(self, table: int) -> int:
        """The target size of a file that is rewritten because its rows changed. Only for tables with a key."""
        few_enough = min(max(table // _CHANGING_FILES, self.smallest), self.largest)
        return min(max(table // _CHANGING_SHARE, _SMALLEST_CHANGING), few_enough)

    def of_part(self, segments: Iterable[Segment], table: int, *, keyed: bool) -> int:
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
            return self.changing(table)
        return self.loaded(table, keyed=keyed)
