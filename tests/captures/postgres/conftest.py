"""Hypothesis profile ``deep``: many more tables of random types, another set in each run.

::

    pytest tests/captures/postgres/values/test_generative_types.py --hypothesis-profile=deep --timeout=0
"""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("deep", max_examples=50_000, deadline=None, derandomize=False, database=None)
