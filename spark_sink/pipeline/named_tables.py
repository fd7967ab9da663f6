"""Makes sure that the capture has the tables that a run names, before anything starts."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.changelog.known_tables import known_tables
from tidemark.protocol.changelog.models import QUARANTINE
from tidemark.protocol.errors import UsageError
from tidemark.protocol.text.nearest_names import near
from tidemark.spark_sink.run.settings import KeepSettings
from tidemark.spark_sink.tables.kept_tables import unmatched
from tidemark.spark_sink.tables.table_columns import dotted


def check_named(settings: KeepSettings, log: ChangeLog, listed: Iterable[str]) -> None:
    """Makes sure that the tables that a run names are captured.

    A table may have no event yet: the log knows it since the capture was last opened, or the capture file lists it. A
    capture that was never opened has no tables to compare with.

    Args:
        settings: Of the run.
        log: The change log.
        listed: Tables (``schema.table``) that the capture file lists.

    Raises:
        UsageError: ``TM-CFG-004`` naming every table that is not captured.
    """
    captured = {dotted(table.recommended_name) for table in known_tables(log.store)}
    if captured and not _wrong(settings, captured.union(listed)):
        return
    # The log itself is asked only now: it also has tables that are no longer captured.
    captured.update(map(dotted, log.summary().totals))
    if captured and (wrong := _wrong(settings, captured.union(listed))):
        raise UsageError(
            "TM-CFG-004", "; ".join(wrong), remedy="Write table names as 'tidemark status FILE' lists them."
        )


def _wrong(settings: KeepSettings, captured: Collection[str]) -> list[str]:
    """Says of each name that a run gives, and that no captured table has, where it stands."""
    tables = sorted(captured)
    named: dict[str, list[str]] = {
        "--table": unmatched(settings.only, tables),
        "--rebuild": [name for name in settings.rebuild if name not in tables],
        "--retry": [name for name in settings.retry if name not in tables],
        "spark.tables": unmatched(settings.rules.patterns, [*tables, QUARANTINE]),
    }
    return [f"{what}: {name} is not captured{near(name, tables)}" for what, names in named.items() for name in names]
