"""The statements in what an error says to do, as a person would copy them."""

from __future__ import annotations

import re

STATEMENT = re.compile(
    r"\b(?:ALTER|CALL|COMMENT|CREATE|DROP|FLUSH|GRANT|SELECT|SET GLOBAL|SHOW)\b"
    r"(?:\"(?:[^\"]|\"\")*\"|'(?:[^'\\]|''|\\.)*'|`(?:[^`]|``)*`|[^;\"'`])*;"
)


def statements(remedy: str) -> list[str]:
    """Those of a remedy, in their order; at least one."""
    found = STATEMENT.findall(remedy)
    assert found, remedy
    return found
