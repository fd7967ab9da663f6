"""Tables whose rows are read again because of what happened to them.

The log says what happened. Once it stands between transactions, the consequence is carried out: a table is
read over the rows downstream, or emptied and read. The state has the reason until the next one, also after a kill.

With ``on_alter: ask`` a reread because of an altered table is put off until a command. Meanwhile its changes are
captured if they can be applied to the rows downstream, by key: if it has a key, and all rows have the keys that they
had. Otherwise it is set aside, and emptied and read once it returns.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from tidemark.captures.contract.causes import LOST_POSITION, UNLIKE_BEFORE
from tidemark.captures.contract.in_words import in_words
from tidemark.captures.contract.source import Source
from tidemark.captures.contract.table_changes import Cause, Consequence
from tidemark.captures.contract.table_events import RowsAffected
from tidemark.captures.engine.announcements import Announcements
from tidemark.captures.engine.set_aside import SetAsideTables
from tidemark.captures.scheduling.backfills import Backfills
from tidemark.captures.scheduling.reread_record import begun, joined
from tidemark.captures.scheduling.table_backfill import TableBackfill
from tidemark.captures.scheduling.table_states import LeftOut, must_be_read
from tidemark.protocol.errors import UsageError

logger = logging.getLogger(__name__)


class Rereads:
    """Carries out the consequences of what the log says of tables, or puts them off.

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
        self._asks = source.options.asks
        self._found: dict[int, list[Cause]] = {}
        self._changed = False
        if not self._asks:  # Perhaps it was `ask` in the last session.
            for backfill in backfills.tables:
                self.begin(backfill)

    @property
    def pending(self) -> bool:
        """Whether some consequence is not carried out yet."""
        return bool(self._found or self._backfills.emptied)

    def changed(self) -> bool:
        """Whether the source's identity must be asked for again, since the last call: it has the tables as they are."""
        changed, self._changed = self._changed, False
        return changed

    # What the log says.

    def take(self, event: RowsAffected) -> None:
        """Takes note of what happened."""
        self._found.setdefault(event.binding, []).append(event.cause)

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
        if not table.scan.reads:
            if consequence is Consequence.EMPTIED:
                self._backfills.emptied.add(table.binding)
            return  # It is captured from its log only.
        before = backfill.reread
        parts = [part for cause in causes for part in cause.parts]
        if consequence is Consequence.PART_READ and backfill.read_parts(parts):
            if before is None or not before.put_off:
                backfill.reread = joined(before, causes, at)
            return
        if self._asks and self._may_wait(backfill, causes):
            self._put_off(backfill, causes, at)
            return
        backfill.reread = joined(before, causes, at)
        logger.info("%s is read again: %s", table.name, "; ".join(in_words(cause.name) for cause in causes))
        if (before is not None and before.put_off and before.empties) or consequence is Consequence.EMPTIED:
            self._backfills.emptied.add(table.binding)
        else:
            backfill.take_up()
            self._backfills.read_over(backfill)

    # Rereads that are put off.

    @staticmethod
    def _may_wait(backfill: TableBackfill, causes: Sequence[Cause]) -> bool:
        """Whether a reread can wait: nothing but the alteration needs it, and it would read rows a second time."""
        begun_again = any(cause.consequence is Consequence.BEGUN_AGAIN for cause in causes)
        if (begun_again and backfill.ranges.by_pages) or not all(cause.altered for cause in causes):
            return False
        return backfill.done or backfill.ranges.rows > 0

    def _put_off(self, backfill: TableBackfill, causes: Sequence[Cause], at: str) -> None:
        backfill.reread = joined(backfill.reread, causes, at, put_off=True)
        error = must_be_read(backfill.table.name, "; ".join(in_words(cause.name) for cause in backfill.reread.causes))
        if backfill.table.key and all(cause.keys_stay for cause in causes):
            logger.warning("%s", error.message, extra={"code": error.code, "remedy": error.remedy})
        else:
            self._asides.put_off(backfill, error, at)

    def begin(self, backfill: TableBackfill) -> None:
        """Begins the reread of a table that was put off, if there is one."""
        reread = backfill.reread
        if reread is None or not reread.put_off:
            return
        backfill.reread = begun(reread)
        if isinstance(backfill.capture, LeftOut):
            backfill.capture.passed = True  # It is emptied and read when it returns, also if it has missed nothing.
            return
        backfill.take_up()
        # Under tidemark's runtime the rows of before stay in any case until all are read. The events so far may be of a
        # type that the older ones do not fit: then only a new generation can have both.
        if reread.empties or self._source.options.identifies_columns or not backfill.table.key:
            self._backfills.emptied.add(backfill.table.binding)
        else:
            self._backfills.read_again(backfill)

    def defer(self, backfill: TableBackfill) -> bool:
        """The runtime wants a table to be emptied and read, since its events do not fit those before.

        Returns:
            Whether that is put off. Its events can be applied to no row until then, so it is set aside.
        """
        reread = backfill.reread
        if not self._asks or (reread is not None and not reread.put_off and not reread.ended):
            return False
        if isinstance(backfill.capture, LeftOut):
            backfill.capture.passed = True
        else:
            self._found.setdefault(backfill.table.binding, []).append(UNLIKE_BEFORE)
        return True

    def drop(self, tables: Sequence[TableBackfill]) -> None:
        """Drops the rereads of tables that are put off: a person says that the rows downstream are right.

        Raises:
            UsageError: ``TM-CAP-004`` one has none; ``TM-CAP-009`` rows downstream may no longer exist.
        """
        for backfill in tables:
            if backfill.reread is None or not backfill.reread.put_off:
                raise UsageError("TM-CAP-004", f"no reread of {backfill.table.name} is put off")
            if backfill.reread.empties or backfill.left_out:
                causes = "; ".join(cause.words or cause.name for cause in backfill.reread.causes)
                raise UsageError("TM-CAP-009", f"{backfill.table.name} must be read again: {causes}")
        for backfill in tables:
            backfill.reread = None
