"""Hints for misspelt names."""

from __future__ import annotations

import difflib
from collections.abc import Sequence


def near(name: str, known: Sequence[str]) -> str:
    """A hint that names what was probably meant; empty when nothing is near."""
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    return f" (did you mean {' or '.join(close)}?)" if close else ""
