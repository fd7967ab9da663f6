"""Keys in Arrow: which are equal."""

from __future__ import annotations

from math import nan

import pyarrow as pa
import pytest

from tidemark.spark_sink.changes.key_order import distinct, has_key_of

ROWS = pa.table({"at": [0.0, -0.0, nan, 1.5, None], "of": ["a"] * 5})


@pytest.mark.parametrize("key", [["at"], ["at", "of"]])
def test_zeros_of_both_signs_are_one_key(key: list[str]) -> None:
    for zero in (0.0, -0.0):
        others = pa.table({"at": [zero, nan], "of": ["a", "a"]})
        assert has_key_of(ROWS, others, key).to_pylist() == [True, True, True, False, False]
    assert distinct(ROWS, key).num_rows == 4
