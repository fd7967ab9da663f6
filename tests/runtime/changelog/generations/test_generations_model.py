"""The log states the generations of its tables as a model does, and no rule of them can be left out."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.runtime.changelog.generations.mutants import MUTANTS, Mutant
from tests.runtime.changelog.generations.walk import STEPS, Step, Walk
from tidemark.protocol.changelog import layout, reader

WALKS = st.lists(st.sampled_from(STEPS), min_size=10, max_size=40)

MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""A walk makes a hundred small files, which costs a disk more than all else."""

BUDGET = settings(
    max_examples=300,
    deadline=None,
    derandomize=True,
    database=None,
    report_multiple_bugs=False,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
"""Of a mutant: the same walks in each run, until one finds it."""


def walk(steps: list[Step]) -> None:
    with TemporaryDirectory(dir=MEMORY) as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout, "SUMMARY_EVERY", 3)
        # No walk cuts the power, or loses a commit.
        patch.setattr(os, "fsync", lambda _: None)
        patch.setattr(reader, "_AHEAD", ())
        Walk(Path(folder) / "log").run(steps)


@settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(WALKS)
def test_the_log_says_what_the_model_says(steps: list[Step]) -> None:
    walk(steps)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_walks_find_a_rule_that_is_switched_off(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.switch(monkeypatch)
    with pytest.raises(AssertionError):
        BUDGET(given(WALKS)(walk))()
