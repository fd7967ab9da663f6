"""Keeps reads and commits of a table cheap: few files, no dead files, a short log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby
from urllib.parse import unquote

from tidemark.spark_sink.formats.data_files import DataFile
from tidemark.spark_sink.formats.delta_log import DeltaLog
from tidemark.spark_sink.formats.delta_table import RETENTION, PositionedTable
from tidemark.spark_sink.source.runs import runs

_GROWTH = 4
"""A joined file is at least this many times as large as the largest file in it."""

COMMITS_KEPT = 200
"""The length of the table's log. Each file in its directory adds about 8 microseconds of CPU time to a commit."""


def small_files(files: Sequence[DataFile], target_bytes: int) -> list[list[DataFile]]:
    """The runs of neighbouring files to join into one file each.

    Joining moves each row into a file at least four times as large as the one before. So a row is rewritten at most
    log4(n) times over n commits, and few files of each order of size remain. Files of more than a quarter of the target
    are large enough.

    Args:
        files: The table's files in key order; in any order if the table has no key.
        target_bytes: The target size. No joined file exceeds it by much.
    """
    return list(_worth_joining(files, target_bytes / _GROWTH, target_bytes))


def _worth_joining(files: Sequence[DataFile], largest: float, target: int) -> Iterator[list[DataFile]]:
    for is_small, neighbours in groupby(files, lambda file: file.size <= largest):
        for run in runs(neighbours, target) if is_small else ():
            biggest = max(file.size for file in run)
            if sum(file.size for file in run) >= _GROWTH * biggest:
                yield run
            elif len(run) > _GROWTH:
                # The largest files prevent that the others are joined.
                yield from _worth_joining(run, min(largest / _GROWTH, biggest - 1), target)


def vacuum(table: PositionedTable, min_age: timedelta, *, now: datetime | None = None) -> list[str]:
    """Deletes files that no reader needs: removed files, and files of tasks that were never committed.

    Removed files are kept for a day, the latest first, while all that are kept take no more space than the table.
    ``PositionedTable.versions`` leaves out versions that lack a file.

    Args:
        table: The table. This process must be its only writer.
        min_age: Files that were removed or written more recently are kept, for running queries and for commits to
            come. At most a day.
        now: The present time.

    Returns:
        Names of the deleted files.

    Raises:
        SparkError: ``TM-SPK-015``
    """
    now = now or datetime.now(UTC)
    table.refresh()
    live = {unquote(file.path) for file in table.files()}
    removed = {unquote(path): when for path, when in DeltaLog(table.place).removals(table.version).items()}
    spare = table.size
    deleted = []
    try:
        store = table.place.store
        dead = [
            entry
            for entry in store.list("")
            # Not those of folders: of Delta's log, and of whatever others keep there.
            if entry.path.endswith(".parquet") and "/" not in entry.path and not entry.path.startswith(("_", "."))
            if entry.path not in live
        ]
        never = datetime.min.replace(tzinfo=UTC)
        for entry in sorted(dead, key=lambda entry: removed.get(entry.path, never), reverse=True):
            left = removed.get(entry.path, never)
            if max(left, datetime.fromtimestamp(entry.modified, UTC)) > now - min_age:
                spare -= entry.size
                continue
            if left > now - RETENTION and entry.size <= spare:
                spare -= entry.size
                continue
            store.delete(entry.path)
            deleted.append(entry.path)
    except OSError as error:
        raise table.place.failed(error) from error
    return deleted


def clean(table: PositionedTable, commits_kept: int = COMMITS_KEPT) -> None:
    """Shortens the table's log to about its last commits, once it has twice as many.

    Older versions can no longer be read. The log grows with every commit, and so does the cost of a commit. delta-rs
    cleans the log only by age.

    Args:
        table: The table. This process must be its only writer.
        commits_kept: How many commits stay.

    Raises:
        SparkError: ``TM-SPK-015``
    """
    log = DeltaLog(table.place)
    if table.version - log.first_commit() < 2 * commits_kept:
        return
    newest_to_forget = table.version - commits_kept
    checkpoints = log.checkpoints()
    if old := [version for version in checkpoints if version <= newest_to_forget]:
        log.forget_before(old[-1])
    if len(old) == len(checkpoints):
        table.checkpoint()
