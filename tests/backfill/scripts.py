"""Interleavings written by hand, one for each rule: the shortest way to the fault that the rule is there to prevent."""

from __future__ import annotations

from dataclasses import replace

from tests.backfill.database import KEYLESS, Change, Wish
from tests.backfill.world import SMALL, World


def _commit(world: World, *wishes: tuple[Change, int] | tuple[Change, int, int], oldest: bool = False) -> None:
    """A transaction in table ``a``: changes, their keys, and the keys that a MOVE moves to. Rows come to page 0."""
    world.database.commit([Wish("a", *wish) for wish in wishes], oldest=oldest)


def _steps(world: World, steps: int, table: str = "a", *, limit: int = 2, conservative: bool = False) -> None:
    """A chunk is started, opens its snapshot, takes the fence, reads, and is emitted: five steps."""
    for _ in range(steps):
        world.chunk(table, limit, conservative=conservative)


def touched_after_the_snapshot() -> None:
    world = World([1])
    _steps(world, 2)
    _commit(world, (Change.WRITE, 1))
    world.read_log(1)
    _steps(world, 3)
    world.quiesce()


def in_the_log_before_it_is_visible() -> None:
    world = World([1])
    _commit(world, (Change.WRITE, 1))
    world.read_log(1)
    _steps(world, 5)
    world.quiesce()


def purged_by_another_chunk() -> None:
    world = World([1])
    _commit(world, (Change.WRITE, 1))
    world.read_log(1)
    _steps(world, 2)
    world.database.reveal(0)
    _steps(world, 3, "b")
    assert not len(world.hidden)
    _steps(world, 3)
    world.quiesce()


def visible_before_it_is_read() -> None:
    world = World([1])
    for _ in range(2):
        _commit(world, (Change.WRITE, 1))
        world.database.reveal(0)
    _steps(world, 5)
    world.quiesce()


def dropped_for_a_partial_event() -> None:
    world = World([1])
    _steps(world, 2)
    _commit(world, (Change.UPDATE, 1))
    world.read_log(1)
    _steps(world, 3)
    world.quiesce()


def more_partial_events_than_the_list_holds() -> None:
    world = World([1, 2], replace(SMALL, reread_bytes=8))
    _steps(world, 2)
    _commit(world, (Change.UPDATE, 1), (Change.UPDATE, 2))
    world.read_log(2)
    _steps(world, 3)
    world.quiesce()


def reread_row_touched_again() -> None:
    world = World([1])
    _steps(world, 2)
    _commit(world, (Change.UPDATE, 1))
    world.read_log(1)
    _steps(world, 3)
    world.database.reveal(0)
    _steps(world, 2)
    _commit(world, (Change.WRITE, 1))
    world.read_log(1)
    _steps(world, 3)
    world.quiesce()


def visible_transaction_between_two_in_doubt() -> None:
    """On a standby ids and the log are in different orders, so an older and a newer event may be in doubt around a sure
    one. Key 2: written and deleted (in doubt), another row moves there without its large column (sure), updated (in
    doubt).
    """
    world = World([1, 2], replace(SMALL, reread_bytes=16))
    database = world.database
    database.begin()
    database.begin()
    _commit(world, (Change.WRITE, 2), (Change.DELETE, 2))
    database.reveal(0)
    _commit(world, (Change.MOVE_PARTIAL, 1, 2), oldest=True)
    database.reveal(0)
    _commit(world, (Change.UPDATE, 2))
    database.reveal(0)
    world.read_log(5)
    _steps(world, 5, conservative=True)
    world.quiesce()


def unknown_transaction_after_one_in_doubt() -> None:
    world = World([1, 2])
    database = world.database
    database.begin()
    database.begin()
    _commit(world, (Change.WRITE, 2), (Change.DELETE, 2))
    database.reveal(0)
    _commit(world, (Change.MOVE_PARTIAL, 1, 2), oldest=True)
    database.reveal(0)
    world.read_log(2)
    world.read_log(2, frozenset())
    _steps(world, 5, conservative=True)
    world.quiesce()


def moved_behind_the_scan(*, whole_transactions: bool = False) -> None:
    world = World([2, 3, 4], whole_transactions=whole_transactions)
    _steps(world, 5)
    _commit(world, (Change.MOVE_PARTIAL, 4, 1))
    world.read_log(2)
    world.database.reveal(0)
    _steps(world, 5)
    world.quiesce()


