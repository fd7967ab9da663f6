"""The tables in a run's care: those that the rules ask for, opened, and those that had to be set aside."""

from __future__ import annotations

import fnmatch
import time
from dataclasses import dataclass, field
from pathlib import Path

from protocol.changelog import Summary
from protocol.errors import SparkError, TidemarkError
from spark_sink.pipeline.fold_clock import FoldClock
from spark_sink.pipeline.memory import Memory, SetAside, TableMemory
from spark_sink.pipeline.progress import Progress
from spark_sink.pipeline.report import Cost
from spark_sink.pipeline.settings import KeepSettings
from spark_sink.pipeline.table_keeper import TableKeeper
from spark_sink.source.followed_log import FollowedLog
from spark_sink.tables.kept_tables import Target

_CONFLICTS = 5
"""So many times in a row another process may commit first, before the table is left to it."""


@dataclass
class Ward:
    """One table in care.

    Attributes:
        target: Which.
        keeper: Of the table; None while it cannot even be opened.
        clock: When it is folded next.
        complete_to: It lacks nothing below this offset.
        error: Why it is set aside.
        conflicts: In a row.
        events: Applied by this run.
        way: Of the last part.
        cost: Of this run's work.
        removed: Bytes of files that its commits removed since the last vacuum.
    """

    target: Target
    keeper: TableKeeper | None
    clock: FoldClock
    complete_to: int = 0
    error: TidemarkError | None = None
    conflicts: int = 0
    events: int = 0
    way: str = ""
    cost: Cost = field(default_factory=Cost)
    removed: int = 0


class Care:
    """All tables of a run.

    Args:
        settings: Of the run.
        log: The change log.
        progress: Hears of tables that are set aside.
    """

    def __init__(self, settings: KeepSettings, log: FollowedLog, progress: Progress) -> None:
        self.wards: dict[Target, Ward] = {}
        self._settings = settings
        self._log = log
        self._progress = progress
        self._path = settings.warehouse / "_tidemark" / log.header.log_id / "tables.json"
        self._memory = Memory.load(self._path)
        self._saved = self._memory.model_copy(deep=True)
        self._known: set[str] = set()
        self._check_named()

    @property
    def active(self) -> list[Ward]:
        """Those that are kept up."""
        return [ward for ward in self.wards.values() if ward.error is None]

    def admit(self, summary: Summary) -> None:
        """Opens the tables of collections that are new in the log."""
        for collection, totals in summary.totals.items():
            # A table may begin to be kept at any time: its collection is new, or has another schema, a key perhaps.
            if totals.fingerprint in self._known:
                continue
            self._known.add(totals.fingerprint)
            try:
                targets = self._settings.rules.targets(summary.schemas[totals.fingerprint])
            except SparkError as error:
                targets = []
                refused = Target(collection, "current")
                self._admit(refused, error)
            for target in targets:
                if self._is_asked_for(target) and target not in self.wards:
                    self._admit(target, None)

    def set_aside(self, ward: Ward, error: TidemarkError) -> None:
        """Keeps a table up no longer. What it holds stays as it is."""
        ward.error = error
        self._progress.set_aside(ward.target.table, ward.target.kind, error)

    def conflicted(self, ward: Ward, error: TidemarkError) -> None:
        """Another process committed first: the part is planned again from what the table is now."""
        ward.conflicts += 1
        if ward.conflicts > _CONFLICTS:
            self.set_aside(ward, error)
            return
        try:
            if ward.keeper is not None:
                ward.keeper.table.refresh()
                ward.complete_to = ward.keeper.position
        except TidemarkError as damage:
            self.set_aside(ward, damage)

    def remember(self) -> None:
        """Writes down what the next run can use, if it is news."""
        tables = dict(self._memory.tables)
        for ward in self.wards.values():
            kept = ward.error is not None and SetAside.of(ward.error)
            before = tables.get(ward.target.name)
            if kept and before and before.set_aside and before.set_aside.message == kept.message:
                kept = before.set_aside
            position = ward.keeper.position if ward.keeper else 0
            tables[ward.target.name] = TableMemory(
                position=position, complete_to=ward.complete_to, set_aside=kept or None
            )
        memory = Memory(tables=tables)
        if memory != self._saved:
            memory.save(self._path)
            self._saved = memory

    def _admit(self, target: Target, refused: TidemarkError | None) -> None:
        clock = FoldClock(self._settings.fold)
        ward = self.wards[target] = Ward(target, None, clock)
        known = self._memory.tables.get(target.name)
        rebuilt = target.table in self._settings.rebuild
        try:
            if refused:
                raise refused
            if rebuilt:
                _move_away(target.path(self._settings.warehouse))
            ward.keeper = TableKeeper(self._log, target, self._settings.warehouse)
        except TidemarkError as error:
            self.set_aside(ward, error)
            return
        ward.complete_to = self._memory.complete_to(target.name, ward.keeper.position)
        tried_again = rebuilt or target.table in self._settings.retry
        if known and known.set_aside and known.set_aside.needs_a_person and not tried_again:
            self.set_aside(ward, known.set_aside.error)

    def _is_asked_for(self, target: Target) -> bool:
        only = self._settings.only
        return not only or any(target.table == name or fnmatch.fnmatchcase(target.table, name) for name in only)

    def _check_named(self) -> None:
        """Tables that are to be rebuilt or retried have to be in the log."""
        tables = {Target(collection, "").table for collection in self._log.summary().totals}
        for name in (*self._settings.rebuild, *self._settings.retry):
            if name not in tables:
                raise SparkError("TM-SPK-004", f"{self._log.root} has no events of table {name}")


def _move_away(path: Path) -> None:
    """Moves a table's directory aside, so that it is built anew. Nothing is deleted: it may be somebody's own."""
    if not path.exists():
        return
    aside = path.with_name(f"{path.name}.replaced-{time.strftime('%Y%m%dT%H%M%S')}")
    try:
        path.rename(aside)
    except OSError as error:
        raise SparkError("TM-SPK-015", f"{path} cannot be moved aside: {error.strerror or error}") from None
