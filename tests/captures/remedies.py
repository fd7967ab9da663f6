"""The statements in what an error says to do, as a person would copy them."""

from __future__ import annotations

from tidemark.runtime.diagnosis.fix_sql import STATEMENT

__all__ = ["STATEMENT", "statements"]


def statements(remedy: str) -> list[str]:
    """Those of a remedy, in their order; at least one."""
    found = STATEMENT.findall(remedy)
    assert found, remedy
    return found
