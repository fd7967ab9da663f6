"""Keeps tables: reads the log's metadata, plans what each table lacks, lets executors apply it, and commits.

A table's commits hold its position. So this loop may end anywhere: the next one plans from the tables' positions.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tidemark.protocol.changelog.consumers import Registration
from tidemark.protocol.errors import ChangeLogError, TidemarkError
from tidemark.spark_sink.formats.log_position import position_at
from tidemark.spark_sink.parts.apply import Applier, Outcome
from tidemark.spark_sink.parts.engine_merge import EngineMerge
from tidemark.spark_sink.parts.plan import Part, plan_part
from tidemark.spark_sink.parts.spark_jobs import SparkJobs
from tidemark.spark_sink.pipeline.care import Care, Ward
from tidemark.spark_sink.pipeline.maintenance import Maintenance
from tidemark.spark_sink.pipeline.pending import Pending
from tidemark.spark_sink.run.figures import count
from tidemark.spark_sink.run.progress import LoggedProgress, Progress
from tidemark.spark_sink.run.report import Applied, Cost, KeptTable, MaterializeReport
from tidemark.spark_sink.run.settings import KeepSettings
from tidemark.spark_sink.source.followed_log import FollowedLog
from tidemark.spark_sink.tables.kept_tables import CURRENT, Target

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


class _Keeping:
    def __init__(
        self, settings: KeepSettings, session: Callable[[], SparkSession], progress: Progress, stop: threading.Event
    ) -> None:
        self._began = time.monotonic()
        self._settings = settings
        self._progress = progress
        self._stop = stop
        self._log = FollowedLog(settings.log)
        self._care = Care(settings, self._log, progress)
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
            if due := behind if once else [ward for ward in behind if self._is_due(ward, pending)]:
                self._apply(due, pending, limit)
            self._care.remember()
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
        kept = (ward for ward in self._care.wards.values() if not ward.is_refused)
        return min((max(ward.complete_to, start) for ward in kept), default=self._log.end())

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
        self._care.admit(self._log.summary())
        if not self._settings.available_now:
            self._care.revive()
        start = self._log.start()
        for ward in self._care.active:
            if ward.complete_to < start and ward.keeper is not None:
                try:
                    ward.keeper.check_reach()
                except TidemarkError as error:
                    self._failed(ward, error)
        pending, active = self._pending, self._care.active
        reaches = pending is not None and all(pending.reaches_back(w.target.collection, w.complete_to) for w in active)
        if pending is None or pending.is_outdated or not reaches:
            pending = Pending(self._log, min((ward.complete_to for ward in active), default=self._log.end()))
        pending.follow()
        self._pending = pending
        self._say_what_is_needed()  # Before a long first load, too.
        return pending

    def _behind(self, pending: Pending, limit: int) -> list[Ward]:
        """The tables that lack events below a limit."""
        behind = []
        for ward in self._care.active:
            lacks = pending.between(ward.target.collection, ward.complete_to, limit)
            try:
                if lacks or (ward.keeper is not None and ward.keeper.is_outdated(self._log.summary_at(limit))):
                    behind.append(ward)
                else:
                    ward.complete_to = max(ward.complete_to, limit)
            except TidemarkError as error:
                self._failed(ward, error)
        return behind

    def _is_due(self, ward: Ward, pending: Pending) -> bool:
        lacking = pending.between(ward.target.collection, ward.complete_to, pending.end)
        if not lacking or ward.whole != self._whole(ward, pending.end):
            return True  # Rows are to go, or all of them have come.
        lacks = sum(found.segment.size for found in lacking)
        keyed = ward.target.kind == CURRENT
        if ward.only_added and self._settings.file_sizes.is_filled(lacks, ward.size or 0, keyed=keyed):
            return True
        stale = (datetime.now(UTC) - lacking[0].time).total_seconds()
        now = time.monotonic()
        return self._settings.fold.is_due(now, ward.next_fold, now - stale)

    def _whole(self, ward: Ward, end: int) -> int:
        """The newest generation of a table whose rows have all come below an offset; 0 without one."""
        known = self._log.summary_at(end).generations.get(ward.target.collection, ())
        return max((one.number for one in known if one.whole is not None), default=0)

    def _apply(self, due: Sequence[Ward], pending: Pending, end: int) -> None:
        """Applies one batch: to every table that is due, the events that it lacks below ``end``, a commit's edge."""
        planned = self._plan(due, pending, end)
        if planned and not self._jobs.is_open:
            self._jobs.open()
            if not self._settings.available_now:
                # That took seconds, in which a backfill has brought more.
                pending = self._look()
                end = pending.end
                planned = self._plan([ward for ward, _ in planned if ward.error is None], pending, end)
        self._progress.planned([part.described for _, part in planned])
        small = [(ward, part) for ward, part in planned if part.way == "task"]
        began = time.monotonic()
        outcomes = self._applier.apply_small([part for _, part in small])
        for (ward, part), outcome in zip(small, outcomes, strict=True):
            self._commit(ward, part, outcome, (time.monotonic() - began) * _share(outcome, outcomes))
        for ward, part in planned:
            if part.way == "rewrite" and not self._stop.is_set():
                began = time.monotonic()
                outcome = self._applier.apply_large(part)
                self._commit(ward, part, outcome, time.monotonic() - began)
        for ward, part in planned:
            if part.way == "sql" and not self._stop.is_set():
                assert ward.keeper is not None
                outcome = self._engine.apply(part, ward.keeper.table)
                self._commit(ward, part, outcome, outcome.cost.seconds)
        for ward, _ in planned:
            if ward.error is None:
                assert ward.keeper is not None
                try:
                    self._maintenance.after_commit(ward)
                    ward.size = ward.keeper.table.size
                except TidemarkError as error:
                    self._failed(ward, error)
            self._leave_time_for_old_files(ward)
            collection = ward.target.collection
            of_collection = [one.complete_to for one in self._care.active if one.target.collection == collection]
            pending.drop(collection, min(of_collection, default=end))

    def _leave_time_for_old_files(self, ward: Ward) -> None:
        if ward.replaced and ward.keeper is not None:
            earliest = self._settings.vacuum.earliest_after(time.monotonic(), ward.replaced, ward.keeper.table.size)
            ward.next_fold = max(ward.next_fold, earliest)

    def _plan(self, due: Sequence[Ward], pending: Pending, end: int) -> list[tuple[Ward, Part]]:
        return [(ward, part) for ward in due if (part := self._planned(ward, pending, end)) is not None]

    def _planned(self, ward: Ward, pending: Pending, end: int) -> Part | None:
        assert ward.keeper is not None
        ward.replaced = 0
        found = pending.between(ward.target.collection, ward.complete_to, end)
        summary = self._log.summary_at(end)
        if (shown := ward.target.shown(summary)) is None:
            return None  # Its first event is later.
        try:
            ward.keeper.check_changes(committed.segment.fingerprint for committed in found)
            segments = ward.keeper.missing(summary, [committed.segment for committed in found])
            if not segments and not ward.keeper.is_outdated(summary):
                ward.complete_to = max(ward.complete_to, end)  # All of it is of a generation that is not shown.
                return None
            state = ward.keeper.state_for(summary, segments)
            shown = shown if ward.target.kind == CURRENT else None
            return plan_part(ward.keeper.target, state, segments, end, self._settings, shown)
        except TidemarkError as error:
            self._failed(ward, error)
            return None

    def _commit(self, ward: Ward, part: Part, outcome: Outcome, seconds: float) -> None:
        for executor, rows in outcome.rows_read.items():
            self._executors[executor] = self._executors.get(executor, 0) + rows
        if outcome.error is not None:
            self._failed(ward, outcome.error)
            return
        assert ward.keeper is not None
        removed = set(outcome.removes)
        began = time.monotonic()
        try:
            position = position_at(self._log, part.target.collection, part.shown, part.end)
            if part.way != "sql":  # Its engine has committed.
                if part.state.begins or part.state.recast:
                    ward.keeper.table.replace(outcome.adds, part.state.columns, position)
                else:
                    ward.keeper.table.commit(outcome.adds, outcome.removes, position)
        except TidemarkError as error:
            self._failed(ward, error)
            return
        now = time.monotonic()
        ward.replaced = sum(file.size for file, _ in part.state.files if file.path in removed)
        ward.next_fold = self._settings.fold.earliest_after(now, seconds + now - began)
        ward.only_added = not removed and part.way != "sql"
        ward.whole = self._whole(ward, part.end)
        ward.conflicts = ward.failures = 0
        ward.complete_to = part.end
        ward.events += part.described.events
        ward.way = part.way
        ward.cost += outcome.cost
        self._progress.applied(Applied(part.described, outcome.cost))

    def _failed(self, ward: Ward, error: TidemarkError) -> None:
        if error.code == _SPARK_FAILED and self._stop.is_set():
            # PySpark calls Java once more where an interrupt passes, and what that raises takes the interrupt's place.
            raise KeyboardInterrupt from error
        if error.code == _SPARK_FAILED and not self._jobs.is_alive():
            raise error
        # The next look finds what stands for a segment that is gone.
        if error.code == _CONFLICT or (error.code == _MISSING and self._is_gone_since(ward)):
            self._care.conflicted(ward, error)
        else:
            self._care.set_aside(ward, error)

    def _is_gone_since(self, ward: Ward) -> bool:
        """Whether commits were compacted, or removed, since their segments were looked up."""
        self._log.find_replacements()
        is_outdated = self._pending is not None and self._pending.is_outdated
        return is_outdated or ward.complete_to < self._log.log_start.offset

    def _report(self, pending: Pending) -> MaterializeReport:
        opened = [ward for ward in self._care.wards.values() if ward.keeper is not None]
        if not all(pending.reaches_back(ward.target.collection, ward.complete_to) for ward in opened):
            # Tables that are set aside may be far behind.
            pending = Pending(self._log, min(ward.complete_to for ward in opened))
            pending.follow()
        tables = [self._kept(ward, pending) for ward in self._care.wards.values()]
        return MaterializeReport(
            tables=tuple(sorted(tables, key=lambda kept: (kept.table, kept.kind))),
            end_offset=self._log.end(),
            seconds=time.monotonic() - self._began,
            executors=self._executors,
        )

    def _waits(self, target: Target) -> str:
        """What the rows of a table wait for while it is read again; empty where they wait for nothing."""
        summary = self._log.summary()
        shown, newest = target.shown(summary), summary.newest(target.collection)
        if target.kind != CURRENT or shown is None or newest is None:
            return ""
        if shown.newest.ended is not None and newest.number == shown.newest.number:
            return f"later events wait from offset {newest.ended:,} on: the table is about to be read again"
        far = f"which has {count(newest.events, 'event')} since offset {newest.begin:,}: {newest.why}"
        if newest.number != shown.newest.number:
            return f"rows of generation {shown.newest.number} stay until generation {newest.number} is whole, {far}"
        if shown.over:
            return f"rows of generation {shown.over} stay under generation {newest.number} until it is whole, {far}"
        return ""

    def _kept(self, ward: Ward, pending: Pending) -> KeptTable:
        lacking = pending.between(ward.target.collection, ward.complete_to, pending.end) if ward.keeper else ()
        table = ward.keeper.table if ward.keeper else None
        standing = table.standing if table and table.exists else None
        rows: int | None = None
        error = ward.error
        try:
            rows = table.rows if table and table.exists else None
        except TidemarkError as damage:
            error = error or damage
        return KeptTable(
            table=ward.target.table,
            kind=ward.target.kind,
            path=(ward.keeper.target if ward.keeper else ward.target).place(self._settings.warehouse).shown,
            way=ward.way,
            events=ward.events,
            rows=rows,
            position=ward.keeper.position if ward.keeper else 0,
            behind=sum(found.segment.rows for found in lacking),
            stale_seconds=(datetime.now(UTC) - lacking[0].time).total_seconds() if lacking else 0.0,
            error=str(error) if error else None,
            generation=standing.generation if standing else 0,
            over=standing.over if standing else 0,
            waits=self._waits(ward.target),
            cost=ward.cost,
        )


def _share(outcome: Outcome, outcomes: Sequence[Outcome]) -> float:
    """The share of one part in the time of a common job."""
    total = sum((one.cost for one in outcomes), Cost()).seconds
    return outcome.cost.seconds / total if total else 1 / len(outcomes)
