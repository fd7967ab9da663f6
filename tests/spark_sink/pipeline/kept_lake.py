"""A warehouse as ``keep`` keeps it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.spark_sink.lake import Lake
from tests.spark_sink.log_builder import LogBuilder
from tidemark.spark_sink.pipeline.keep import keep
from tidemark.spark_sink.run.report import KeptTable, MaterializeReport
from tidemark.spark_sink.run.settings import KeepSettings
from tidemark.spark_sink.tables.kept_tables import KeepRules
from tidemark.spark_sink.tables.store_place import StorePlace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class KeptLake(Lake):
    """A warehouse, and the session that keeps it.

    Args:
        log: To keep it from.
        warehouse: Where.
        session: Makes or gives a session.
    """

    def __init__(self, log: LogBuilder, warehouse: Path, session: Callable[[], SparkSession]) -> None:
        super().__init__(log, warehouse)
        self.session = session

    def settings(self, *kinds: str, **more: Any) -> KeepSettings:
        rules: dict[str, Sequence[str]] = {"*": kinds or ("current", "history")}
        return KeepSettings(
            log=StorePlace.of(self.log.root), warehouse=StorePlace.of(self.warehouse), rules=KeepRules(rules), **more
        )

    def keep(self, *kinds: str, **more: Any) -> MaterializeReport:
        """Keeps these kinds of all tables, both by default."""
        return keep(self.settings(*kinds, **more), self.session)

    def keep_well(self, *kinds: str, **more: Any) -> MaterializeReport:
        """As ``keep``, where nothing may go wrong."""
        report = self.keep(*kinds, **more)
        assert [table.error for table in report.tables if table.error] == []
        return report


def named(report: MaterializeReport, table: str = "public.items", kind: str = "current") -> KeptTable:
    """What a report says of one table."""
    return next(kept for kept in report.tables if (kept.table, kept.kind) == (table, kind))


def errors_of(report: MaterializeReport) -> dict[str, str]:
    """The code of the error of each table that is set aside."""
    return {table.table: table.error.split(":")[0] for table in report.set_aside if table.error}
