"""What is found of rows is what a plain comparison of each key finds, whether groups of them are settled or not."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from tidemark.protocol.changelog import Column, TableSchema
from tidemark.protocol.verification.digests import DIGEST, SEEDS, digests
from tidemark.runtime.verification import matching as module
from tidemark.runtime.verification.findings import Comparison, Kind
from tidemark.runtime.verification.matching import Matching
from tidemark.runtime.verification.sides import side_schema

SCHEMA = TableSchema(collection="public/t", columns=[Column(name="k", type="bigint")], key=["k"])
BEGUN, CHUNK, END = 100, 120, 200

Row = tuple[int, int, bool, bool, int | None]
"""A key, a place, whether it is the source's, whether it is no deletion, and the digest of the values."""


def event(key: int, offset: int, value: int | None, *, there: bool = True) -> Row:
    return key, 2 * offset + 1, False, there, value


def read(key: int, value: int | None) -> Row:
    return key, 2 * CHUNK, True, True, value


def rows_of(chance: random.Random, keys: int, odd: float) -> list[Row]:
    """Rows of both sides, of which a part of the keys is not as usual."""
    found: list[Row] = []
    for key in range(keys):
        value = chance.getrandbits(64)
        offset = chance.randrange(BEGUN)
        usual = [event(key, offset, value), read(key, value)]
        others: list[list[Row]] = [
            [event(key, offset, value)],
            [read(key, value)],
            [event(key, offset, value), read(key, value ^ 1)],
            [event(key, offset, 5), event(key, BEGUN + 3, value), read(key, value)],
            [event(key, offset, value), event(key, END - 1, 7), read(key, value)],
            [event(key, offset, value), event(key, BEGUN + 1, value, there=False), read(key, value)],
            [event(key, offset, value, there=False)],
            [event(key, END - 1, value), read(key, value)],
            [event(key, END - 1, value)],
            [event(key, offset, None), read(key, value)],
            [event(key, offset, value), read(key, None)],
            [event(key, offset, value), read(key, value), read(key, value)],
        ]
        found += chance.choice(others) if chance.random() < odd else usual
    chance.shuffle(found)
    return found


def plainly(
    rows: list[Row], after: int, apart: set[int], *, all_rows: bool
) -> tuple[Comparison, set[tuple[Kind, int]], set[int]]:
    found, named, undecided = Comparison(), set(), set()
    by_key: dict[int, list[Row]] = {}
    for row in rows:
        by_key.setdefault(row[0], []).append(row)
    for key, own in by_key.items():
        sources = [row for row in own if row[2]]
        found.rows += len(sources)
        if key in apart or any(row[4] is None for row in sources):
            found.kept_apart += len(sources)
            continue
        events = sorted(row for row in own if not row[2] and row[1] > 2 * after + 1)
        if not sources:
            last = events[-1] if events else None
            if all_rows and last is not None and last[3] and last[1] < 2 * BEGUN:
                named.add((Kind.TOO_MANY, key))
            continue
        before = [row for row in events if row[1] < sources[0][1]]
        last = before[-1] if before and before[-1][3] else None
        if last is not None and last[4] is None:
            undecided.add(key)
            continue
        found.compared += 1
        if last is None:
            named.add((Kind.MISSING, key))
        elif last[4] != sources[0][4]:
            named.add((Kind.DIFFERENT, key))
    return found, named, undecided


def table_of(rows: list[Row]) -> pa.Table:
    keys, places, sources, there, values = zip(*rows, strict=True)
    key: Any = pa.array(keys, pa.int64())
    ids = [digests([key], len(rows), seed) for seed in SEEDS]
    columns = [key, *ids, pa.array(places, pa.int64()), pa.array(sources), pa.array(there), pa.array(values, DIGEST)]
    return pa.Table.from_arrays(columns, schema=side_schema(SCHEMA))


@pytest.mark.parametrize("odd", [0.0, 0.002, 0.05, 0.9])
@pytest.mark.parametrize(("after", "all_rows"), [(-1, True), (-1, False), (40, True)])
def test_it_finds_what_a_plain_comparison_finds(odd: float, after: int, all_rows: bool) -> None:
    chance = random.Random(f"{odd} {after} {all_rows}")
    rows = rows_of(chance, 5_000, odd)
    apart = set(chance.sample(range(5_000), 20))
    expected, named, undecided = plainly(rows, after, apart, all_rows=all_rows)
    found = Comparison()
    ids = digests([pa.array(sorted(apart), pa.int64())], len(apart))
    left = Matching(found, ["key_0"], BEGUN, after, ids, all_rows).compare(table_of(rows))
    assert {(each.kind, each.values[0]) for each in found.named} == named
    assert +found.counts == Counter(kind for kind, _ in named)
    assert (found.rows, found.compared, found.kept_apart) == (expected.rows, expected.compared, expected.kept_apart)
    assert set(left.column("key_0").to_pylist()) == undecided


def test_equal_sides_are_not_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    def sorted_(rows: pa.Table) -> Any:
        assert rows.num_rows < 100, "only the groups with a difference are sorted"
        return in_order(rows)

    in_order = module._in_order
    monkeypatch.setattr(module, "_in_order", sorted_)
    rows = [row for key in range(2_000) for row in (event(key, 1, key), read(key, key + (key == 77)))]
    # Two rows that have each other's values.
    swapped = {key: key for key in range(2_000)} | {5: 6, 6: 5}
    rows = [
        (key, place, source, there, swapped[key] if source and key != 77 else value)
        for key, place, source, there, value in rows
    ]
    found = Comparison()
    Matching(found, ["key_0"], BEGUN, -1, pa.array([], DIGEST), True).compare(table_of(rows))
    assert {each.values[0] for each in found.named} == {5, 6, 77}
    assert (found.rows, found.compared) == (2_000, 2_000)
