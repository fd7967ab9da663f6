"""The settings of a run of ``materialize``."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from spark_sink.tables.kept_tables import KeepRules

Way = Literal["task", "rewrite", "sql"]
"""How a part is applied: by one task alone, by many side by side, or by the MERGE of the session's own engine."""


@dataclass(frozen=True, slots=True)
class FoldRule:
    """Decides when a table is folded.

    Attributes:
        share: The largest share of time that folds of one table may take, above 0 and at most 1. After a fold of c
            seconds the next one begins at the earliest ``c * (1 / share - 1)`` seconds later.
        max_staleness: Seconds after which a table is folded in any case; None for no limit.
        trigger: Seconds between two reads of the log's end.
    """

    share: float = 0.25
    max_staleness: float | None = None
    trigger: float = 1.0


@dataclass(frozen=True, slots=True)
class KeepSettings:
    """Which tables to keep from which log, and how.

    Attributes:
        log: Directory of the change log, absolute.
        warehouse: Directory of the tables, absolute.
        rules: The kinds of tables to keep.
        available_now: Apply all events of the log, then end. Otherwise follow the log by the fold rule.
        fold: The fold rule.
        way: The way of every part; the planner chooses if it is None.
        only: Patterns of ``schema.table``: keep only these tables. Empty means all.
        rebuild: Tables (``schema.table``) to rebuild from the log.
        retry: Tables (``schema.table``) that are set aside, to be tried again.
    """

    log: Path
    warehouse: Path
    rules: KeepRules
    available_now: bool = True
    fold: FoldRule = field(default_factory=FoldRule)
    way: Way | None = None
    only: tuple[str, ...] = ()
    rebuild: tuple[str, ...] = ()
    retry: tuple[str, ...] = ()

    def asks_for(self, table: str) -> bool:
        """Whether ``only`` selects a table (``schema.table``)."""
        return not self.only or any(table == name or fnmatch.fnmatchcase(table, name) for name in self.only)
