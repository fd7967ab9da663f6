"""The tables of a run: those that are kept up, and those that are set aside."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from tidemark.protocol.changelog import Summary, TableSchema
from tidemark.protocol.error_codes import Policy
from tidemark.protocol.errors import SparkError, TidemarkError
from tidemark.spark_sink.formats.log_position import complete_to
from tidemark.spark_sink.pipeline.memory import SEEN_AT_OPENING, Memory, SetAside, TableMemory, memory_place
from tidemark.spark_sink.pipeline.pending import Pending
from tidemark.spark_sink.pipeline.table_keeper import TableKeeper
from tidemark.spark_sink.run.figures import count
from tidemark.spark_sink.run.progress import Progress
from tidemark.spark_sink.run.report import Cost, KeptTable
from tidemark.spark_sink.run.settings import KeepSettings
from tidemark.spark_sink.source.followed_log import FollowedLog
from tidemark.spark_sink.tables.kept_tables import CURRENT, Target, check_key
from tidemark.spark_sink.tables.store_place import StorePlace

_CONFLICTS = 5
"""After this many conflicts in a row with another process the table is set aside."""

_LONGEST_PAUSE = 60.0
"""Seconds between two tries of a table whose error may pass by itself."""


@dataclass
class FollowedTable:
    """One table of a run, and what the run knows of it.

    Attributes:
        target: The table and its kind.
        opened: The opened table; None if it cannot be opened.
        next_fold: The monotonic time of the next fold at the earliest.
        only_added: Whether the last fold rewrote no file.
        whole: The newest generation whose rows the last fold completed; 0 before there was one.
        complete_to: The table lacks no event below this offset.
        error: The reason why it is set aside; None if it is kept up.
        conflicts: Conflicts in a row with another process.
        failures: How many times this run set the table aside.
        retry_at: The monotonic time of the next try; None if a person must act first.
        events: Events that this run applied.
        way: The way of the last part.
        cost: The cost of this run's work.
        replaced: Bytes of files that the last fold replaced, and that were joined after it.
        removed: Bytes of files that its commits removed since the last vacuum.
        vacuumed: When that was, in this run or an earlier one; when it began to be kept where there was none.
        size: Bytes of the table's files after its last commit, in this run or an earlier one; None if unknown.
    """

    target: Target
    opened: TableKeeper | None = None
    next_fold: float = 0.0
    only_added: bool = False
    whole: int = 0
    complete_to: int = 0
    error: TidemarkError | None = None
    conflicts: int = 0
    failures: int = 0
    retry_at: float | None = None
    events: int = 0
    way: str = ""
    cost: Cost = field(default_factory=Cost)
    replaced: int = 0
    removed: int = 0
    size: int | None = None
    vacuumed: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def keeper(self) -> TableKeeper:
        """The opened table. One that is kept up has been opened."""
        assert self.opened is not None, f"{self.target.name} has not been opened"
        return self.opened

    @property
    def is_refused(self) -> bool:
        """Whether it cannot be kept, because the source's table has no key. It may have one later."""
        return self.error is not None and self.error.code == "TM-SPK-007"


