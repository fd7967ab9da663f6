"""Each rule of the backfill, switched off."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.backfill import scripts, switches


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
        switches.keep_window_empty,
        scripts.touched_after_the_snapshot,
        machine=True,
    ),
    Mutant(
        "rows touched by hidden transactions are emitted",
        switches.forget_hidden_keys,
        scripts.in_the_log_before_it_is_visible,
        machine=True,
    ),
    Mutant(
        "a chunk looks at the hidden set when fenced, not when started",
        switches.share_hidden_set,
        scripts.purged_by_another_chunk,
    ),
    Mutant(
        "chunks do not wait for the fence's high position",
        switches.do_not_wait,
        scripts.visible_before_it_is_read,
    ),
    Mutant(
        "rows dropped for partial events are not read again",
        switches.reread_nothing,
        scripts.dropped_for_a_partial_event,
    ),
    Mutant(
        "a full reread list forgets rows instead of cutting the chunk",
        switches.forget_instead_of_cutting,
        scripts.more_partial_events_than_the_list_holds,
    ),
    Mutant(
        "reread rows are emitted whatever the log touched",
        switches.emit_every_reread,
        scripts.reread_row_touched_again,
    ),
    Mutant(
        "what a hidden transaction gave whole stays so, whatever a visible one did to it later",
        switches.believe_earlier_transactions,
        scripts.visible_transaction_between_two_in_doubt,
        walks=False,
    ),
    Mutant(
        "what a hidden transaction gave whole stays so, whatever an unknown one did to it later",
        switches.believe_transactions_before_unknown_ones,
        scripts.unknown_transaction_after_one_in_doubt,
        walks=False,
    ),
    Mutant(
        "rows moved without all columns are not read again",
        switches.request_nothing,
        scripts.moved_behind_the_scan,
        machine=True,
    ),
    Mutant(
        "rows moved without all columns are forgotten by a new scan",
        switches.request_nothing_hidden,
        scripts.moved_unseen_by_a_new_scan,
        walks=False,
    ),
    Mutant(
        "rows moved without all columns count as updated",
        switches.take_moved_rows_for_updates,
        scripts.moved_behind_the_scan_told_at_the_end,
    ),
    Mutant(
        "truncates are overlooked",
        switches.overlook_truncates,
        scripts.truncated_after_the_read,
    ),
    Mutant(
        "hidden transactions with unknown keys touched nothing",
        switches.take_unknown_keys_for_none,
        scripts.invisible_across_a_restart,
        machine=True,
    ),
    Mutant(
        "too many keys are forgotten",
        switches.forget_keys_on_overflow,
        scripts.more_keys_than_the_window_holds,
        machine=True,
    ),
    Mutant(
        "too many rows moved without all columns are forgotten",
        switches.forget_lost_requests,
        scripts.moved_in_a_large_transaction,
        walks=False,
    ),
    Mutant(
        "rows moved during the first chunk are not read again",
        switches.request_nothing_during_the_first_chunk,
        scripts.moved_during_the_first_chunk,
    ),
    Mutant(
        "a reread list that is too long is forgotten",
        switches.forget_the_list_on_overflow,
        scripts.moved_more_than_can_be_remembered,
    ),
    Mutant(
        "the state holds as much of the reread list as fits",
        switches.store_what_fits,
        scripts.moved_more_than_the_state_holds,
    ),
    Mutant(
        "a split loses what it cuts off",
        switches.lose_what_is_split_off,
        scripts.split_in_flight,
        machine=True,
    ),
    Mutant(
        "a range is finished with the one before it",
        switches.finish_neighbours,
        scripts.one_range_of_two,
    ),
    Mutant(
        "updated rows do not move in physical order",
        switches.take_pages_for_keys,
        scripts.moved_behind_a_physical_scan,
    ),
    Mutant(
        "rows updated unseen by a new physical scan are forgotten",
        switches.request_hidden_moves_only,
        scripts.moved_unseen_by_a_new_physical_scan,
        walks=False,
    ),
    Mutant(
        "too many partial events during a physical scan are forgotten",
        switches.forget_lost_partial_events,
        scripts.moved_behind_a_physical_scan_in_a_large_transaction,
        walks=False,
    ),
    Mutant(
        "a physical scan goes on in a rewritten file",
        switches.go_on_in_another_file,
        scripts.rewritten_while_nobody_looked,
        walks=False,
    ),
    Mutant(
        "truncates are overlooked where rows have no keys",
        switches.overlook_truncates_without_keys,
        scripts.truncated_without_keys,
    ),
    Mutant(
        "rows without keys are split under a chunk in flight",
        switches.split_without_keys,
        scripts.split_in_flight_without_keys,
    ),
    Mutant(
        "the log gives what the base of a scan without keys shows",
        switches.give_all_from_the_log,
        scripts.added_before_the_base,
    ),
    Mutant(
        "the log gives rows without keys before there is a base",
        switches.leave_out_nothing_before_the_base,
        scripts.emitted_before_the_base,
    ),
    Mutant(
        "rows without keys that are deleted ahead of the scan count less than never",
        switches.overlook_removed_rows,
        scripts.deleted_ahead_of_the_scan,
    ),
    Mutant(
        "a scan without keys is resumed after rows were deleted",
        switches.resume_changed_scans,
        scripts.deleted_before_a_crash,
    ),
    Mutant(
        "a scan without keys is resumed in a snapshot that misses deleted rows",
        switches.resume_over_changes,
        scripts.deleted_after_a_crash,
    ),
    Mutant(
        "ids of subtransactions are taken for those of others",
        switches.take_subtransactions_for_others,
        scripts.added_by_a_transaction_that_ran_at_the_base,
    ),
    Mutant(
        "two-phase transactions that are being committed are visible",
        switches.show_what_is_listed,
        scripts.prepared_and_in_the_log_before_it_is_visible,
    ),
    Mutant(
        "two-phase transactions that are committed after the listing are visible",
        switches.show_what_is_committed_later,
        scripts.committed_after_the_listing,
        walks=False,
    ),
    Mutant(
        "it is asked what is prepared before the position is",
        switches.list_before_the_position,
        scripts.committed_between_the_first_two_questions,
        walks=False,
    ),
    Mutant(
        "it is asked what is prepared after the snapshot is opened",
        switches.list_after_the_snapshot,
        scripts.over_between_the_last_two_questions,
    ),
)
