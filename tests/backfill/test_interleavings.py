"""For every interleaving of a database, a reader, chunks and crashes the replayed stream equals the table."""

from __future__ import annotations

import pytest
from hypothesis import settings

from tests.backfill.machine import BackfillMachine
from tests.backfill.walks import Walk
from tests.examples import examples, sample

_deep = settings.get_current_profile_name() == "deep"

TestBackfill = BackfillMachine.TestCase
TestBackfill.settings = (
    settings.get_profile("deep")
    if _deep
    else settings(max_examples=examples(200), stateful_step_count=50, deadline=None, derandomize=True, database=None)
)


# A rule that is switched off is found in 150 walks at most: see test_mutants.
@pytest.mark.drawn(1)
@pytest.mark.parametrize("first", range(0, 100_000 if _deep else sample(8_000, 3_000, 1_000), 1_000))
def test_random_walks(first: int) -> None:
    for seed in range(first, first + 1_000):
        try:
            Walk(seed).run()
        except AssertionError as error:
            raise AssertionError(f"the walk with seed {seed}: {error}") from error


@pytest.mark.parametrize("seed", [81_412])
def test_walks_that_once_failed(seed: int) -> None:
    Walk(seed).run()
