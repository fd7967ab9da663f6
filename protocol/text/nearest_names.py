"""Hints for misspelt names."""

from __future__ import annotations

import difflib
from collections.abc import Sequence


def near(name: str, known: Sequence[str]) -> str:
    """A hint that names what was probably meant; empty when nothing is near. A name in another case is the nearest."""
    folded = [each.casefold() for each in known]
    alike = difflib.get_close_matches(name.casefold(), dict.fromkeys(folded), n=3, cutoff=0.6)
    close = [each for one in alike for each, its in zip(known, folded, strict=True) if its == one]
    return f" (did you mean {' or '.join(close)}?)" if close else ""
