"""Readers see each row's columns as a model does, and no rule by which columns are told apart can be left out."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.runtime.changelog.generations.column_mutants import COLUMN_MUTANTS
from tests.runtime.changelog.generations.column_walk import STEPS, ColumnWalk, Step
from tests.runtime.changelog.generations.mutants import Mutant
from tests.runtime.changelog.generations.sessions import BUDGET, place_of_a_log
from tidemark.protocol.errors import TidemarkError

WALKS = st.lists(st.sampled_from(STEPS), min_size=10, max_size=30)


def walk(known: bool, steps: list[Step]) -> None:
    with place_of_a_log() as root:
        ColumnWalk(root, known=known).run(steps)


@settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.booleans(), WALKS)
def test_readers_see_what_the_model_says(known: bool, steps: list[Step]) -> None:
    walk(known, steps)


@pytest.mark.drawn(5)
@pytest.mark.parametrize("mutant", COLUMN_MUTANTS, ids=lambda mutant: mutant.name)
def test_walks_find_a_rule_that_is_switched_off(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.switch(monkeypatch)
    with pytest.raises((AssertionError, TidemarkError, KeyError)):
        search = given(st.booleans(), WALKS)(walk)
        BUDGET(example(*mutant.walk)(search) if mutant.walk else search)()
