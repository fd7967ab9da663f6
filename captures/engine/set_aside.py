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
from tidemark.captures.scheduling import table_states
from tidemark.captures.scheduling.reread_record import begun, joined
from tidemark.captures.scheduling.state import CaptureState
from tidemark.captures.scheduling.table_backfill import TableBackfill
from tidemark.captures.scheduling.table_states import (
    Away,
    Captured,
    LeftOut,
    OnCommand,
    WithAnotherPolicy,
    must_be_read,
    stays_left_out,
)
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
        if stays_left_out(table, stored, asks=source.options.asks):
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
        states = (table.capture for table in self._tables)
        return all(state.settled if isinstance(state, LeftOut) else isinstance(state, Captured) for state in states)

    def changed(self) -> bool:
        """Whether the state has changed since the last call."""
        changed, self._changed = self._changed, False
        return changed

    def begin(self, since: str) -> None:
        """At the start of a session, at ``since`` of the log: leaves out tables that cannot be captured."""
        for table in self._tables:
            state = table.capture
            if isinstance(state, LeftOut) and not state.since:
                state.since = since
                if not isinstance(state.returns, OnCommand):
                    self._tell_away(table, state.error)

    def take(self, event: CaptureEvent, position: int) -> None:
        """Takes note of what the log, read to ``position``, or a chunk says of a table."""
        table = self._tables[event.binding]
        match event:
            case SetAside() | WentAway(error=UnfitValues()):
                # A chunk that finds values in the table passes over no change of it.
                self._set_aside(table, event.error, position, passed=isinstance(event, SetAside))
            case WentAway():
                if isinstance(table.capture, Captured):  # Otherwise its grace period has begun, or it is left out.
                    table.capture = table.capture.go_away(event.error, self._clock())
                    self._tell_away(table, event.error)
            case ChangesPassed():
                self.passed([event.binding])

    def _set_aside(self, table: TableBackfill, error: SourceError, position: int, *, passed: bool) -> None:
        """Leaves a table out from ``position`` of the log on.

        Args:
            passed: The log has already skipped some of its changes.
        """
        values = isinstance(error, UnfitValues)
        if isinstance(table.capture, Captured) and not values:
            self._tell_away(table, error)
        state = self._left_out(table, error, self._source.format_position(position))
        if values:
            state.settles_at, state.returns = 0.0, WithAnotherPolicy(table.table.policy)
        state.passed |= passed

    def put_off(self, table: TableBackfill, error: SourceError, since: str) -> None:
        """Leaves a table out from ``since`` of the log on, until a command has it read again."""
        state = self._left_out(table, error, since)
        state.settles_at, state.returns, state.wanted = 0.0, OnCommand(), False
        state.passed = self._changed = True
        state.settled = False
        self._settle(table, state, self._clock())

    def passed(self, bindings: Iterable[int]) -> None:
        """The log had changes of these tables, which were skipped."""
        for binding in bindings:
            state = self._tables[binding].capture
            if isinstance(state, LeftOut) and not state.passed:
                state.passed = self._changed = True

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
        for table, state in self._due(now):
            if isinstance(state, Away):
                state.look_at = now + GRACE_LOOK_SECONDS
                self._look(table, state, position, now)
                continue
            state.look_at = now + (LOOK_SECONDS if state.settled else GRACE_LOOK_SECONDS)
            if state.waits(table.table.policy, asks=self._source.options.asks):
                self._settle(table, state, now)
            elif self._regain(table, state, position, now):
                back.append(table.table.binding)
        return back

    def _due(self, now: float) -> list[tuple[TableBackfill, Away | LeftOut]]:
        """The next tables to check, each in its turn."""
        missing = [(table, table.capture) for table in self._tables if not isinstance(table.capture, Captured)]
        due = [(table, state) for table, state in missing if now >= state.look_at]
        due.sort(key=lambda each: (each[0].table.binding < self._next, each[0].table.binding))
        if chosen := due[:LOOKS]:
            self._next = chosen[-1][0].table.binding + 1
        return chosen

    def _look(self, table: TableBackfill, away: Away, position: int, now: float) -> None:
        """Decides about a table whose changes are still captured: it is kept, or left out from now on."""
        error = self._source.unfit(table.table.binding)
        if error is None:
            table.capture = away.return_in_time()
            table.not_before = 0.0
            return
        away.error = error
        if now >= away.settles_at:
            self._settle(table, self._left_out(table, error, self._source.format_position(position)), now)

    def _regain(self, table: TableBackfill, state: LeftOut, position: int, now: float) -> bool:
        binding = table.table.binding
        regained = self._source.regain(binding, position, asked=state.asked)
        if regained is None:
            return False  # First the log must reach the position at which the table became what it is now.
        if isinstance(regained, SourceError):
            state.error, state.asked, state.wanted = regained, False, False
            self._settle(table, state, now)
            return False
        fresh = regained.table
        bad = isinstance(state.returns, WithAnotherPolicy)
        same = not state.passed and not bad and regained.same
        same = same and fresh.is_still(state.kept.get("identity"))
        if not same and not fresh.scan.reads:
            logger.warning("%s is captured only from its log: the changes in between are lost", fresh.name)
            same = True
        again = not same and bool(state.kept.get("identity"))  # Otherwise it was never captured.
        if again and not bad and not state.wanted and self._source.options.asks:
            what = "it was set aside, and changes of it were missed, or another table has its name"
            self._source.leave_out(binding, fresh.identity)
            if table.reread is None or not table.reread.put_off:
                table.reread = joined(table.reread, [CHANGES_PASSED], state.since, put_off=True)
            self.put_off(table, must_be_read(fresh.name, what), state.since)
            return False
        if again:
            table.reread = begun(table.reread) or joined(None, [CHANGES_PASSED], state.since)
        how = "resumes where it stopped" if same else "is emptied and read again"
        logger.info("%s can be captured again; it %s", fresh.name, how, extra={"since": state.since})
        table.come_back(state.regain(), fresh, state.kept if same else None)
        self._changed = True
        return True

    def _left_out(self, table: TableBackfill, error: SourceError, since: str) -> LeftOut:
        """Leaves a table out from ``since`` of the log on, if it is not, because of ``error``."""
        state = table.capture
        if isinstance(state, Captured):
            state = state.go_away(error, self._clock())
        if isinstance(state, Away):
            table.put_off_all(0.0)
            table.capture = state = state.leave_out(table.to_state(), since)
            self._source.leave_out(table.table.binding, table.table.identity)
            self._changed = True
        state.error = error
        return state

    @staticmethod
    def _settle(table: TableBackfill, state: LeftOut, now: float) -> None:
        if state.settled or now < state.settles_at:
            return
        state.settled = True
        logger.warning(
            "%s; %s is set aside: its capture stops, the other tables continue. It returns %s",
            state.error.message,
            table.table.name,
            state.returns.text,
            extra={"code": state.error.code, "remedy": state.error.remedy},
        )

    @staticmethod
    def _tell_away(table: TableBackfill, error: SourceError) -> None:
        logger.warning(
            "%s; unless this is fixed within %.0f s, %s is set aside, and the other tables continue",
            error.message,
            table_states.GRACE_SECONDS,
            table.table.name,
            extra={"code": error.code, "remedy": error.remedy},
        )
