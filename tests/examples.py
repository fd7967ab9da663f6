"""How much tests try that could try more: little in ``make test``, which runs often, and far more in ``make soak``.

Each run draws other examples, but of tests that say otherwise.
"""

from __future__ import annotations

import os
from typing import TypeVar

from hypothesis import settings

T = TypeVar("T")

ALL = os.environ.get("TIDEMARK_TEST_ALL") == "1"
"""Whether a test of every pair (each database, each kind of kill, …) tries every pair, as in ``make soak``."""

PROFILE = "few"
"""Of Hypothesis, unless ``--hypothesis-profile`` names another."""

FEW = 40
"""Examples of a test that says nothing."""

# On a machine that others use too, any single example may take long: the whole test has a timeout, and that is enough.
settings.register_profile(PROFILE, deadline=None, max_examples=FEW)
settings.register_profile("thorough", deadline=None, max_examples=10 * FEW)


def examples(count: int) -> int:
    """The number for a test that tries so many in ``make test``."""
    profile = settings.get_profile(settings.get_current_profile_name())
    return max(1, count * profile.max_examples // FEW)


def sample(everything: T, some: T) -> T:
    """``everything`` in ``make soak``; in ``make test`` some of it, in which each kind comes at least once."""
    return everything if ALL else some