def moved_behind_the_scan_told_at_the_end() -> None:
    moved_behind_the_scan(whole_transactions=True)


def moved_unseen_by_a_new_scan() -> None:
    world = World([1])
    _commit(world, (Change.MOVE_PARTIAL, 1, 2))
    world.read_log(2)
    world.restart("a")
    _steps(world, 5)
    world.quiesce()


def truncated_after_the_read() -> None:
    world = World([1])
    _steps(world, 4)
    _commit(world, (Change.TRUNCATE, 0))
    world.read_log(1)
    _steps(world, 1)
    world.quiesce()


def invisible_across_a_restart() -> None:
    world = World([1])
    _commit(world, (Change.WRITE, 1))
    world.read_log(1)
    world.checkpoint()
    world.crash()
    _steps(world, 5)
    world.quiesce()


def more_keys_than_the_window_holds() -> None:
    world = World([1, 2, 3], replace(SMALL, window=2))
    _steps(world, 2)
    _commit(world, (Change.WRITE, 1), (Change.WRITE, 2), (Change.WRITE, 3))
    world.read_log(3)
    _steps(world, 3)
    world.quiesce()


def moved_in_a_large_transaction() -> None:
    world = World([2, 3, 4, 5], replace(SMALL, window=2), whole_transactions=True)
    _steps(world, 5)
    _commit(world, (Change.MOVE_PARTIAL, 5, 1), (Change.WRITE, 4))
    world.read_log(3)
    world.database.reveal(0)
    _steps(world, 5)
    world.quiesce()


def moved_during_the_first_chunk() -> None:
    world = World([2, 3])
    _steps(world, 2)
    _commit(world, (Change.MOVE_PARTIAL, 3, 1))
    world.read_log(2)
    world.database.reveal(0)
    _steps(world, 3, limit=3)
    world.quiesce()


def moved_more_than_can_be_remembered() -> None:
    world = World([3, 4, 5, 6], replace(SMALL, reread_keys=1))
    _steps(world, 5)
    _commit(world, (Change.MOVE_PARTIAL, 5, 1), (Change.MOVE_PARTIAL, 6, 2))
    world.read_log(4)
    world.database.reveal(0)
    world.quiesce()


def moved_more_than_the_state_holds() -> None:
    world = World([3, 4, 5, 6], replace(SMALL, reread_keys=8))
    _steps(world, 5)
    _commit(world, (Change.MOVE_PARTIAL, 5, 1), (Change.MOVE_PARTIAL, 6, 2))
    world.read_log(4)
    world.database.reveal(0)
    world.checkpoint()
    world.crash()
    world.quiesce()


# Several ranges.


def split_in_flight() -> None:
    world = World([1, 2, 3, 4, 5, 6])
    _steps(world, 4)
    world.split("a", 0, [3, 5])
    _steps(world, 1)
    world.quiesce()


def one_range_of_two() -> None:
    world = World([1, 2, 3, 4])
    world.split("a", 0, [2])
    _steps(world, 5, limit=3)
    world.quiesce()


# Scans by pages. Row 5 lies on page 0, 2 on 1, 4 on 2, 1 on 3, 3 on 4; one chunk is of two pages.


def moved_behind_a_physical_scan() -> None:
    world = World([3, 5], physical="a")
    _steps(world, 5)
    _commit(world, (Change.UPDATE, 3))
    world.read_log(1)
    world.database.reveal(0)
    world.quiesce()


def moved_unseen_by_a_new_physical_scan() -> None:
    world = World([3, 5], physical="a")
    _commit(world, (Change.UPDATE, 3))
    world.read_log(1)
    world.restart("a")
    _steps(world, 5)
    world.database.reveal(0)
    world.quiesce()


def moved_behind_a_physical_scan_in_a_large_transaction() -> None:
    world = World([1, 3, 5], replace(SMALL, window=2), physical="a", whole_transactions=True)
    _steps(world, 5)
    _commit(world, (Change.UPDATE, 3), (Change.WRITE, 5), (Change.WRITE, 1))
    world.read_log(3)
    world.database.reveal(0)
    world.quiesce()


