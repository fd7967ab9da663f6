"""The settings of a run of ``materialize``."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

from tidemark.spark_sink.formats.file_sizes import FileSizes
from tidemark.spark_sink.tables.kept_tables import KeepRules, matches
from tidemark.spark_sink.tables.store_place import StorePlace

Way = Literal["task", "rewrite", "sql"]
"""How a part is applied: by one task alone, by many side by side, or by the MERGE of the session's own engine."""


@dataclass(frozen=True, slots=True)
class FoldRule:
    """Decides when a table is folded: folds take at most a share of the time.

    Cheap folds come often, expensive folds rarely. Where keys are random, each fold rewrites the whole table, and the
    next one waits in proportion. So the number of folds grows with the logarithm of the size, and their total cost with
    the size. A fold that only adds files costs what its events cost, whenever it comes. After
    it the next one need not wait, once there are events for some files more. Nor does the one that makes a table whole.

    Attributes:
        share: The largest share of time that folds of one table may take, above 0 and at most 1. After a fold of c
            seconds the next one begins at the earliest ``c * (1 / share - 1)`` seconds later.
        max_staleness: Seconds after which a table is folded in any case; None for no limit.
        trigger: Seconds between two reads of the log's end.
    """

    share: float = 0.25
    max_staleness: float | None = None
    trigger: float = 1.0

    def earliest_after(self, ended: float, cost: float) -> float:
        """The time of the next fold at the earliest. Times are seconds of a monotonic clock.

        Args:
            ended: When the last fold ended.
            cost: Its duration in seconds.
        """
        return ended + cost * (1 / self.share - 1)

    def is_due(self, now: float, earliest: float, stale_since: float) -> bool:
        """Whether to fold now a table whose base lacks an event since ``stale_since``."""
        return now >= earliest or (self.max_staleness is not None and now - stale_since >= self.max_staleness)


@dataclass(frozen=True, slots=True)
class PartLimits:
    """Limits of what one task does, in bytes.

    Attributes:
        task_events: The most events, uncompressed, for one task. It holds them in memory and applies them in about a
            second.
        task_files: The most of the table's files that one task rewrites, unless there are at most two files.
        range_most: The most files and events for one task of a large part: some seconds of work.
        range_least: The least.
    """

    task_events: int = 32 * 1024 * 1024
    task_files: int = 64 * 1024 * 1024
    range_most: int = 64 * 1024 * 1024
    range_least: int = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class VacuumRule:
    """Decides when files are deleted that are not in a table's newest version.

    Attributes:
        min_age: The minimum age of such files. Queries may still read them, or a task may have written them for a later
            commit.
        pause: The minimum time between two vacuums of a table. Each lists the table's directory.
        spare: Bytes that such files of a table may take besides as much as its newest version.
    """

    min_age: timedelta = timedelta(hours=1)
    pause: timedelta = timedelta(minutes=10)
    spare: int = 64 * 1024 * 1024

    def is_due(self, removed: int, size: int, since: timedelta) -> bool:
        """Whether to delete files now: as many left the table as may within a pause, or as many as it has.

        Args:
            removed: Bytes of the files that left the table since the last vacuum.
            size: Bytes of the table.
            since: How long ago that was.
        """
        period = self.min_age + self.pause
        in_a_pause = (size + self.spare) * (self.pause / period if period else 0.0)
        return since >= self.pause and removed > min(size, in_a_pause)

    def earliest_after(self, ended: float, removed: int, size: int) -> float:
        """The time of the next fold at the earliest, so that files that left the table do not pile up.

        Folds that each replace as much are so far apart that together, until a vacuum deletes their files, they replace
        no more than the table's size and ``spare``. A pause more than that takes leaves room for the last of them. No
        fold waits longer than that time, also where the table has become small.

        Args:
            ended: When the last fold ended, in seconds.
            removed: Bytes of the files that it replaced.
            size: Bytes of the table.
        """
        share = removed / max(size + self.spare, removed, 1)
        return ended + share * (self.min_age + 2 * self.pause).total_seconds()


@dataclass(frozen=True, slots=True)
class KeepSettings:
    """Which tables to keep from which log, and how.

    Attributes:
        log: Where the change log is.
        warehouse: Where the tables are.
        rules: The kinds of tables to keep.
        available_now: Apply all events of the log, then end. Otherwise follow the log by the fold rule.
        fold: The fold rule.
        way: The way of every part; the planner chooses if it is None.
        only: Patterns of ``schema.table``: keep only these tables. Empty means all.
        rebuild: Tables (``schema.table``) to rebuild from the log.
        retry: Tables (``schema.table``) that are set aside, to be tried again.
        limits: The limits of what one task does.
        file_sizes: The target sizes of files.
        vacuum: When files are deleted.
        consumer: The name under which the log knows this run, and keeps what its tables lack; empty for none.
    """

    log: StorePlace
    warehouse: StorePlace
    rules: KeepRules
    available_now: bool = True
    fold: FoldRule = field(default_factory=FoldRule)
    way: Way | None = None
    only: tuple[str, ...] = ()
    rebuild: tuple[str, ...] = ()
    retry: tuple[str, ...] = ()
    limits: PartLimits = field(default_factory=PartLimits)
    file_sizes: FileSizes = field(default_factory=FileSizes)
    vacuum: VacuumRule = field(default_factory=VacuumRule)
    consumer: str = ""

    def asks_for(self, table: str) -> bool:
        """Whether ``only`` selects a table (``schema.table``)."""
        return not self.only or any(matches(pattern, table) for pattern in self.only)
