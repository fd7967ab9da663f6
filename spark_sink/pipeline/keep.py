"""Keeps tables as settings say."""

from __future__ import annotations

import threading
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from protocol.changelog import TableSchema
from protocol.errors import SparkError
from spark_sink.pipeline import pipeline, report
from spark_sink.pipeline.materialize import materialize
from spark_sink.pipeline.progress import Progress
from spark_sink.pipeline.settings import KeepSettings
from spark_sink.tables.kept_tables import KeepRules, Target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def keep(
    settings: KeepSettings,
    session: Callable[[], SparkSession],
    progress: Progress | None = None,
    stop: threading.Event | None = None,
) -> report.MaterializeReport:
    """Brings tables up to date with a change log, once or for as long as it is let.

    Raises:
        ChangeLogError: When there is no log, or a file of it is missing or damaged.
        SparkError: ``TM-SPK-…``; tables keep what was applied before. ``TM-SPK-008`` for a table to rebuild or to
            retry, or a way, of which there are none here.
    """
    if settings.rebuild or settings.retry or settings.way:
        raise SparkError("TM-SPK-008", "tables are not rebuilt or retried, and there is one way to apply a part")

    def told(applied: pipeline.Applied) -> None:
        if progress is None:
            return
        part = report.PlannedPart(
            table=applied.target.table,
            kind=applied.target.kind,
            way="task",
            start=applied.position - applied.events,
            end=applied.position,
            events=applied.events,
            bytes=0,
            files=0,
            reason="",
        )
        progress.applied(report.Applied(part, report.Cost(applied.seconds)))

    kept = materialize(
        settings.log,
        settings.warehouse,
        _Only(settings.rules, settings.only) if settings.only else settings.rules,
        available_now=settings.available_now,
        spark=session(),
        progress=told,
        stop=stop,
    )
    return report.MaterializeReport(
        tables=tuple(
            report.KeptTable(one.table, one.kind, one.path, "task", one.events, one.rows, one.position)
            for one in kept.tables
        ),
        end_offset=kept.end_offset,
        seconds=kept.seconds,
    )


class _Only(KeepRules):
    """Of some rules, those for tables that match a pattern."""

    def __init__(self, rules: KeepRules, patterns: tuple[str, ...]) -> None:
        super().__init__({})
        self._all = rules
        self._patterns = patterns

    def targets(self, schema: TableSchema) -> list[Target]:
        return [one for one in self._all.targets(schema) if any(fnmatchcase(one.table, p) for p in self._patterns)]
