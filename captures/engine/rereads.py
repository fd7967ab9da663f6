"""Tables whose rows are read again because of what happened to them.

The log says what happened, in a batch. Once it stands between transactions, this carries out the consequence: a table
is read over the rows downstream, or emptied and read. The state has the reason until the next one, also after a kill.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from tidemark.captures.contract.causes import LOST_POSITION
from tidemark.captures.contract.log import LogBatch
from tidemark.captures.contract.source import Source
from tidemark.captures.contract.table_changes import Cause, Consequence
from tidemark.captures.engine.announcements import Announcements
from tidemark.captures.engine.set_aside import SetAsideTables
from tidemark.captures.scheduling.backfills import Backfills
from tidemark.captures.scheduling.reread_record import joined
from tidemark.captures.scheduling.table_backfill import TableBackfill

logger = logging.getLogger(__name__)


class Rereads:
    """Carries out the consequences of what the log says of tables.

    Args:
        source: The opened database.
    """

    def __init__(
        self, source: Source, backfills: Backfills, asides: SetAsideTables, announcements: Announcements
    ) -> None:
        self._source = source
        self._backfills = backfills
        self._asides = asides
        self._announcements = announcements
        self._found: dict[int, list[Cause]] = {}
        self._changed = False

    @property
    def pending(self) -> bool:
        """Whether some consequence is not carried out yet."""
        return bool(self._found or self._backfills.emptied)

    def changed(self) -> bool:
        """Whether the source's identity must be asked for again, since the last call: it has the tables as they are."""
        changed, self._changed = self._changed, False
        return changed

    def observe(self, batch: LogBatch) -> None:
        """Takes note of what happened."""
        for binding, causes in batch.causes.items():
            self._found.setdefault(binding, []).extend(causes)

    def lost_position(self, bindings: set[int], position: int) -> None:
        """The log is another one, which begins at ``position``: tables are emptied and read again."""
        for binding in bindings:
            backfill = self._backfills.tables[binding]
            backfill.reread = joined(None, [LOST_POSITION], self._source.format_position(position))
        self._backfills.emptied |= bindings

    def carry_out(self, position: int) -> None:
        """Begins to read tables again, and empties them downstream where necessary, at ``position`` of the log.

        Called between transactions. Raises SourceError if the source cannot be asked; then it is to be called again.
        """
        backfills = self._backfills
        found, self._found = self._found, {}
        self._changed |= bool(found)
        self._asides.withheld(set(found))
        for binding, causes in found.items():
            if not backfills.tables[binding].left_out:  # Otherwise it is read when it is back.
                self._follow(backfills.tables[binding], causes, self._source.format_position(position))
        backfills.emptied -= self._asides.withheld(backfills.emptied)
        emptied = backfills.emptied
        if not emptied:
            return
        backfills.restart(emptied, self._source.barrier())
        self._changed = True
        for binding in sorted(emptied):
            self._announcements.emptied(binding, position)
        emptied.clear()

    def _follow(self, backfill: TableBackfill, causes: Sequence[Cause], at: str) -> None:
        table, consequence = backfill.table, max(cause.consequence for cause in causes)
        if consequence is Consequence.BEGUN_AGAIN and not backfill.ranges.by_pages:
            return
        if consequence is not Consequence.EMPTIED and not table.scan.reads:
            return  # It is captured from its log only.
        backfill.reread = joined(backfill.reread, causes, at)
        logger.info("%s is read again: %s", table.name, ", ".join(cause.name for cause in causes))
        if consequence is Consequence.EMPTIED:
            self._backfills.emptied.add(table.binding)
        else:
            backfill.take_up()
            self._backfills.read_over(backfill)
