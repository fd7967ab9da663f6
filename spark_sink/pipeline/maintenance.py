"""Maintains tables: joins small files, deletes files that no reader needs, and shortens Delta's own log.

Maintenance is part of the loop and follows a table's commit. So each table has one writer, and needs no other upkeep.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tidemark.spark_sink.formats.maintenance import clean, small_files, vacuum
from tidemark.spark_sink.parts.apply import Applier
from tidemark.spark_sink.parts.engine_merge import EngineMerge
from tidemark.spark_sink.parts.part_tasks import Assignment
from tidemark.spark_sink.parts.ranges import file_groups
from tidemark.spark_sink.run.settings import KeepSettings
from tidemark.spark_sink.source.followed_log import FollowedLog

if TYPE_CHECKING:
    from tidemark.spark_sink.pipeline.followed_tables import FollowedTable

_ENGINE_COMMITS = 50
"""After this many commits of the session's engine the table's small files are joined."""


class Maintenance:
    """Maintains tables: by executors, or by the session's engine those that only it can write."""

    def __init__(self, applier: Applier, engine: EngineMerge, log: FollowedLog, settings: KeepSettings) -> None:
        self._applier = applier
        self._engine = engine
        self._log = log
        self._file_sizes = settings.file_sizes
        self._vacuum = settings.vacuum
        self._engine_commits: dict[str, int] = {}

    def after_commit(self, followed: FollowedTable) -> None:
        """Does the maintenance that is due after a commit of a table.

        Raises:
            SparkError: ``TM-SPK-010`` when another process committed meanwhile, ``TM-SPK-015``.
        """
        table = followed.keeper.table
        if table.engine_written is not None:
            self._leave_to_engine(followed)
            return
        self._join(followed)
        clean(table)
        followed.removed += followed.replaced
        now = datetime.now(UTC)
        if self._vacuum.is_due(followed.removed, table.size, now - followed.vacuumed):
            vacuum(table, self._vacuum.min_age)
            followed.removed, followed.vacuumed = 0, now

    def _leave_to_engine(self, followed: FollowedTable) -> None:
        """Lets the engine join files from time to time. The engine itself shortens the table's log."""
        commits = self._engine_commits.get(followed.target.name, 0) + 1
        if commits >= _ENGINE_COMMITS:
            self._engine.compact(followed.keeper.table)
            commits = 0
        self._engine_commits[followed.target.name] = commits

    def _join(self, followed: FollowedTable) -> None:
        """Joins small neighbouring files on executors. Rows and position do not change."""
        keeper, table = followed.keeper, followed.keeper.table
        # Those of a table with a key that are small are so because its rows change: joined into large ones, they would
        # soon be rewritten as a whole.
        sizes = self._file_sizes
        target = sizes.changing(table.size) if keeper.key else sizes.loaded(table.size, keyed=False)
        bounds = keeper.files_in_order()
        joined = small_files(list(bounds), target)
        if not joined:
            return
        work = [
            Assignment(
                part=number,
                log=self._log.at,
                table=table.place,
                columns=table.columns,
                key=keeper.key,
                target=target,
                groups=tuple(file_groups([(file, bounds[file]) for file in files])),
                join=True,
            )
            for number, files in enumerate(joined)
        ]
        outcomes = self._applier.perform(work, [sum(file.size for file in files) for files in joined], "joining files")
        for outcome in outcomes:
            if outcome.error is not None:
                raise outcome.error
        adds = [file for outcome in outcomes for file in outcome.adds]
        removes = [path for outcome in outcomes for path in outcome.removes]
        table.commit(adds, removes, table.standing, data_change=False)
        followed.cost = sum((outcome.cost for outcome in outcomes), followed.cost)
        followed.replaced += sum(file.size for files in joined for file in files)
