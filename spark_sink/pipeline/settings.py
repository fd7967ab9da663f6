"""What a run of ``materialize`` is told."""

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
    """When a table's base is moved forward.

    Attributes:
        share: Largest part of the time that folding one table may take, above 0 and at most 1. After a fold of c
            seconds the next one begins no sooner than ``c * (1 / share - 1)`` seconds later.
        max_staleness: Seconds after which a table is folded in any case; None for no ceiling.
        trigger: Seconds between two looks at the log.
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
        rules: What is kept of each table.
        available_now: Fold everything that the log holds, then end. Otherwise follow the log by the fold rule.
        fold: The fold rule.
        way: Forces how parts are applied; the planner chooses when None.
        only: Patterns of ``schema.table``: keep these alone; all when empty.
        rebuild: Tables (``schema.table``) to build again from the log, from nothing.
        retry: Tables (``schema.table``) set aside that are to be tried again.
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
