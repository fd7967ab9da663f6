"""Text from elsewhere, as a terminal may have it: names of tables, columns and databases can hold anything."""

from __future__ import annotations

import re

# C0, DEL and C1 controls, the marks that turn the direction of text, and surrogates, which no stream can encode.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_BUT_LINES = re.compile(_CONTROLS.pattern.replace("\x00-\x1f", "\x00-\x08\x0b-\x1f"))


def visible(text: str, *, lines: bool = False) -> str:
    r"""``text`` with its control characters escaped, as ``\x1b``; the ends of ``lines`` may stay."""
    return (_BUT_LINES if lines else _CONTROLS).sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape", "surrogatepass").decode("ascii")


def visible_json(text: str) -> str:
    r"""JSON text with the control characters that JSON lets stand as they are, such as U+009B, as ``\uXXXX``."""
    return _BUT_LINES.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
