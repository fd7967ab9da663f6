"""When tables are folded, in simulated time."""

from __future__ import annotations

import itertools
import math
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from tidemark.spark_sink.run.settings import FoldRule, VacuumRule

TRIGGER = 1.0


def folds(rule: FoldRule, costs: list[float], trigger: float = TRIGGER) -> list[tuple[float, float]]:
    """Begin and end of each fold, of a table that always lacks something."""
    now = earliest = 0.0
    done: list[tuple[float, float]] = []
    for cost in costs:
        folded_to = done[-1][0] if done else now
        while not rule.is_due(now, earliest, folded_to):
            now += trigger
        done.append((now, now + cost))
        now += cost
        earliest = rule.earliest_after(now, cost)
        now += trigger
    return done


@given(
    share=st.floats(0.05, 1.0),
    costs=st.lists(st.floats(0.001, 200.0), min_size=2, max_size=30),
)
def test_folding_takes_at_most_its_share_and_comes_as_soon_as_that_allows(share: float, costs: list[float]) -> None:
    done = folds(FoldRule(share=share), costs)

    for (began, ended), (following, _) in itertools.pairwise(done):
        period = following - began
        assert ended - began <= share * period + 1e-6
        assert period <= (ended - began) / share + 2 * TRIGGER + 1e-6


@given(ceiling=st.floats(0, 500), costs=st.lists(st.floats(0.001, 200.0), min_size=2, max_size=30))
def test_no_table_is_staler_than_the_ceiling_and_the_fold_itself(ceiling: float, costs: list[float]) -> None:
    done = folds(FoldRule(share=0.1, max_staleness=ceiling), costs)

    for (began, ended), (following, _) in itertools.pairwise(done):
        assert following - began <= max(ceiling, ended - began) + 2 * TRIGGER + 1e-6


@given(
    rate=st.floats(1_000, 100_000),
    cost_of_row=st.floats(1e-7, 1e-5),
    share=st.floats(0.1, 0.9),
    seconds=st.integers(10, 20_000),
)
def test_the_cost_of_a_backfill_is_linear(rate: float, cost_of_row: float, share: float, seconds: int) -> None:
    """Though each fold writes the whole table anew, as it does where keys are random."""
    rule = FoldRule(share=share)
    now = earliest = folded = total = 0.0
    while now < seconds:
        if not rule.is_due(now, earliest, folded):
            now += TRIGGER
            continue
        cost = now * rate * cost_of_row
        folded = now
        now += cost
        total += cost
        earliest = rule.earliest_after(now, cost)
        now += TRIGGER

    assert total <= share * now + cost_of_row * rate * now


MB = 1024 * 1024


@given(size=st.integers(0, 2**40), shares=st.lists(st.floats(0, 1), min_size=2, max_size=50))
def test_replaced_files_take_no_more_than_the_table_and_a_little(size: int, shares: list[float]) -> None:
    """Besides those of the last fold, also of a table that each fold rewrites as a whole, until they are deleted."""
    rule = VacuumRule()
    until_deleted = (rule.min_age + rule.pause).total_seconds()
    now, done = 0.0, []
    for share in shares:
        replaced = int(share * size)
        done.append((now, replaced))
        now = rule.earliest_after(now, replaced, size)

    for place, (first, _) in enumerate(done):
        together = [replaced for at, replaced in done[place:] if at < first + until_deleted]
        assert sum(together[:-1]) <= (size + 64 * MB) * (7 / 8 + 1e-9)


@given(size=st.integers(1, 8 * MB), share=st.floats(0.001, 1.0))
def test_small_tables_leave_room_for_the_last_fold(size: int, share: float) -> None:
    rule = VacuumRule()
    replaced = int(share * size)
    between = rule.earliest_after(0.0, replaced, size)
    folds = math.ceil((rule.min_age + rule.pause).total_seconds() / max(between, TRIGGER))
    assert folds * replaced <= size + 64 * MB


def test_a_table_is_folded_once_its_replaced_files_are_gone_however_small_it_became() -> None:
    rule = VacuumRule()
    assert rule.earliest_after(0.0, 1000 * MB, 0) == 80 * 60


@given(size=st.integers(0, 2**40), removed=st.integers(0, 2**40), minutes=st.integers(0, 100))
def test_files_are_deleted_before_much_is_to_be_deleted(size: int, removed: int, minutes: int) -> None:
    rule = VacuumRule()
    due = rule.is_due(removed, size, timedelta(minutes=minutes))
    if minutes < 10:
        assert not due
    elif removed > min(size, (size + 64 * MB) / 7):
        assert due


def test_a_pause_of_no_length() -> None:
    assert VacuumRule(timedelta(), timedelta()).is_due(1, 1, timedelta())
    assert VacuumRule(timedelta(), timedelta()).earliest_after(7.0, 1, 1) == 7.0
