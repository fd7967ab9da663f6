"""Hypothesis profile ``deep``: many more interleavings of the backfill, another set in each run.

::

    pytest tests/backfill --hypothesis-profile=deep --timeout=0
"""

from __future__ import annotations

from hypothesis import settings

settings.register_profile(
    "deep", max_examples=50_000, stateful_step_count=80, deadline=None, derandomize=False, database=None
)