class FollowedTables:
    """All tables of a run. ``clock`` returns seconds, from which the time of the next try is told."""

    def __init__(
        self,
        settings: KeepSettings,
        log: FollowedLog,
        progress: Progress,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.by_target: dict[Target, FollowedTable] = {}
        self._settings = settings
        self._log = log
        self._progress = progress
        self._clock = clock
        self._place = memory_place(settings.warehouse, log.header.log_id)
        self._memory = Memory.load(self._place).checked(log)
        self._saved = self._memory.model_copy(deep=True)
        self._known: set[str] = set()
        self._commit = self._memory.commit
        log.resume(self._commit)

    @property
    def active(self) -> list[FollowedTable]:
        """The tables that are kept up."""
        return [followed for followed in self.by_target.values() if followed.error is None]

    def admit(self, summary: Summary) -> None:
        """Opens the tables of collections that are new in the log."""
        self._commit = summary.number
        for totals in summary.totals.values():
            # A table may begin to be kept at any time: its collection is new, or has another schema, a key perhaps.
            if totals.fingerprint in self._known:
                continue
            self._known.add(totals.fingerprint)
            schema = summary.schemas[totals.fingerprint]
            for target in self._settings.rules.targets(schema):
                known = self.by_target.get(target)
                if self._settings.asks_for(target.table) and (known is None or known.is_refused):
                    self._admit(target, schema, summary)

    def revive(self) -> None:
        """Opens tables again whose error may have passed by itself. Each failure doubles the pause before a try."""
        now = self._clock()
        for followed in self.by_target.values():
            if followed.error is not None and followed.retry_at is not None and now >= followed.retry_at:
                followed.error = followed.retry_at = None
                self._open_again(followed)

    def set_aside(self, followed: FollowedTable, error: TidemarkError) -> None:
        """Sets a table aside, for good or for a while. Its rows stay as they are."""
        followed.error = error
        followed.failures += 1
        if error.entry.policy is Policy.RETRY:
            followed.retry_at = self._clock() + min(2.0**followed.failures, _LONGEST_PAUSE)
        self._progress.set_aside(followed.target.table, followed.target.kind, error)

    def conflicted(self, followed: FollowedTable, error: TidemarkError) -> None:
        """Handles what another process did meanwhile: the part is planned again from the table's newest version.

        It has committed to the table, or compacted the log.
        """
        followed.conflicts += 1
        if followed.conflicts > _CONFLICTS:
            self.set_aside(followed, error)
        else:
            self._open_again(followed)

    def remember(self) -> None:
        """Saves the memory for the next run, if it changed."""
        tables = dict(self._memory.tables)
        for followed in self.by_target.values():
            kept = followed.error is not None and SetAside.of(followed.error)
            before = tables.get(followed.target.name)
            if kept and before and before.set_aside and before.set_aside.message == kept.message:
                kept = before.set_aside
            tables[followed.target.name] = TableMemory(
                complete_to=followed.complete_to,
                set_aside=kept or None,
                removed=followed.removed,
                size=followed.size,
                vacuumed=followed.vacuumed,
            )
        is_same = self._commit == self._saved.commit
        digest = self._saved.digest if is_same else self._log.digest(self._commit)
        memory = Memory(tables=tables, commit=self._commit, digest=digest)
        if memory != self._saved:
            memory.save(self._place)
            self._saved = memory

    def report(self, pending: Pending) -> tuple[KeptTable, ...]:
        """What there is to say of each table, with what it lacks of what is pending."""
        tables = [self._kept(followed, pending) for followed in self.by_target.values()]
        return tuple(sorted(tables, key=lambda kept: (kept.table, kept.kind)))

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

    def _kept(self, followed: FollowedTable, pending: Pending) -> KeptTable:
        keeper = followed.opened
        lacking = pending.between(followed.target.collection, followed.complete_to, pending.end) if keeper else ()
        table = keeper.table if keeper else None
        standing = table.standing if table and table.exists else None
        rows: int | None = None
        error = followed.error
        try:
            rows = table.rows if table and table.exists else None
        except TidemarkError as damage:
            error = error or damage
        return KeptTable(
            table=followed.target.table,
            kind=followed.target.kind,
            path=(keeper.target if keeper else followed.target).place(self._settings.warehouse).shown,
            way=followed.way,
            events=followed.events,
            rows=rows,
            position=keeper.position if keeper else 0,
            behind=sum(found.segment.rows for found in lacking),
            stale_seconds=(datetime.now(UTC) - lacking[0].time).total_seconds() if lacking else 0.0,
            error=str(error) if error else None,
            generation=standing.generation if standing else 0,
            over=standing.over if standing else 0,
            waits=self._waits(followed.target),
            cost=followed.cost,
        )

    def _open_again(self, followed: FollowedTable) -> None:
        """Opens a table at its newest version."""
        try:
            if followed.opened is None:
                followed.opened = TableKeeper(self._log, followed.target, self._settings.warehouse)
            else:
                followed.keeper.table.refresh()
            followed.complete_to = followed.keeper.position
        except TidemarkError as error:
            self.set_aside(followed, error)

    def _admit(self, target: Target, schema: TableSchema, summary: Summary) -> None:
        followed = self.by_target[target] = FollowedTable(target)
        known = self._memory.tables.get(target.name)
        rebuilt = target.table in self._settings.rebuild
        try:
            check_key(target, schema)
            if rebuilt:
                _move_away(target.versions(self._settings.warehouse)[0].place(self._settings.warehouse))
            followed.opened = TableKeeper(self._log, target, self._settings.warehouse)
            followed.keeper.check_changes([summary.totals[target.collection].fingerprint])
            followed.complete_to = complete_to(
                followed.keeper.table,
                self._log,
                target.collection,
                summary,
                target.shown(summary) if target.kind == CURRENT else None,
            )
        except TidemarkError as error:
            self.set_aside(followed, error)
            return
        if known and not rebuilt:
            followed.removed, followed.size, followed.vacuumed = (
                known.removed,
                known.size,
                known.vacuumed or followed.vacuumed,
            )
        tried_again = rebuilt or target.table in self._settings.retry
        aside = known.set_aside if known else None
        # An error of the table itself would have shown when it was opened.
        if aside and aside.needs_a_person and aside.code not in SEEN_AT_OPENING and not tried_again:
            self.set_aside(followed, aside.error)


def _move_away(table: StorePlace) -> None:
    """Gives a table another place, so that it is rebuilt. Nothing is lost: the files may be the user's.

    In an object store the files are copied, each through this process, and those at the old place deleted after that.
    """
    # Two within a second need two names.
    aside = table.parent / f"{table.name}.replaced-{datetime.now().astimezone():%Y%m%dT%H%M%S.%f}"
    try:
        if table.directory is not None and aside.directory is not None:
            if table.directory.exists():
                table.directory.rename(aside.directory)
            return
        paths = [entry.path for entry in table.store.list("")]
        for path in paths:
            copy = aside.store.upload(path)
            copy.write(table.store.read(path))
            copy.finish()
        for path in paths:
            table.store.delete(path)
    except OSError as error:
        failed = table.failed(error)
        raise SparkError(failed.code, f"{table} cannot be moved away: {error.strerror or error}") from None
