"""Interleavings written by hand, one for each rule: the shortest way to the fault that the rule is there to prevent."""

from __future__ import annotations

from tests.backfill.database import Change, Wish
from tests.backfill.world import Limits, World


def _commit(world: World, *wishes: tuple[Change, int] | tuple[Change, int, int], oldest: bool = False) -> None:
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
    world = World([1, 2], Limits(reread=1))
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
    world = World([1, 2], Limits(reread=2))
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
    world = World([1, 2, 3], Limits(window=2))
    _steps(world, 2)
    _commit(world, (Change.WRITE, 1), (Change.WRITE, 2), (Change.WRITE, 3))
    world.read_log(3)
    _steps(world, 3)
    world.quiesce()


def moved_in_a_large_transaction() -> None:
    world = World([2, 3, 4, 5], Limits(window=2), whole_transactions=True)
    _steps(world, 5)
    _commit(world, (Change.MOVE_PARTIAL, 5, 1), (Change.WRITE, 4))
    world.read_log(3)
    world.database.reveal(0)
    _steps(world, 5)
    world.quiesce()
