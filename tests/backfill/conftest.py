"""Hypothesis profile ``deep``: a million steps of the state machine, another set in each run, and 100,000 walks.

::

    pytest tests/backfill/test_interleavings.py --hypothesis-profile=deep --timeout=0

It takes about a quarter of an hour of one core.
"""

from __future__ import annotations

from hypothesis import settings

settings.register_profile(
    "deep", max_examples=20_000, stateful_step_count=50, deadline=None, derandomize=False, database=None
)
