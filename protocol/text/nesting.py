"""How deep JSON may be nested: the same on every Python, whose own limits differ from version to version."""

from __future__ import annotations

import re

VALUE_NESTING = 500
"""The greatest depth of arrays and objects in a json value of a table. Databases accept thousands of levels. Parsers
accept 1,000 (Jackson, which Spark uses), 1,024 (orjson), or as many as their stack holds."""

MESSAGE_NESTING = 600
"""The greatest depth of a message: that of a value, and what stands around it."""

_STRUCTURE = re.compile(r'"(?:[^"\\]|\\.)*+"|([\[{])|([\]}])', re.DOTALL)


def nested_deeper(text: str, levels: int) -> bool:
    """Whether arrays and objects are nested deeper than so many levels in a JSON text."""
    # Of nearly all texts the length or the number of brackets is enough.
    if len(text) <= 2 * levels or text.count("[") + text.count("{") <= levels:
        return False
    depth = 0
    for match in _STRUCTURE.finditer(text):
        if match[1]:
            depth += 1
            if depth > levels:
                return True
        elif match[2]:
            depth -= 1
    return False
