"""``python -m tests.runtime.page.hurried ARGUMENT…``: tidemark, whose page has more samples in less time."""

from __future__ import annotations

import runpy

from tidemark.runtime.page import history

EVERY_SECONDS = 1.0

if __name__ == "__main__":
    history.EVERY_SECONDS = EVERY_SECONDS
    runpy.run_module("tidemark.runtime", run_name="__main__", alter_sys=True)
