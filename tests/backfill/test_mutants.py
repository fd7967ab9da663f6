"""No rule of the backfill can be left out: with any one switched off, tables differ or rows go back in time."""

from __future__ import annotations

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.backfill.machine import BackfillMachine
from tests.backfill.mutants import MUTANTS, Mutant
from tests.backfill.walks import Walk

pytestmark = pytest.mark.heavy

WALKS = 3_000
"""Walks in which a mutant must be found; the rarest of those marked so is found once in 150."""

BUDGET = settings(
    max_examples=3_000,
    stateful_step_count=50,
    deadline=None,
    derandomize=True,
    database=None,
    report_multiple_bugs=False,
    phases=[Phase.generate],
)

FAULT = "went back|is done and|given twice|changed without progress"


@pytest.fixture
def switched_off(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Mutant:
    mutant: Mutant = request.param
    mutant.switch(monkeypatch)
    return mutant


def _name(mutant: Mutant) -> str:
    return mutant.name


@pytest.mark.parametrize("mutant", MUTANTS, ids=_name)
def test_script_is_right_with_every_rule(mutant: Mutant) -> None:
    mutant.script()


@pytest.mark.parametrize("switched_off", MUTANTS, ids=_name, indirect=True)
def test_script_shows_the_fault_without_the_rule(switched_off: Mutant) -> None:
    with pytest.raises(AssertionError, match=FAULT):
        switched_off.script()


@pytest.mark.drawn(6)
@pytest.mark.parametrize("switched_off", [mutant for mutant in MUTANTS if mutant.walks], ids=_name, indirect=True)
def test_random_walks_find_the_fault(switched_off: Mutant) -> None:
    with pytest.raises(AssertionError, match=FAULT):
        for seed in range(WALKS):
            Walk(seed).run()


@pytest.mark.drawn(2)
@pytest.mark.parametrize("switched_off", [mutant for mutant in MUTANTS if mutant.machine], ids=_name, indirect=True)
def test_state_machine_finds_the_fault(switched_off: Mutant) -> None:
    with pytest.raises(AssertionError, match=FAULT):
        run_state_machine_as_test(BackfillMachine, settings=BUDGET)
