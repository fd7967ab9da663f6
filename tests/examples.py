"""How much tests try that could try more: little in ``make test``, less in ``make test-fast``, much in ``make soak``.

Each run draws other examples, but of tests that say otherwise.
"""

from __future__ import annotations

import os
from typing import TypeVar

from hypothesis import settings

from tidemark.testing.servers import FAST

T = TypeVar("T")

ALL = os.environ.get("TIDEMARK_TEST_ALL") == "1"
"""Whether a test of every pair (each database, each kind of kill, …) tries every pair, as in ``make soak``."""

PROFILE = "fewest" if FAST else "few"
"""Of Hypothesis, unless ``--hypothesis-profile`` names another."""

FEW = 20
"""Examples of a test that says nothing."""

# On a machine that others use too, any single example may take long: the whole test has a timeout, and that is enough.
settings.register_profile(PROFILE, deadline=None, max_examples=FEW)
settings.register_profile("fewest", deadline=None, max_examples=FEW // 4)
settings.register_profile("thorough", deadline=None, max_examples=10 * FEW)


def examples(count: int) -> int:
    """The number for a test that tries so many in ``make test``."""
    profile = settings.get_profile(settings.get_current_profile_name())
    return max(1, count * profile.max_examples // FEW)


def sample(everything: T, some: T, few: T | None = None) -> T:
    """What is tried: each kind at least once in any case.

    Args:
        everything: In ``make soak``.
        some: In ``make test``.
        few: In ``make test-fast``, where it does not try as much as ``make test``.
    """
    if ALL:
        return everything
    return few if FAST and few is not None else some
