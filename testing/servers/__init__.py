"""Throwaway database servers: each in a directory of its own, none outlives the process that started it."""

from __future__ import annotations

import os

FAST = os.environ.get("TIDEMARK_TEST_FAST") == "1"
"""Whether ``make test-fast`` asks: one PostgreSQL, the newest, stands for all servers."""
