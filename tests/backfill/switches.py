"""What switches off each rule of the backfill, by replacing one small method."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from tests.backfill.reader import Questions, SeenBase
from tidemark.backfill.counted_rows import Base, CountedRows
from tidemark.backfill.fence import TransactionId
from tidemark.backfill.hidden import HiddenSet, HiddenTransaction
from tidemark.backfill.keys import Key, TouchedKeys
from tidemark.backfill.range_scan import Range, RangeScan
from tidemark.backfill.ranges import TableRanges
from tidemark.backfill.rereads import RereadList
from tidemark.backfill.window import Window
from tidemark.captures.mysql.chunks.fence import PositionFence


def _nothing(*_: object) -> None:
    """Does nothing."""


def _never(_: object) -> bool:
    """Whether something happened."""
    return False


def keep_window_empty(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Window, "observe_all", _nothing)


def forget_hidden_keys(patch: pytest.MonkeyPatch) -> None:
    keys_of = HiddenTransaction.keys_of

    def none_touched(self: HiddenTransaction, table: str) -> TouchedKeys | None:
        return None if keys_of(self, table) is None else TouchedKeys()

    patch.setattr(HiddenTransaction, "keys_of", none_touched)


def share_hidden_set(patch: pytest.MonkeyPatch) -> None:
    def live(self: HiddenSet) -> Any:
        return self._transactions.values()

    patch.setattr(HiddenSet, "entries", live)


def do_not_wait(patch: pytest.MonkeyPatch) -> None:
    def at_once(self: RangeScan, position: int, high: int) -> bool:
        return True

    patch.setattr(RangeScan, "_passed", at_once)


def reread_nothing(patch: pytest.MonkeyPatch) -> None:
    def forget(self: RereadList, key: Key) -> bool:
        return True

    patch.setattr(RereadList, "remember", forget)


def forget_instead_of_cutting(patch: pytest.MonkeyPatch) -> None:
    remember = RereadList.remember

    def overlook(self: RereadList, key: Key) -> bool:
        return remember(self, key) or True

    patch.setattr(RereadList, "remember", overlook)


def emit_every_reread(patch: pytest.MonkeyPatch) -> None:
    def keep(self: RangeScan, keys: Sequence[Key], touched: TouchedKeys) -> tuple[int, ...]:
        return tuple(range(len(keys)))

    patch.setattr(RangeScan, "_keep_rereads", keep)


def believe_earlier_transactions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(HiddenSet, "_amend", _nothing)


def believe_transactions_before_unknown_ones(patch: pytest.MonkeyPatch) -> None:
    amended = HiddenTransaction.amended

    def keep(self: HiddenTransaction, _: object, incomplete: Mapping[str, list[Key]]) -> HiddenTransaction:
        return amended(self, frozenset(), incomplete)

    patch.setattr(HiddenTransaction, "amended", keep)


def request_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RereadList, "request", _nothing)


def request_nothing_hidden(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RangeScan, "_request_hidden", _nothing)


def take_moved_rows_for_updates(patch: pytest.MonkeyPatch) -> None:
    add = TouchedKeys.add

    def as_update(self: TouchedKeys, key: Key, partial: bool, inserted: bool = False) -> None:
        add(self, key, partial)

    patch.setattr(TouchedKeys, "add", as_update)


def overlook_truncates(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TouchedKeys, "truncate", _nothing)


def take_unknown_keys_for_none(patch: pytest.MonkeyPatch) -> None:
    keys_of = HiddenTransaction.keys_of

    def known(self: HiddenTransaction, table: str) -> TouchedKeys | None:
        return keys_of(self, table) or TouchedKeys()

    patch.setattr(HiddenTransaction, "keys_of", known)


def forget_keys_on_overflow(patch: pytest.MonkeyPatch) -> None:
    def forget(self: TouchedKeys) -> None:
        self._keys.clear()

    patch.setattr(TouchedKeys, "_overflow", forget)


def forget_lost_requests(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TouchedKeys, "incomplete_forgotten", property(_never, _nothing))


def request_nothing_during_the_first_chunk(patch: pytest.MonkeyPatch) -> None:
    def begun(self: TableRanges) -> bool:
        return [scan.range for scan in self.scans] != [Range()]

    patch.setattr(TableRanges, "_begun", property(begun))


def forget_the_list_on_overflow(patch: pytest.MonkeyPatch) -> None:
    def forget(self: TableRanges) -> None:
        self._rereads.clear()

    patch.setattr(TableRanges, "_overflow", forget)


def store_what_fits(patch: pytest.MonkeyPatch) -> None:
    def some(self: RereadList) -> Iterator[Key]:
        return iter(list(self._keys)[:1])

    patch.setattr(RereadList, "fits", True)
    patch.setattr(RereadList, "__iter__", some)


def lose_what_is_split_off(patch: pytest.MonkeyPatch) -> None:
    def cut(self: TableRanges, scan: RangeScan, bounds: Sequence[Key]) -> list[RangeScan]:
        scan.range = replace(scan.range, until=[*bounds, scan.range.until][0])
        return [scan] if bounds else []

    patch.setattr(TableRanges, "split", cut)


def finish_neighbours(patch: pytest.MonkeyPatch) -> None:
    prune = TableRanges._prune

    def more(self: TableRanges) -> None:
        for scan, following in pairwise(self._scans):
            following.finished |= scan.finished
        prune(self)

    patch.setattr(TableRanges, "_prune", more)


def take_pages_for_keys(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TableRanges, "_may_move", False)


def request_hidden_moves_only(patch: pytest.MonkeyPatch) -> None:
    def request(self: RangeScan, window: Window) -> None:
        for key in window.incomplete():
            self._rereads.request(key)

    patch.setattr(RangeScan, "_request_hidden", request)


def forget_lost_partial_events(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TouchedKeys, "partial_forgotten", property(_never, _nothing))


def go_on_in_another_file(patch: pytest.MonkeyPatch) -> None:
    def same(self: TableRanges, ranges: Sequence[Range]) -> bool:
        return False

    patch.setattr(TableRanges, "_reads_another_file", same)


def overlook_truncates_without_keys(patch: pytest.MonkeyPatch) -> None:
    useless = RangeScan._useless

    def useful(self: RangeScan, window: Window) -> bool:
        return not self._keyless and useless(self, window)

    patch.setattr(RangeScan, "_useless", useful)


def split_without_keys(patch: pytest.MonkeyPatch) -> None:
    def always(self: TableRanges, scan: RangeScan) -> bool:
        return True

    patch.setattr(TableRanges, "_may_split", always)


def show_what_is_listed(patch: pytest.MonkeyPatch) -> None:
    def settled(self: PositionFence, end: int, xid: str) -> bool:
        return end > self.settled

    patch.setattr(PositionFence, "_in_doubt", settled)


def show_what_is_committed_later(patch: pytest.MonkeyPatch) -> None:
    def listed(self: PositionFence, end: int, xid: str) -> bool:
        return xid in self.prepared

    patch.setattr(PositionFence, "_in_doubt", listed)


def list_before_the_position(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Questions, "ORDER", ("prepared", "position", "snapshot"))


def list_after_the_snapshot(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Questions, "ORDER", ("position", "snapshot", "prepared"))


# Rows without keys.


def give_all_from_the_log(patch: pytest.MonkeyPatch) -> None:
    # A change that the base shows is not looked for: it would count as one of a transaction that ran at the base.
    patch.setattr(CountedRows, "from_scan", lambda self, txn, position: self.base is None)
    patch.setattr(CountedRows, "follow", lambda self, txn, removes: True)


def leave_out_nothing_before_the_base(patch: pytest.MonkeyPatch) -> None:
    from_scan = CountedRows.from_scan

    def always(self: CountedRows[Base], txn: TransactionId, position: int) -> bool | None:
        return False if self.base is None else from_scan(self, txn, position)

    def follow_it(self: CountedRows[Base], txn: TransactionId, *, removes: bool) -> bool:
        return True if self.base is None else follow(self, txn, removes=removes)

    follow = CountedRows.follow
    patch.setattr(CountedRows, "from_scan", always)
    patch.setattr(CountedRows, "follow", follow_it)


def _follow(patch: pytest.MonkeyPatch, *, removes: bool | None = None, held: bool = False, kept: bool = False) -> None:
    """Changes how the log's changes are followed.

    Args:
        removes: Taken in place of what the change does.
        held: Every snapshot counts as held, with no regard to what it hides.
        kept: The state does not say that rows were changed.
    """
    follow = CountedRows.follow

    def followed(self: CountedRows[Base], txn: TransactionId, **change: bool) -> bool:
        right = follow(self, txn, removes=change["removes"] if removes is None else removes)
        if kept:
            self.changed = False
        return right or held

    patch.setattr(CountedRows, "follow", followed)


def overlook_removed_rows(patch: pytest.MonkeyPatch) -> None:
    _follow(patch, removes=False)


def resume_changed_scans(patch: pytest.MonkeyPatch) -> None:
    _follow(patch, kept=True)


def resume_over_changes(patch: pytest.MonkeyPatch) -> None:
    _follow(patch, held=True)


def take_subtransactions_for_others(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SeenBase, "ran", lambda self, txn: False)
