"""Digests of rows are equal if, and only if, all values are."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import product
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.protocol.verification import digests as module
from tidemark.protocol.verification.digests import SEEDS, digests, digests_of_parts, texts

pc: Any = pyarrow.compute

INSTANTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30))
VALUES: dict[Any, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float64(): st.floats(allow_nan=False),
    pa.decimal128(12, 2): st.decimals(-(10**9), 10**9, places=2),
    pa.string(): st.text(st.characters(codec="utf-8"), max_size=5),
    pa.binary(): st.binary(max_size=5),
    pa.date32(): st.dates(),
    pa.timestamp("us", "UTC"): INSTANTS.map(lambda moment: moment.replace(tzinfo=UTC)),
    pa.timestamp("us"): INSTANTS,
    pa.list_(pa.string()): st.lists(st.none() | st.text(st.characters(codec="utf-8"), max_size=2), max_size=3),
    pa.list_(pa.int64()): st.lists(st.none() | st.integers(-5, 5), max_size=3),
    pa.list_(pa.binary()): st.lists(st.none() | st.binary(max_size=2), max_size=2),
}
TYPES = st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=4)


@st.composite
def _tables(draw: st.DrawFn) -> tuple[list[Any], list[tuple[Any, ...]]]:
    types = draw(TYPES)
    rows = st.lists(st.tuples(*(st.none() | VALUES[type_] for type_ in types)), max_size=6)
    return types, draw(rows) + draw(st.just([]))


def _columns(types: Sequence[Any], rows: Sequence[Sequence[Any]]) -> list[Any]:
    return [pa.array([row[place] for row in rows], type_) for place, type_ in enumerate(types)]


def _of(types: Sequence[Any], rows: Sequence[Sequence[Any]]) -> list[bytes]:
    found: list[bytes] = digests(_columns(types, rows), len(rows)).to_pylist()
    return found


def _exact(row: Sequence[Any]) -> str:
    """A text that tells -0.0 from 0.0, and True from 1."""
    return repr(row)


@given(_tables())
def test_rows_with_equal_values_and_no_others_have_the_same(table: tuple[list[Any], list[tuple[Any, ...]]]) -> None:
    types, rows = table
    found = _of(types, rows)
    by_digest = {digest: _exact(row) for digest, row in zip(found, rows, strict=True)}
    assert len(by_digest) == len({_exact(row) for row in rows})
    assert all(by_digest[digest] == _exact(row) for digest, row in zip(found, rows, strict=True))


@given(_tables(), st.integers(0, 6), st.integers(0, 6))
def test_they_do_not_depend_on_what_a_row_stands_beside(
    table: tuple[list[Any], list[tuple[Any, ...]]], first: int, count: int
) -> None:
    types, rows = table
    part = rows[first : first + count]
    columns = [column.slice(first, len(part)) for column in _columns(types, rows)]
    assert digests(columns, len(part)).to_pylist() == _of(types, rows)[first : first + count] == _of(types, part)


@given(_tables(), st.data())
def test_several_at_once_are_those_of_each(table: tuple[list[Any], list[tuple[Any, ...]]], data: st.DataObject) -> None:
    types, rows = table
    columns = _columns(types, rows)
    places = st.lists(st.sampled_from(range(len(types))), unique=True)
    parts = [(data.draw(places), seed) for seed in (*SEEDS, SEEDS[0])]
    found = digests_of_parts(columns, len(rows), parts)
    assert found == [digests([columns[place] for place in part], len(rows), seed) for part, seed in parts]


def test_values_do_not_run_into_each_other() -> None:
    strings = [pa.string(), pa.string()]
    rows = [("ab", "c"), ("a", "bc"), ("abc", ""), ("", "abc"), (None, "abc"), ("abc", None), (None, None), ("", "")]
    assert len(set(_of(strings, rows))) == len(rows)


def test_all_that_are_no_number_are_one() -> None:
    # The quiet one of Python, and one with other bits.
    other = pa.array([0x7FF8000000000001], pa.int64()).view(pa.float64())
    assert digests([pa.array([math.nan])], 1) == digests([other], 1)
    assert digests([pa.array([0.0])], 1) != digests([pa.array([-0.0])], 1)


def test_many_columns_and_chunks_have_one_for_each_row() -> None:
    rows = 40_000
    columns = [pa.chunked_array([list(range(rows // 2)), list(range(rows // 2, rows))])] * 70
    assert len(set(digests(columns, rows).to_pylist())) == rows
    assert digests([], 0).to_pylist() == []


NUMBERS = range(0, 64, 3)


@pytest.mark.parametrize(
    "value",
    [
        lambda number: number,
        lambda number: -number << 40,
        lambda number: number << 57,
        lambda number: 2.0 ** (number - 30),
        lambda number: f"{number:08d}",
        lambda number: bytes(7) + bytes([number]) + bytes(7) + bytes([number ^ 128]),
    ],
    ids=["small", "negative", "high", "floats", "texts", "bytes"],
)
def test_values_that_change_places_and_have_the_same_sum(value: Callable[[int], Any]) -> None:
    rows = [tuple(map(value, row)) for row in product(NUMBERS, repeat=3)]
    columns = [pa.array(list(column)) for column in zip(*rows, strict=True)]
    found = digests(columns, len(rows))
    for bits in (
        pc.bit_wise_and(found, pa.scalar((1 << 48) - 1, pa.uint64())),
        pc.shift_right(found, pa.scalar(16, pa.uint64())),
    ):
        assert len(set(bits.to_pylist())) == len(rows)


def test_large_values_are_digested_a_few_rows_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    types = [pa.string(), pa.int64(), pa.binary(), pa.list_(pa.string())]
    rows = [(str(n) * 50, n, bytes(n), [str(n)] * n) for n in range(30)]
    expected = _of(types, rows)
    for size in (1, 700, 3_000):
        monkeypatch.setattr(module, "_VALUES", size)
        assert _of(types, rows) == expected


def test_keys_are_written_as_a_command_takes_them() -> None:
    key = [
        pa.array([1, 2]),
        pa.array(["a", "ü"]),
        pa.array([Decimal("1.50"), Decimal("-2")], pa.decimal128(5, 2)),
        pa.array([date(2026, 1, 2), None]),
        pa.array([datetime(2026, 1, 2, 3, tzinfo=UTC)] * 2, pa.timestamp("us", "UTC")),
    ]
    assert texts(key, 2).to_pylist() == [
        "1,a,1.50,2026-01-02,2026-01-02 03:00:00.000000",
        "2,ü,-2.00,,2026-01-02 03:00:00.000000",
    ]
