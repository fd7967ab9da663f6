"""Rows with the same id come together, whether they fit into memory or not."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tidemark.protocol.verification.digests import DIGEST, digests
from tidemark.runtime.verification import buckets as module
from tidemark.runtime.verification.buckets import Buckets

SCHEMA = pa.schema([("id", DIGEST), ("number", pa.int64())])


def _rows(numbers: range) -> pa.Table:
    column = pa.array(numbers, pa.int64())
    return pa.Table.from_arrays([digests([column], len(numbers)), column], schema=SCHEMA)


@pytest.mark.parametrize("rows", [10, 1_000, 20_000, 300_000])
def test_every_row_comes_back_once_and_with_its_like(
    rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ROWS", 1_000)
    found: Counter[int] = Counter()
    homes: dict[bytes, int] = {}
    with Buckets(SCHEMA, rows, tmp_path) as buckets:
        for start in range(0, 3_000, 500):
            buckets.add(_rows(range(start, start + 500)))
            buckets.add(_rows(range(start, start + 500)))
        for place, table in enumerate(buckets.tables()):
            numbers: list[Any] = table.column("number").to_pylist()
            ids: list[Any] = table.column("id").to_pylist()
            found.update(numbers)
            for each in ids:
                assert homes.setdefault(each, place) == place
        count = place + 1
    assert found == dict.fromkeys(range(3_000), 2)
    assert count == {10: 1, 1_000: 1, 20_000: 64, 300_000: 256}[rows]
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_left_where_the_work_fails(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), Buckets(SCHEMA, 10**9, tmp_path) as buckets:
        buckets.add(_rows(range(10)))
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []
