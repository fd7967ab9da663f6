"""Texts in the source of generated functions.

Written out in an f-string a text costs a tenth less of a row's whole time than taken from a variable. Names of a user
are among them, so nothing but plain characters is written as it is: no text can end its string.
"""

from __future__ import annotations

import re

_ESCAPED = re.compile(r"[^A-Za-z0-9_ ,:]")


def literal(text: str) -> str:
    """The inside of a string or f-string, in quotes of any kind, that stands for a byte text."""
    return _ESCAPED.sub(lambda found: f"\\x{found[0].encode('latin-1').hex()}", text)


def quoted(text: str) -> str:
    """A string that is this byte text."""
    return f'"{literal(text)}"'
