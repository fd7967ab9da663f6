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
from tidemark.spark_sink.pipeline.table_keeper import TableKeeper
from tidemark.spark_sink.run.progress import Progress
from tidemark.spark_sink.run.report import Cost
from tidemark.spark_sink.run.settings import KeepSettings
from tidemark.spark_sink.source.followed_log import FollowedLog
from tidemark.spark_sink.tables.kept_tables import CURRENT, Target, check_key
from tidemark.spark_sink.tables.store_place import StorePlace

_CONFLICTS = 5
"""After this many conflicts in a row with another process the table is set aside."""

_LONGEST_PAUSE = 60.0
"""Seconds between two tries of a table whose error may pass by itself."""


@dataclass
class Ward:
    """One table of a run, and what the run knows of it.

    Attributes:
        target: The table and its kind.
        keeper: The opened table; None if it cannot be opened.
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
    keeper: TableKeeper | None
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
    def is_refused(self) -> bool:
        """Whether it cannot be kept, because the source's table has no key."""
        return self.error is not None and self.error.code == "TM-SPK-007"


class Care:
    """All tables of a run. ``clock`` returns seconds, from which the time of the next try is told."""

    def __init__(
        self,
        settings: KeepSettings,
        log: FollowedLog,
        progress: Progress,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.wards: dict[Target, Ward] = {}
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
    def active(self) -> list[Ward]:
        """The tables that are kept up."""
        return [ward for ward in self.wards.values() if ward.error is None]

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
                if self._settings.asks_for(target.table) and (target not in self.wards or self._was_refused(target)):
                    self._admit(target, schema, summary)

    def revive(self) -> None:
        """Opens tables again whose error may have passed by itself. Each failure doubles the pause before a try."""
        now = self._clock()
        for ward in self.wards.values():
            if ward.error is not None and ward.retry_at is not None and now >= ward.retry_at:
                ward.error = ward.retry_at = None
                self._open_again(ward)

    def set_aside(self, ward: Ward, error: TidemarkError) -> None:
        """Sets a table aside, for good or for a while. Its rows stay as they are."""
        ward.error = error
        ward.failures += 1
        if error.entry.policy is Policy.RETRY:
            ward.retry_at = self._clock() + min(2.0**ward.failures, _LONGEST_PAUSE)
        self._progress.set_aside(ward.target.table, ward.target.kind, error)

    def conflicted(self, ward: Ward, error: TidemarkError) -> None:
        """Handles what another process did meanwhile: the part is planned again from the table's newest version.

        It has committed to the table, or compacted the log.
        """
        ward.conflicts += 1
        if ward.conflicts > _CONFLICTS:
            self.set_aside(ward, error)
        else:
            self._open_again(ward)

    def remember(self) -> None:
        """Saves the memory for the next run, if it changed."""
        tables = dict(self._memory.tables)
        for ward in self.wards.values():
            kept = ward.error is not None and SetAside.of(ward.error)
            before = tables.get(ward.target.name)
            if kept and before and before.set_aside and before.set_aside.message == kept.message:
                kept = before.set_aside
            tables[ward.target.name] = TableMemory(
                complete_to=ward.complete_to,
                set_aside=kept or None,
                removed=ward.removed,
                size=ward.size,
                vacuumed=ward.vacuumed,
            )
        is_same = self._commit == self._saved.commit
        digest = self._saved.digest if is_same else self._log.digest(self._commit)
        memory = Memory(tables=tables, commit=self._commit, digest=digest)
        if memory != self._saved:
            memory.save(self._place)
            self._saved = memory

    def _open_again(self, ward: Ward) -> None:
        """Opens a table at its newest version."""
        try:
            if ward.keeper is None:
                ward.keeper = TableKeeper(self._log, ward.target, self._settings.warehouse)
            else:
                ward.keeper.table.refresh()
            ward.complete_to = ward.keeper.position
        except TidemarkError as error:
            self.set_aside(ward, error)

    def _was_refused(self, target: Target) -> bool:
        """Whether a table was refused because it had no key. It may have one now."""
        return self.wards[target].is_refused

    def _admit(self, target: Target, schema: TableSchema, summary: Summary) -> None:
        ward = self.wards[target] = Ward(target, None)
        known = self._memory.tables.get(target.name)
        rebuilt = target.table in self._settings.rebuild
        try:
            check_key(target, schema)
            if rebuilt:
                _move_away(target.versions(self._settings.warehouse)[0].place(self._settings.warehouse))
            ward.keeper = TableKeeper(self._log, target, self._settings.warehouse)
            ward.keeper.check_changes([summary.totals[target.collection].fingerprint])
            ward.complete_to = complete_to(
                ward.keeper.table,
                self._log,
                target.collection,
                summary,
                target.shown(summary) if target.kind == CURRENT else None,
            )
        except TidemarkError as error:
            self.set_aside(ward, error)
            return
        if known and not rebuilt:
            ward.removed, ward.size, ward.vacuumed = known.removed, known.size, known.vacuumed or ward.vacuumed
        tried_again = rebuilt or target.table in self._settings.retry
        aside = known.set_aside if known else None
        # An error of the table itself would have shown when it was opened.
        if aside and aside.needs_a_person and aside.code not in SEEN_AT_OPENING and not tried_again:
            self.set_aside(ward, aside.error)


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
