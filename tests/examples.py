"""How many examples property tests try: few in ``make test``, which runs often, ten times as many in ``make soak``.

Each run draws others, but of tests that say otherwise.
"""

from __future__ import annotations

from hypothesis import settings

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
