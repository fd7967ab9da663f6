"""The source of generated functions: literals in it, and how it is compiled.

A text that is written out in an f-string saves a tenth of a row's time, compared with a variable. Some texts are names
that users choose, so all but plain characters are escaped: no text can end its string.
"""

from __future__ import annotations

import linecache
import re
import zlib
from collections.abc import Iterable
from typing import Any

_ESCAPED = re.compile(r"[^A-Za-z0-9_ ,:]")


def literal(text: str) -> str:
    """The content of a string or f-string literal, in any quotes, for a byte text."""
    return _ESCAPED.sub(lambda found: f"\\x{found[0].encode('latin-1').hex()}", text)


def quoted(text: str) -> str:
    """A string literal for a byte text."""
    return f'"{literal(text)}"'


def generated(what: str, lines: Iterable[str], names: dict[str, Any]) -> dict[str, Any]:
    """Adds the functions that the lines define to ``names``, which they may use. Tracebacks show their source.

    Args:
        lines: Built from types, places and ``literal`` texts only.
    """
    source = "\n".join(lines) + "\n"
    filename = f"<{what} {zlib.crc32(source.encode()):08x}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    exec(compile(source, filename, "exec"), names)  # noqa: S102 - see above
    return names
