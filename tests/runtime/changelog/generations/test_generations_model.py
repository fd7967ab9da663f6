"""The log states the generations of its tables as a model does, and no rule of them can be left out."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.runtime.changelog.generations.mutants import MUTANTS, Mutant
from tests.runtime.changelog.generations.sessions import BUDGET, place_of_a_log
from tests.runtime.changelog.generations.walk import STEPS, Step, Walk

WALKS = st.lists(st.sampled_from(STEPS), min_size=10, max_size=40)


def walk(steps: list[Step]) -> None:
    with place_of_a_log() as root:
        Walk(root).run(steps)


@settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(WALKS)
def test_the_log_says_what_the_model_says(steps: list[Step]) -> None:
    walk(steps)


@pytest.mark.drawn(5)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_walks_find_a_rule_that_is_switched_off(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.switch(monkeypatch)
    with pytest.raises(AssertionError):
        search = given(WALKS)(walk)
        BUDGET(example(*mutant.walk)(search) if mutant.walk else search)()
