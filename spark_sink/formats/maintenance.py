"""Keeps a table as cheap to read and to commit to as it was at its start: few files, no dead ones, a short log."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from urllib.parse import unquote

from protocol.errors import SparkError
from spark_sink.formats.data_files import DataFile
from spark_sink.formats.delta_log import DeltaLog
from spark_sink.formats.delta_table import RETENTION, PositionedTable

_GROWTH = 4
"""A compaction makes a file this much larger than the largest that it joins."""

_COMMITS_KEPT = 200
"""A commit costs about 8 microseconds more of CPU for every file in the log's directory."""


def small_files(files: Sequence[DataFile], target_bytes: int) -> list[list[DataFile]]:
    """The runs of neighbouring files that are worth being joined into one file each.

    Every row that is rewritten comes into a file at least four times as large as its last one. So it is rewritten at
    most log4(n) times over n commits, and of each order of size few files remain. Files of more than a quarter of the
    target are large enough.

    Args:
        files: In the order of their keys, or for tables without a key in any order.
        target_bytes: Which no joined file exceeds by much.
    """
    return list(_worth_joining(files, target_bytes / _GROWTH, target_bytes))


def _worth_joining(files: Sequence[DataFile], largest: float, target: int) -> Iterator[list[DataFile]]:
    for run in _runs(files, largest, target):
        biggest = max(file.size for file in run)
        if sum(file.size for file in run) >= _GROWTH * biggest:
            yield run
        elif len(run) > _GROWTH:
            # The largest ones are in the way of joining the others.
            yield from _worth_joining(run, min(largest / _GROWTH, biggest - 1), target)


def _runs(files: Sequence[DataFile], largest: float, target: int) -> Iterator[list[DataFile]]:
    """Runs of files of at most a size, as long as the target allows."""
    run: list[DataFile] = []
    size = 0
    for file in files:
        if run and (file.size > largest or size + file.size > target):
            yield run
            run, size = [], 0
        if file.size <= largest:
            run.append(file)
            size += file.size
    if run:
        yield run


def vacuum(table: PositionedTable, min_age: timedelta, *, now: datetime | None = None) -> list[str]:
    """Deletes files that no reader can need: those that left the table, and those of tasks that never came into it.

    Files that left the table are kept for a day, the latest first, as long as they take no more space than the table
    itself. ``PositionedTable.versions`` leaves out versions that lack a file.

    Args:
        table: Of which this process is the only writer.
        min_age: No file is deleted that left the table, or was written, more recently. It spares running queries, and
            files that are written but not committed yet. At most a day.
        now: The present time.

    Returns:
        Names of the deleted files.

    Raises:
        SparkError: ``TM-SPK-015``
    """
    now = now or datetime.now(UTC)
    table.refresh()
    live = {unquote(file.path) for file in table.files()}
    removed = {unquote(path): when for path, when in DeltaLog(table.path).removals(table.version).items()}
    spare = table.size
    deleted = []
    try:
        with os.scandir(table.path) as entries:
            dead = [
                (entry, entry.stat())
                for entry in entries
                if entry.name.endswith(".parquet") and entry.name not in live and not entry.name.startswith(("_", "."))
            ]
        never = datetime.min.replace(tzinfo=UTC)
        for entry, stat in sorted(dead, key=lambda e: removed.get(e[0].name, never), reverse=True):
            left = removed.get(entry.name, never)
            if max(left, datetime.fromtimestamp(stat.st_mtime, UTC)) > now - min_age:
                continue
            if left > now - RETENTION and stat.st_size <= spare:
                spare -= stat.st_size
                continue
            (table.path / entry.name).unlink(missing_ok=True)
            deleted.append(entry.name)
    except OSError as error:
        raise SparkError("TM-SPK-015", f"{table.path}: {error.strerror}") from error
    return deleted


def clean(table: PositionedTable) -> None:
    """Shortens the table's log to about its last 200 commits, once it has twice as many.

    Older versions cannot be read any more then. The log grows with every commit, and with it what a commit costs;
    delta-rs cleans it by age alone.

    Args:
        table: Of which this process is the only writer.

    Raises:
        SparkError: ``TM-SPK-015``
    """
    log = DeltaLog(table.path)
    if table.version - log.first_commit() < 2 * _COMMITS_KEPT:
        return
    newest_to_forget = table.version - _COMMITS_KEPT
    checkpoints = log.checkpoints()
    if old := [version for version in checkpoints if version <= newest_to_forget]:
        log.forget_before(old[-1])
    if len(old) == len(checkpoints):
        table.checkpoint()
