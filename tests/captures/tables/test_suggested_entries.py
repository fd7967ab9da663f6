"""What errors suggest for the capture file means, in YAML, the names that it is about."""

from __future__ import annotations

import pytest
import yaml

from tidemark.captures.tables.bad_values import TOO_LARGE, BadValues
from tidemark.captures.tables.suggested_entries import excluding

NAMES = ["a", "größe_2", "a.b", "no", "On", "null", "1a", ".5", ".inf", "two words", 'a"b', "a: b", "a, b", "]", "#"]


@pytest.mark.parametrize("name", NAMES)
def test_a_policy_is_suggested_for_the_column(name: str) -> None:
    error = BadValues(f"public.{name}", {name: TOO_LARGE})
    entry = error.remedy.partition("  - ")[2].partition("  (or ")[0]
    assert yaml.safe_load(entry) == {"table": f"public.{name}", "on_bad_value": {name: "quarantine"}}


def test_columns_are_left_out_by_their_names() -> None:
    assert yaml.safe_load(f"{{{excluding(*NAMES)}}}") == {"exclude": NAMES}