def rewritten_while_nobody_looked() -> None:
    world = World([3, 5], physical="a")
    _steps(world, 5)
    world.checkpoint()
    world.database.rewrite("a")
    world.crash()
    world.quiesce()


# Rows without keys.


def truncated_without_keys() -> None:
    world = World([1])
    _steps(world, 4, KEYLESS, limit=5)
    world.database.commit([Wish(KEYLESS, Change.TRUNCATE, 0)])
    world.read_log(1)
    _steps(world, 1, KEYLESS)
    world.quiesce()


def split_in_flight_without_keys() -> None:
    world = World([2, 5])
    _steps(world, 4, KEYLESS)
    world.split(KEYLESS, 0, [1])
    _steps(world, 1, KEYLESS)
    world.quiesce()


def _change_without_keys(world: World, change: Change, page: int = 0, *, oldest: bool = False) -> None:
    """A row is added to a page, or the row with the smallest number is deleted; everybody sees it at once."""
    world.database.commit([Wish(KEYLESS, change, 0, page=page)], oldest=oldest)
    world.database.reveal(0)


def added_before_the_base() -> None:
    world = World([1])
    _change_without_keys(world, Change.WRITE)
    _steps(world, 5, KEYLESS)
    world.quiesce()


def emitted_before_the_base() -> None:
    world = World([1])
    world.database.commit([Wish(KEYLESS, Change.WRITE, 0)])
    world.read_log(1)
    world.database.reveal(0)
    world.quiesce()


def deleted_ahead_of_the_scan() -> None:
    world = World([1, 5])  # In pages 3 and 0.
    _steps(world, 5, KEYLESS, limit=1)
    _change_without_keys(world, Change.DELETE)
    world.quiesce()


def deleted_before_a_crash() -> None:
    world = World([1, 5])
    world.hold = True
    _steps(world, 5, KEYLESS, limit=1)
    _change_without_keys(world, Change.DELETE)
    world.read_log(1)
    world.checkpoint()
    world.crash()
    world.quiesce()


def deleted_after_a_crash() -> None:
    world = World([1, 5])
    _steps(world, 5, KEYLESS, limit=1)
    world.checkpoint()
    world.crash()
    world.hold = True
    _change_without_keys(world, Change.DELETE)
    _steps(world, 5, KEYLESS, limit=1)
    world.quiesce()


def added_by_a_transaction_that_ran_at_the_base() -> None:
    world = World([1, 5])
    world.database.begin()
    _steps(world, 5, KEYLESS, limit=1)
    _change_without_keys(world, Change.WRITE, 4, oldest=True)
    world.quiesce()


# MariaDB: a chunk is started, asks for the log's end, for what is prepared, opens its snapshot, takes the fence, reads,
# and is emitted: seven steps.


def _prepare(world: World, key: int) -> None:
    world.database.prepare([Wish("a", Change.WRITE, key)])


def prepared_and_in_the_log_before_it_is_visible() -> None:
    """Its commit is in the log before the chunk asks for the log's end."""
    world = World([1], mariadb=True)
    _prepare(world, 1)
    world.database.commit_prepared(0)
    world.read_log(1)
    _steps(world, 7)
    world.quiesce()


def committed_after_the_listing() -> None:
    """The fence of a chunk of ``b`` is asked for around it; a chunk of ``a`` then needs to know that it is hidden."""
    world = World([1], mariadb=True)
    _steps(world, 3, "b")
    _prepare(world, 1)
    world.database.commit_prepared(0)
    world.read_log(1)
    _steps(world, 2, "b")
    _steps(world, 7)
    world.quiesce()


def committed_between_the_first_two_questions() -> None:
    world = World([1], mariadb=True)
    _steps(world, 2, "b")
    _prepare(world, 1)
    world.database.commit_prepared(0)
    world.read_log(1)
    _steps(world, 3, "b")
    _steps(world, 7)
    world.quiesce()


def over_between_the_last_two_questions() -> None:
    world = World([1], mariadb=True)
    _prepare(world, 1)
    world.database.commit_prepared(0)
    world.read_log(1)
    _steps(world, 3)
    world.database.reveal(0)
    _steps(world, 4)
    world.quiesce()
