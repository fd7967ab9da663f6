"""Tables that are set aside: they are not captured, and all others continue.

The log, a chunk, the watch of the catalog, or the source at its start may report that a table cannot be captured. One
rule decides the consequence, for a session that begins and for one that runs. A missing table has ``GRACE_SECONDS`` to
return, because a swap by rename takes a moment; a value that cannot be captured has no grace period. Then the log skips
the table, and the state holds its error. The table is checked regularly and on command, and returns once it can be
captured. If it is the same table and none of its changes was skipped, its backfill resumes. Otherwise it is emptied
downstream and read again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

from tidemark.captures.contract.causes import CHANGES_PASSED
from tidemark.captures.contract.errors import UnfitValues
from tidemark.captures.contract.source import Source
from tidemark.captures.contract.table_events import CaptureEvent, ChangesPassed, SetAside, WentAway
from tidemark.captures.scheduling import set_aside_record as timing
from tidemark.captures.scheduling.reread_record import begun, joined
from tidemark.captures.scheduling.set_aside_record import Aside, must_be_read, stays_aside
from tidemark.captures.scheduling.state import CaptureState
from tidemark.captures.scheduling.table_backfill import TableBackfill
from tidemark.protocol.errors import SourceError

logger = logging.getLogger(__name__)

LOOK_SECONDS = 3.0
"""How often to check whether a table can be captured again."""

GRACE_LOOK_SECONDS = 0.5
"""The same, during its grace period."""

LOOKS = 10
"""The most tables checked at once: each check takes a few queries, and the log waits meanwhile."""


def leave_out(source: Source, state: CaptureState) -> None:
    """Tells an opened source which tables cannot be captured, or could not in the last session."""
    for table in source.tables:
        stored = state.binding(table.state_key)
        if stays_aside(table, stored, asks=source.options.asks):
            source.leave_out(table.binding, (stored or {}).get("identity", ""))


class SetAsideTables:
    """Sets tables aside, and captures them again.

    Args:
        source: The opened database.
        tables: The backfills of all tables.
        clock: A clock in seconds that never goes back.
    """

    def __init__(self, source: Source, tables: Sequence[TableBackfill], clock: Callable[[], float]) -> None:
        self._source = source
        self._tables = tables
        self._clock = clock
        self._next = 0
        self._changed = False

    @property
    def settled(self) -> bool:
        """Whether no table is pending: each is captured, or set aside."""
        return all(table.aside is None or table.aside.settled for table in self._tables)

    def changed(self) -> bool:
        """Whether the state has changed since the last call."""
        changed, self._changed = self._changed, False
        return changed

    def begin(self, since: str) -> None:
        """At the start of a session, at ``since`` of the log: leaves out tables that cannot be captured."""
        for table in self._tables:
            if table.aside is not None and not table.aside.since:
                table.aside.since = since
                if not table.aside.put_off:
                    self._tell_away(table, table.aside)

    def take(self, event: CaptureEvent, position: int) -> None:
        """Takes note of what the log, read to ``position``, or a chunk says of a table."""
        table = self._tables[event.binding]
        match event:
            case SetAside() | WentAway(error=UnfitValues()):
                # A chunk that finds values in the table passes over no change of it.
                self._set_aside(table, event.error, position, passed=isinstance(event, SetAside))
            case WentAway():
                if table.aside is None:  # Otherwise its grace period has begun, or it is left out.
                    table.aside = Aside(event.error, self._clock() + timing.GRACE_SECONDS)
                    self._tell_away(table, table.aside)
            case ChangesPassed():
                self.passed([event.binding])

    def _set_aside(self, table: TableBackfill, error: SourceError, position: int, *, passed: bool) -> None:
        """Leaves a table out from ``position`` of the log on.

        Args:
            passed: The log has already skipped some of its changes.
        """
        values = isinstance(error, UnfitValues)
        if table.aside is None:
            table.aside = Aside(error, self._clock() + (0.0 if values else timing.GRACE_SECONDS))
            if not values:
                self._tell_away(table, table.aside)
        aside = table.aside
        aside.error = error
        if values:
            aside.settles_at, aside.policy = 0.0, table.table.policy
        self._leave_out(table, aside, self._source.format_position(position))
        aside.passed |= passed

    def put_off(self, table: TableBackfill, error: SourceError, since: str) -> None:
        """Leaves a table out from ``since`` of the log on, until a command has it read again."""
        if table.aside is None:
            table.aside = Aside(error, 0.0)
        aside = table.aside
        aside.error, aside.settles_at, aside.put_off, aside.wanted = error, 0.0, True, False
        self._leave_out(table, aside, since)
        aside.passed = self._changed = True
        aside.settled = False
        self._settle(table, aside, self._clock())

    def passed(self, bindings: Iterable[int]) -> None:
        """The log had changes of these tables, which were skipped."""
        for binding in bindings:
            aside = self._tables[binding].aside
            if aside is not None and not aside.passed:
                aside.passed = self._changed = True

    def withheld(self, bindings: set[int]) -> set[int]:
        """Those of ``bindings`` that are left out: they are emptied when they return, if necessary."""
        left_out = {binding for binding in bindings if self._tables[binding].left_out}
        self.passed(left_out)
        return left_out

    def attend(self, position: int) -> list[int]:
        """Checks the tables that are not captured. Between transactions, with the log read to ``position``.

        Returns:
            The tables that are captured again. Their schemas must be announced.

        Raises:
            SourceError: The source cannot be queried.
        """
        now = self._clock()
        back = []
        for table in self._due(now):
            aside = table.aside
            assert aside is not None
            aside.look_at = now + (LOOK_SECONDS if aside.settled else GRACE_LOOK_SECONDS)
            if not aside.left_out:
                self._look(table, aside, position, now)
            elif aside.waits(table.table.policy, asks=self._source.options.asks):
                self._settle(table, aside, now)
            elif self._regain(table, aside, position, now):
                back.append(table.table.binding)
        return back

    def _due(self, now: float) -> list[TableBackfill]:
        """The next tables to check, each in its turn."""
        due = [table for table in self._tables if table.aside is not None and now >= table.aside.look_at]
        later = [table for table in due if table.table.binding >= self._next]
        chosen = [*later, *(table for table in due if table.table.binding < self._next)][:LOOKS]
        if chosen:
            self._next = chosen[-1].table.binding + 1
        return chosen

    def _look(self, table: TableBackfill, aside: Aside, position: int, now: float) -> None:
        """Decides about a table whose changes are still captured: it is kept, or left out from now on."""
        error = self._source.unfit(table.table.binding)
        if error is None:
            table.aside = None
            table.not_before = 0.0
            return
        aside.error = error
        if now >= aside.settles_at:
            self._leave_out(table, aside, self._source.format_position(position))
            self._settle(table, aside, now)

    def _regain(self, table: TableBackfill, aside: Aside, position: int, now: float) -> bool:
        binding = table.table.binding
        regained = self._source.regain(binding, position, asked=aside.asked)
        if regained is None:
            return False  # First the log must reach the position at which the table became what it is now.
        if isinstance(regained, SourceError):
            aside.error, aside.asked, aside.wanted = regained, False, False
            self._settle(table, aside, now)
            return False
        fresh = regained.table
        same = not aside.passed and aside.policy is None and regained.same
        same = same and fresh.is_still(aside.kept.get("identity"))
        if not same and not fresh.scan.reads:
            logger.warning("%s is captured only from its log: the changes in between are lost", fresh.name)
            same = True
        again = not same and bool(aside.kept.get("identity"))  # Otherwise it was never captured.
        if again and aside.policy is None and not aside.wanted and self._source.options.asks:
            what = "it was set aside, and changes of it were missed, or another table has its name"
            self._source.leave_out(binding, fresh.identity)
            if table.reread is None or not table.reread.put_off:
                table.reread = joined(table.reread, [CHANGES_PASSED], aside.since, put_off=True)
            self.put_off(table, must_be_read(fresh.name, what), aside.since)
            return False
        if again:
            table.reread = begun(table.reread) or joined(None, [CHANGES_PASSED], aside.since)
        how = "resumes where it stopped" if same else "is emptied and read again"
        logger.info("%s can be captured again; it %s", fresh.name, how, extra={"since": aside.since})
        table.come_back(fresh, aside.kept if same else None)
        self._changed = True
        return True

    def _leave_out(self, table: TableBackfill, aside: Aside, since: str) -> None:
        if aside.left_out:
            return
        table.put_off_all(0.0)
        aside.kept, aside.since, aside.left_out = table.to_state(), since, True
        self._source.leave_out(table.table.binding, table.table.identity)
        self._changed = True

    @staticmethod
    def _settle(table: TableBackfill, aside: Aside, now: float) -> None:
        if aside.settled or now < aside.settles_at:
            return
        aside.settled = True
        then = "once the cause is fixed" if aside.policy is None else "with another policy, or on `tidemark resume`"
        if aside.put_off:
            then = "on `tidemark resume`"
        logger.warning(
            "%s; %s is set aside: its capture stops, the other tables continue. It returns %s",
            aside.error.message,
            table.table.name,
            then,
            extra={"code": aside.error.code, "remedy": aside.error.remedy},
        )

    @staticmethod
    def _tell_away(table: TableBackfill, aside: Aside) -> None:
        logger.warning(
            "%s; unless this is fixed within %.0f s, %s is set aside, and the other tables continue",
            aside.error.message,
            timing.GRACE_SECONDS,
            table.table.name,
            extra={"code": aside.error.code, "remedy": aside.error.remedy},
        )
