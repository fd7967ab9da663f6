"""Each rule of the backfill, switched off by replacing one small method."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from backfill.hidden import HiddenSet, HiddenTransaction
from backfill.keys import Key, TouchedKeys
from backfill.scan import TableScan
from backfill.window import Window
from tests.backfill import scripts


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
    def at_once(self: TableScan, position: int, high: int) -> bool:
        return True

    patch.setattr(TableScan, "_passed", at_once)


def _reread_nothing(patch: pytest.MonkeyPatch) -> None:
    def forget(self: TableScan, key: Key) -> bool:
        return True

    patch.setattr(TableScan, "_remember", forget)


def _forget_instead_of_cutting(patch: pytest.MonkeyPatch) -> None:
    remember = TableScan._remember

    def overlook(self: TableScan, key: Key) -> bool:
        return remember(self, key) or True

    patch.setattr(TableScan, "_remember", overlook)


def _emit_every_reread(patch: pytest.MonkeyPatch) -> None:
    def keep(self: TableScan, keys: Sequence[Key], touched: TouchedKeys) -> tuple[int, ...]:
        return tuple(range(len(keys)))

    patch.setattr(TableScan, "_keep_rereads", keep)


def _settle_by_hidden_events(patch: pytest.MonkeyPatch) -> None:
    def settles(self: Window, key: Key) -> bool:
        return not self.touched().partial(key)

    patch.setattr(Window, "settles", settles)


def _request_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TableScan, "_request", _nothing)


def _request_nothing_hidden(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TableScan, "_request_hidden", _nothing)


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
        machine=True,
    ),
    Mutant(
        "rows dropped for partial events are not read again",
        _reread_nothing,
        scripts.dropped_for_a_partial_event,
        machine=True,
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
        "full events of hidden transactions settle a reread",
        _settle_by_hidden_events,
        scripts.visible_transaction_between_two_in_doubt,
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
)
