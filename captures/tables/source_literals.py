"""Literals in the source of generated functions.

A text that is written out in an f-string saves a tenth of a row's time, compared with a variable. Some texts are names
that users choose, so all but plain characters are escaped: no text can end its string.
"""

from __future__ import annotations

import re

_ESCAPED = re.compile(r"[^A-Za-z0-9_ ,:]")


def literal(text: str) -> str:
    """The content of a string or f-string literal, in any quotes, for a byte text."""
    return _ESCAPED.sub(lambda found: f"\\x{found[0].encode('latin-1').hex()}", text)


def quoted(text: str) -> str:
    """A string literal for a byte text."""
    return f'"{literal(text)}"'
