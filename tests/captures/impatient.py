"""A connector that waits little for tables that are away: ``python -m tests.captures.impatient SECONDS MODULE``."""

from __future__ import annotations

import runpy
import sys

from captures import aside

if __name__ == "__main__":
    aside.GRACE_SECONDS = float(sys.argv[1])
    runpy.run_module(sys.argv[2], run_name="__main__")
