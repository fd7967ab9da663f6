"""Each rule of the backfill, switched off by replacing one small method."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pytest

from backfill.hidden import HiddenSet, HiddenTransaction
from backfill.keys import Key, TouchedKeys
from backfill.range_scan import Range, RangeScan
from backfill.ranges import TableRanges
from backfill.rereads import RereadList
from backfill.window import Window
from captures.mysql.fence import PositionFence
from tests.backfill import scripts
from tests.backfill.reader import Questions


def _nothing(*_: object) -> None:
    """Does nothing."""


def _keep_window_empty(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Window, "observe", _nothing)
    patch.setattr(Window, "observe_all", _nothing)


def _forget_hidden_keys(patch: pytest.MonkeyPatch) -> None:
    keys_of = HiddenTransaction.keys_of

    def none_touched(self: HiddenTransaction, table: str) -> TouchedKeys | None:
        return None if keys_of(self, table) is None else TouchedKeys()

    patch.setattr(HiddenTransaction, "keys_of", none_touched)


def _share_hidden_set(patch: pytest.MonkeyPatch) -> None:
    def live(self: HiddenSet) -> Any:
        return self._transactions.values()

    patch.setattr(HiddenSet, "entries", live)


def _do_not_wait(patch: pytest.MonkeyPatch) -> None:
    def at_once(self: RangeScan, position: int, high: int) -> bool:
        return True

    patch.setattr(RangeScan, "_passed", at_once)


def _reread_nothing(patch: pytest.MonkeyPatch) -> None:
    def forget(self: RereadList, key: Key) -> bool:
        return True

    patch.setattr(RereadList, "remember", forget)


def _forget_instead_of_cutting(patch: pytest.MonkeyPatch) -> None:
    remember = RereadList.remember

    def overlook(self: RereadList, key: Key) -> bool:
        return remember(self, key) or True

    patch.setattr(RereadList, "remember", overlook)


def _emit_every_reread(patch: pytest.MonkeyPatch) -> None:
    def keep(self: RangeScan, keys: Sequence[Key], touched: TouchedKeys) -> tuple[int, ...]:
        return tuple(range(len(keys)))

    patch.setattr(RangeScan, "_keep_rereads", keep)


def _believe_earlier_transactions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(HiddenSet, "_amend", _nothing)


def _believe_transactions_before_unknown_ones(patch: pytest.MonkeyPatch) -> None:
    amended = HiddenTransaction.amended

    def keep(self: HiddenTransaction, _: object, incomplete: Mapping[str, list[Key]]) -> HiddenTransaction:
        return amended(self, frozenset(), incomplete)

    patch.setattr(HiddenTransaction, "amended", keep)


def _request_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RereadList, "request", _nothing)


def _request_nothing_hidden(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RangeScan, "_request_hidden", _nothing)


def _take_moved_rows_for_updates(patch: pytest.MonkeyPatch) -> None:
    add = TouchedKeys.add

    def as_update(self: TouchedKeys, key: Key, partial: bool, inserted: bool = False) -> None:
        add(self, key, partial)

    patch.setattr(TouchedKeys, "add", as_update)


def _overlook_truncates(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TouchedKeys, "truncate", _nothing)


def _take_unknown_keys_for_none(patch: pytest.MonkeyPatch) -> None:
    keys_of = HiddenTransaction.keys_of

    def known(self: HiddenTransaction, table: str) -> TouchedKeys | None:
        return keys_of(self, table) or TouchedKeys()

    patch.setattr(HiddenTransaction, "keys_of", known)


def _forget_keys_on_overflow(patch: pytest.MonkeyPatch) -> None:
    def forget(self: TouchedKeys) -> None:
        self._keys.clear()

    patch.setattr(TouchedKeys, "_overflow", forget)


def _forget_lost_requests(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TouchedKeys, "incomplete_forgotten", False)


def _request_nothing_during_the_first_chunk(patch: pytest.MonkeyPatch) -> None:
    def begun(self: TableRanges) -> bool:
        return [scan.range for scan in self.scans] != [Range()]

    patch.setattr(TableRanges, "_begun", property(begun))


def _forget_the_list_on_overflow(patch: pytest.MonkeyPatch) -> None:
    def forget(self: TableRanges) -> None:
        self._rereads.clear()

    patch.setattr(TableRanges, "_overflow", forget)


def _store_what_fits(patch: pytest.MonkeyPatch) -> None:
    def some(self: RereadList) -> Iterator[Key]:
        return iter(list(self._keys)[:1])

    patch.setattr(RereadList, "fits", True)
    patch.setattr(RereadList, "__iter__", some)


def _lose_what_is_split_off(patch: pytest.MonkeyPatch) -> None:
    def cut(self: TableRanges, scan: RangeScan, bounds: Sequence[Key]) -> list[RangeScan]:
        scan.range = replace(scan.range, until=[*bounds, scan.range.until][0])
        return [scan] if bounds else []

    patch.setattr(TableRanges, "split", cut)


def _finish_neighbours(patch: pytest.MonkeyPatch) -> None:
    prune = TableRanges._prune

    def more(self: TableRanges) -> None:
        for scan, following in pairwise(self._scans):
            following.finished |= scan.finished
        prune(self)

    patch.setattr(TableRanges, "_prune", more)


def _take_pages_for_keys(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TableRanges, "_may_move", False)


def _request_hidden_moves_only(patch: pytest.MonkeyPatch) -> None:
    def request(self: RangeScan, window: Window) -> None:
        for key in window.incomplete():
            self._rereads.request(key)

    patch.setattr(RangeScan, "_request_hidden", request)


def _forget_lost_partial_events(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TouchedKeys, "partial_forgotten", False)


def _go_on_in_another_file(patch: pytest.MonkeyPatch) -> None:
    def same(self: TableRanges, ranges: Sequence[Range]) -> bool:
        return False

    patch.setattr(TableRanges, "_reads_another_file", same)


def _overlook_truncates_without_keys(patch: pytest.MonkeyPatch) -> None:
    useless = RangeScan._useless

    def useful(self: RangeScan, window: Window) -> bool:
        return not self._keyless and useless(self, window)

    patch.setattr(RangeScan, "_useless", useful)


def _split_without_keys(patch: pytest.MonkeyPatch) -> None:
    def always(self: TableRanges, scan: RangeScan) -> bool:
        return True

    patch.setattr(TableRanges, "_may_split", always)


def _show_what_is_listed(patch: pytest.MonkeyPatch) -> None:
    def settled(self: PositionFence, end: int, xid: str) -> bool:
        return end > self.settled

    patch.setattr(PositionFence, "_in_doubt", settled)


def _show_what_is_committed_later(patch: pytest.MonkeyPatch) -> None:
    def listed(self: PositionFence, end: int, xid: str) -> bool:
        return xid in self.prepared

    patch.setattr(PositionFence, "_in_doubt", listed)


def _list_before_the_position(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Questions, "ORDER", ("prepared", "position", "snapshot"))


def _list_after_the_snapshot(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Questions, "ORDER", ("position", "snapshot", "prepared"))


@dataclass(frozen=True)
class Mutant:
    """A rule switched off.

    Attributes:
        name: What the mutant does.
        switch: Switches the rule off.
        script: An interleaving that shows it.
        walks: Whether random walks come upon it soon as well; otherwise it takes a rare turn of events.
        machine: Whether Hypothesis does.
    """

    name: str
    switch: Callable[[pytest.MonkeyPatch], None]
    script: Callable[[], None]
    walks: bool = True
    machine: bool = False


MUTANTS = (
    Mutant(
        "rows touched since the chunk was started are emitted",
        _keep_window_empty,
        scripts.touched_after_the_snapshot,
        machine=True,
    ),
    Mutant(
        "rows touched by hidden transactions are emitted",
        _forget_hidden_keys,
        scripts.in_the_log_before_it_is_visible,
        machine=True,
    ),
    Mutant(
        "a chunk looks at the hidden set when fenced, not when started",
        _share_hidden_set,
        scripts.purged_by_another_chunk,
    ),
    Mutant(
        "chunks do not wait for the fence's high position",
        _do_not_wait,
        scripts.visible_before_it_is_read,
    ),
    Mutant(
        "rows dropped for partial events are not read again",
        _reread_nothing,
        scripts.dropped_for_a_partial_event,
    ),
    Mutant(
        "a full reread list forgets rows instead of cutting the chunk",
        _forget_instead_of_cutting,
        scripts.more_partial_events_than_the_list_holds,
    ),
    Mutant(
        "reread rows are emitted whatever the log touched",
        _emit_every_reread,
        scripts.reread_row_touched_again,
    ),
    Mutant(
        "what a hidden transaction gave whole stays so, whatever a visible one did to it later",
        _believe_earlier_transactions,
        scripts.visible_transaction_between_two_in_doubt,
        walks=False,
    ),
    Mutant(
        "what a hidden transaction gave whole stays so, whatever an unknown one did to it later",
        _believe_transactions_before_unknown_ones,
        scripts.unknown_transaction_after_one_in_doubt,
        walks=False,
    ),
    Mutant(
        "rows moved without all columns are not read again",
        _request_nothing,
        scripts.moved_behind_the_scan,
        machine=True,
    ),
    Mutant(
        "rows moved without all columns are forgotten by a new scan",
        _request_nothing_hidden,
        scripts.moved_unseen_by_a_new_scan,
        walks=False,
    ),
    Mutant(
        "rows moved without all columns count as updated",
        _take_moved_rows_for_updates,
        scripts.moved_behind_the_scan_told_at_the_end,
    ),
    Mutant(
        "truncates are overlooked",
        _overlook_truncates,
        scripts.truncated_after_the_read,
    ),
    Mutant(
        "hidden transactions with unknown keys touched nothing",
        _take_unknown_keys_for_none,
        scripts.invisible_across_a_restart,
        machine=True,
    ),
    Mutant(
        "too many keys are forgotten",
        _forget_keys_on_overflow,
        scripts.more_keys_than_the_window_holds,
        machine=True,
    ),
    Mutant(
        "too many rows moved without all columns are forgotten",
        _forget_lost_requests,
        scripts.moved_in_a_large_transaction,
        walks=False,
    ),
    Mutant(
        "rows moved during the first chunk are not read again",
        _request_nothing_during_the_first_chunk,
        scripts.moved_during_the_first_chunk,
    ),
    Mutant(
        "a reread list that is too long is forgotten",
        _forget_the_list_on_overflow,
        scripts.moved_more_than_can_be_remembered,
    ),
    Mutant(
        "the state holds as much of the reread list as fits",
        _store_what_fits,
        scripts.moved_more_than_the_state_holds,
    ),
    Mutant(
        "a split loses what it cuts off",
        _lose_what_is_split_off,
        scripts.split_in_flight,
        machine=True,
    ),
    Mutant(
        "a range is finished with the one before it",
        _finish_neighbours,
        scripts.one_range_of_two,
    ),
    Mutant(
        "updated rows do not move in physical order",
        _take_pages_for_keys,
        scripts.moved_behind_a_physical_scan,
    ),
    Mutant(
        "rows updated unseen by a new physical scan are forgotten",
        _request_hidden_moves_only,
        scripts.moved_unseen_by_a_new_physical_scan,
        walks=False,
    ),
    Mutant(
        "too many partial events during a physical scan are forgotten",
        _forget_lost_partial_events,
        scripts.moved_behind_a_physical_scan_in_a_large_transaction,
        walks=False,
    ),
    Mutant(
        "a physical scan goes on in a rewritten file",
        _go_on_in_another_file,
        scripts.rewritten_while_nobody_looked,
        walks=False,
    ),
    Mutant(
        "truncates are overlooked where rows have no keys",
        _overlook_truncates_without_keys,
        scripts.truncated_without_keys,
    ),
    Mutant(
        "rows without keys are split under a chunk in flight",
        _split_without_keys,
        scripts.split_in_flight_without_keys,
    ),
    Mutant(
        "two-phase transactions that are being committed are visible",
        _show_what_is_listed,
        scripts.prepared_and_in_the_log_before_it_is_visible,
    ),
    Mutant(
        "two-phase transactions that are committed after the listing are visible",
        _show_what_is_committed_later,
        scripts.committed_after_the_listing,
        walks=False,
    ),
    Mutant(
        "it is asked what is prepared before the position is",
        _list_before_the_position,
        scripts.committed_between_the_first_two_questions,
        walks=False,
    ),
    Mutant(
        "it is asked what is prepared after the snapshot is opened",
        _list_after_the_snapshot,
        scripts.over_between_the_last_two_questions,
    ),
)
