"""Keeps tables: reads the log's metadata, plans what each table lacks, lets executors apply it, and commits.

A table's commits hold its position. So this loop may end anywhere: the next one plans from the tables' positions.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tidemark.protocol.changelog.consumers import Registration
from tidemark.protocol.errors import ChangeLogError, TidemarkError
from tidemark.spark_sink.formats.log_position import position_at
from tidemark.spark_sink.parts.apply import Applier, Outcome
from tidemark.spark_sink.parts.engine_merge import EngineMerge
from tidemark.spark_sink.parts.part_plan import Part, plan_part
from tidemark.spark_sink.parts.spark_jobs import SparkJobs
from tidemark.spark_sink.pipeline.followed_tables import FollowedTable, FollowedTables
from tidemark.spark_sink.pipeline.maintenance import Maintenance
from tidemark.spark_sink.pipeline.pending import Pending
from tidemark.spark_sink.run.progress import LoggedProgress, Progress
from tidemark.spark_sink.run.report import Applied, Cost, MaterializeReport
from tidemark.spark_sink.run.settings import KeepSettings
from tidemark.spark_sink.source.followed_log import FollowedLog
from tidemark.spark_sink.tables.kept_tables import CURRENT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

_CONFLICT = "TM-SPK-010"
_MISSING = "TM-LOG-009"
_SPARK_FAILED = "TM-SPK-013"


def keep(
    settings: KeepSettings,
    session: Callable[[], SparkSession],
    progress: Progress | None = None,
    stop: threading.Event | None = None,
) -> MaterializeReport:
    """Brings tables up to date with a change log, once or until ``stop`` is set.

    Args:
        settings: What to keep, and how.
        session: Returns the Spark session. It is called when the first part is due, and never if no part is.
        progress: Receives the progress; by default it is logged.
        stop: Set it to end a run after the current batch; a ``KeyboardInterrupt`` after that ends it at once.

    Raises:
        ChangeLogError: There is no log, or a commit of it is missing or damaged.
        SparkError: The warehouse cannot be written, or the session has ended (``TM-SPK-013``). An error of one table is
            in the report instead.
    """
    return _Keeping(settings, session, progress or LoggedProgress(), stop or threading.Event()).run()


@dataclass(frozen=True, slots=True)
class _Fold:
    """A part of a batch, and the table that it is of."""

    followed: FollowedTable
    part: Part


class _Keeping:
    def __init__(
        self, settings: KeepSettings, session: Callable[[], SparkSession], progress: Progress, stop: threading.Event
    ) -> None:
        self._began = time.monotonic()
        self._settings = settings
        self._progress = progress
        self._stop = stop
        self._log = FollowedLog(settings.log)
        self._tables = FollowedTables(settings, self._log, progress)
        self._jobs = SparkJobs(session)
        self._applier = Applier(self._jobs, self._log, settings)
        self._engine = EngineMerge(self._jobs, self._log)
        self._maintenance = Maintenance(self._applier, self._engine, self._log, settings)
        self._pending: Pending | None = None
        self._executors: dict[str, int] = {}
        self._told: set[str] = set()
        # A run for some tables does not know what the others lack.
        is_known = settings.consumer and not settings.only
        self._registration = Registration(self._log.store, settings.consumer) if is_known else None

    def run(self) -> MaterializeReport:
        try:
            pending = self._follow()
        except KeyboardInterrupt:
            # What is asked to stop leaves the part at hand. While its session opens, it does not wait for a report.
            if self._pending is None or not (self._stop.is_set() and self._jobs.is_open):
                raise
            pending = self._pending
        finally:
            self._register(Registration.close)
        return self._report(pending)

    def _follow(self) -> Pending:
        once = self._settings.available_now
        pending = self._look()
        end = pending.end
        while True:
            limit = end if once else pending.end
            behind = self._behind(pending, limit)
            if due := behind if once else [followed for followed in behind if self._is_due(followed, pending)]:
                self._apply(due, pending, limit)
            self._tables.remember()
            self._say_what_is_needed()
            if (once and not behind) or self._stop.is_set():
                return pending
            if not once and self._stop.wait(self._settings.fold.trigger):
                return pending
            pending = self._look()

    def _needed(self) -> int:
        """The offset below which no table needs an event.

        Of a table that cannot be opened it is not known: it may need all that there is. One without a key is not kept.
        """
        start = self._log.log_start.offset
        kept = (followed for followed in self._tables.by_target.values() if not followed.is_refused)
        return min((max(followed.complete_to, start) for followed in kept), default=self._log.end())

    def _say_what_is_needed(self) -> None:
        self._register(lambda known: known.note(self._needed()))

    def _register(self, say: Callable[[Registration], None]) -> None:
        """Tells the log how far this run is. Where that fails, the run continues, and tries it again later."""
        if self._registration is None:
            return
        try:
            say(self._registration)
        except ChangeLogError as error:
            if error.message not in self._told:
                self._told.add(error.message)
                logger.warning("%s; the log may not keep what this run has not read", error.message)

    def _look(self) -> Pending:
        """Reads the log's new commits, and opens tables that are new in it."""
        self._tables.admit(self._log.summary())
        if not self._settings.available_now:
            self._tables.revive()
        start = self._log.start()
        for followed in self._tables.active:
            if followed.complete_to < start:
                try:
                    followed.keeper.check_reach()
                except TidemarkError as error:
                    self._failed(followed, error)
        pending, active = self._pending, self._tables.active
        reaches = pending is not None and all(pending.reaches_back(w.target.collection, w.complete_to) for w in active)
        if pending is None or pending.is_outdated or not reaches:
            pending = Pending(self._log, min((followed.complete_to for followed in active), default=self._log.end()))
        pending.follow()
        self._pending = pending
        self._say_what_is_needed()  # Before a long first load, too.
        return pending

    def _behind(self, pending: Pending, limit: int) -> list[FollowedTable]:
        """The tables that lack events below a limit."""
        behind = []
        for followed in self._tables.active:
            lacks = pending.between(followed.target.collection, followed.complete_to, limit)
            try:
                if lacks or followed.keeper.is_outdated(self._log.summary_at(limit)):
                    behind.append(followed)
                else:
                    followed.complete_to = max(followed.complete_to, limit)
            except TidemarkError as error:
                self._failed(followed, error)
        return behind

    def _is_due(self, followed: FollowedTable, pending: Pending) -> bool:
        lacking = pending.between(followed.target.collection, followed.complete_to, pending.end)
        if not lacking or followed.whole != self._whole(followed, pending.end):
            return True  # Rows are to go, or all of them have come.
        lacks = sum(found.segment.size for found in lacking)
        keyed = followed.target.kind == CURRENT
        if followed.only_added and self._settings.file_sizes.is_filled(lacks, followed.size or 0, keyed=keyed):
            return True
        stale = (datetime.now(UTC) - lacking[0].time).total_seconds()
        now = time.monotonic()
        return self._settings.fold.is_due(now, followed.next_fold, now - stale)

    def _whole(self, followed: FollowedTable, end: int) -> int:
        """The newest generation of a table whose rows have all come below an offset; 0 without one."""
        known = self._log.summary_at(end).generations.get(followed.target.collection, ())
        return max((one.number for one in known if one.whole is not None), default=0)

    def _apply(self, due: Sequence[FollowedTable], pending: Pending, end: int) -> None:
        """Applies one batch: to every table that is due, the events that it lacks below ``end``, a commit's edge."""
        folds = self._plan(due, pending, end)
        if folds and not self._jobs.is_open:
            self._jobs.open()
            if not self._settings.available_now:
                # That took seconds, in which a backfill has brought more.
                pending = self._look()
                end = pending.end
                folds = self._plan([fold.followed for fold in folds if fold.followed.error is None], pending, end)
        self._progress.planned([fold.part.described for fold in folds])
        for fold, outcome, seconds in self._perform(folds):
            self._commit(fold, outcome, seconds)
        for fold in folds:
            self._maintain(fold.followed)
            collection = fold.followed.target.collection
            of_collection = [one.complete_to for one in self._tables.active if one.target.collection == collection]
            pending.drop(collection, min(of_collection, default=end))

    def _plan(self, due: Sequence[FollowedTable], pending: Pending, end: int) -> list[_Fold]:
        return [_Fold(one, part) for one in due if (part := self._planned(one, pending, end)) is not None]

    def _planned(self, followed: FollowedTable, pending: Pending, end: int) -> Part | None:
        followed.replaced = 0
        found = pending.between(followed.target.collection, followed.complete_to, end)
        summary = self._log.summary_at(end)
        if (shown := followed.target.shown(summary)) is None:
            return None  # Its first event is later.
        try:
            followed.keeper.check_changes(committed.segment.fingerprint for committed in found)
            segments = followed.keeper.missing(summary, [committed.segment for committed in found])
            if not segments and not followed.keeper.is_outdated(summary):
                followed.complete_to = max(followed.complete_to, end)  # All of it is of a generation that is not shown.
                return None
            state = followed.keeper.state_for(summary, segments)
            shown = shown if followed.target.kind == CURRENT else None
            return plan_part(followed.keeper.target, state, segments, end, self._settings, shown)
        except TidemarkError as error:
            self._failed(followed, error)
            return None

    def _perform(self, folds: Sequence[_Fold]) -> Iterator[tuple[_Fold, Outcome, float]]:
        """Gives each fold, with its outcome and its seconds, as soon as it is done. Small ones are one job."""
        small = [fold for fold in folds if fold.part.way == "task"]
        began = time.monotonic()
        outcomes = self._applier.apply_small([fold.part for fold in small])
        spent = time.monotonic() - began
        for fold, outcome in zip(small, outcomes, strict=True):
            yield fold, outcome, spent * _share(outcome, outcomes)
        large = [fold for fold in folds if fold.part.way != "task"]
        for fold in sorted(large, key=lambda fold: fold.part.way == "sql"):
            if self._stop.is_set():
                return
            began = time.monotonic()
            if fold.part.way == "sql":
                outcome = self._engine.apply(fold.part, fold.followed.keeper.table)
            else:
                outcome = self._applier.apply_large(fold.part)
            yield fold, outcome, time.monotonic() - began

    def _commit(self, fold: _Fold, outcome: Outcome, seconds: float) -> None:
        followed, part = fold.followed, fold.part
        for executor, rows in outcome.rows_read.items():
            self._executors[executor] = self._executors.get(executor, 0) + rows
        if outcome.error is not None:
            self._failed(followed, outcome.error)
            return
        began = time.monotonic()
        try:
            position = position_at(self._log, part.target.collection, part.shown, part.end)
            if part.way != "sql":  # Its engine has committed.
                if part.state.begins or part.state.recast:
                    followed.keeper.table.replace(outcome.adds, part.state.columns, position)
                else:
                    followed.keeper.table.commit(outcome.adds, outcome.removes, position)
        except TidemarkError as error:
            self._failed(followed, error)
            return
        removed = set(outcome.removes)
        followed.replaced = sum(file.size for file, _ in part.state.files if file.path in removed)
        now = time.monotonic()
        followed.next_fold = self._settings.fold.earliest_after(now, seconds + now - began)
        followed.only_added = not removed and part.way != "sql"
        followed.whole = self._whole(followed, part.end)
        followed.conflicts = followed.failures = 0
        followed.complete_to = part.end
        followed.events += part.described.events
        followed.way = part.way
        followed.cost += outcome.cost
        self._progress.applied(Applied(part.described, outcome.cost))

    def _maintain(self, followed: FollowedTable) -> None:
        """Joins and removes files of a table, and leaves time before its next fold for old ones to go."""
        if followed.error is None:
            try:
                self._maintenance.after_commit(followed)
                followed.size = followed.keeper.table.size
            except TidemarkError as error:
                self._failed(followed, error)
        if followed.replaced:
            size = followed.keeper.table.size
            earliest = self._settings.vacuum.earliest_after(time.monotonic(), followed.replaced, size)
            followed.next_fold = max(followed.next_fold, earliest)

    def _failed(self, followed: FollowedTable, error: TidemarkError) -> None:
        if error.code == _SPARK_FAILED and self._stop.is_set():
            # PySpark calls Java once more where an interrupt passes, and what that raises takes the interrupt's place.
            raise KeyboardInterrupt from error
        if error.code == _SPARK_FAILED and not self._jobs.is_alive():
            raise error
        # The next look finds what stands for a segment that is gone.
        if error.code == _CONFLICT or (error.code == _MISSING and self._is_gone_since(followed)):
            self._tables.conflicted(followed, error)
        else:
            self._tables.set_aside(followed, error)

    def _is_gone_since(self, followed: FollowedTable) -> bool:
        """Whether commits were compacted, or removed, since their segments were looked up."""
        self._log.find_replacements()
        is_outdated = self._pending is not None and self._pending.is_outdated
        return is_outdated or followed.complete_to < self._log.log_start.offset

    def _report(self, pending: Pending) -> MaterializeReport:
        opened = [one for one in self._tables.by_target.values() if one.opened is not None]
        if not all(pending.reaches_back(one.target.collection, one.complete_to) for one in opened):
            # Tables that are set aside may be far behind.
            pending = Pending(self._log, min(one.complete_to for one in opened))
            pending.follow()
        return MaterializeReport(
            tables=self._tables.report(pending),
            end_offset=self._log.end(),
            seconds=time.monotonic() - self._began,
            executors=self._executors,
        )


def _share(outcome: Outcome, outcomes: Sequence[Outcome]) -> float:
    """The share of one part in the time of a common job."""
    total = sum((one.cost for one in outcomes), Cost()).seconds
    return outcome.cost.seconds / total if total else 1 / len(outcomes)
