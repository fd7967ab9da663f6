from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.spark_sink.formats.file_statistics import _raised
from tidemark.spark_sink.formats.file_writer import FileWriter
from tidemark.spark_sink.tables.column_types import arrow_schema
from tidemark.spark_sink.tables.store_place import StorePlace


def statistics(folder: Path, columns: dict[str, str], rows: list[dict[str, Any]], *key: str) -> dict[str, Any]:
    writer = FileWriter(StorePlace.of(folder), columns, key, 10**6)
    writer.write(pa.Table.from_pylist(rows, arrow_schema(columns)))
    (file,) = writer.finish()
    stats: dict[str, Any] = json.loads(file.stats)
    return stats


def test_every_column_has_its_nulls_and_its_extremes(tmp_path: Path) -> None:
    columns = {"id": "bigint", "price": "decimal(5,2)", "tags": "array<string>", "doc": "binary", "none": "string"}
    rows: list[dict[str, Any]] = [
        {"id": 2, "price": Decimal("1.50"), "tags": None, "doc": b"x", "none": None},
        {"id": 1, "price": None, "tags": ["a"], "doc": b"y", "none": None},
    ]

    assert statistics(tmp_path, columns, rows) == {
        "numRecords": 2,
        "minValues": {"id": 1, "price": 1.50},
        "maxValues": {"id": 2, "price": 1.50},
        "nullCount": {"id": 0, "price": 1, "tags": 1, "doc": 0, "none": 2},
    }


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        ([1.5, -2.5], -2.5, 1.5),
        ([1.0, float("nan")], None, None),
        ([float("inf"), 1.0], 1.0, None),
        ([float("-inf"), 1.0], None, 1.0),
        ([0.0, 0.0], -0.0, 0.0),
        ([None, None], None, None),
    ],
)
def test_doubles_are_stated_where_json_and_every_engine_agree(
    tmp_path: Path, values: list[Any], low: float | None, high: float | None
) -> None:
    stats = statistics(tmp_path, {"f": "double"}, [{"f": value} for value in values])

    assert (stats["minValues"].get("f"), stats["maxValues"].get("f")) == (low, high)
    (file,) = tmp_path.iterdir()
    # Parquet's own leave NaN out: Spark's reader would skip a row group whose numbers are all below that of a filter.
    assert not pq.read_metadata(file).row_group(0).column(0).is_stats_set


def test_times_are_rounded_to_the_milliseconds_around_them(tmp_path: Path) -> None:
    columns = {"t": "timestamp", "n": "timestamp_ntz", "d": "date"}
    early = datetime(1600, 1, 1, 0, 0, 0, 1999)
    rows = [{"t": t.replace(tzinfo=UTC), "n": t, "d": t.date()} for t in (early, datetime(2026, 2, 3, 4, 5, 6, 1))]

    stats = statistics(tmp_path, columns, rows)

    day = {"d": "1600-01-01"}
    assert stats["minValues"] == {"t": "1600-01-01T00:00:00.001Z", "n": "1600-01-01T00:00:00.001", **day}
    day = {"d": "2026-02-03"}
    assert stats["maxValues"] == {"t": "2026-02-03T04:05:06.001Z", "n": "2026-02-03T04:05:06.001", **day}


@pytest.mark.parametrize(("key", "longest"), [((), 64), (("s",), 1024)])
def test_long_strings_are_cut_short_on_their_outer_side(tmp_path: Path, key: tuple[str, ...], longest: int) -> None:
    stats = statistics(tmp_path, {"s": "string"}, [{"s": "a" * longest}, {"s": "é" * (longest + 1)}], *key)

    assert stats["minValues"]["s"] == "a" * longest
    assert stats["maxValues"]["s"] == "é" * (longest - 1) + "ê"


def test_a_string_that_none_is_behind_has_no_upper_bound(tmp_path: Path) -> None:
    stats = statistics(tmp_path, {"s": "string"}, [{"s": "\U0010ffff" * 65}])

    assert (stats["minValues"], stats["maxValues"]) == ({"s": "\U0010ffff" * 64}, {})


@given(st.text(min_size=1, max_size=4), st.text(max_size=2))
def test_a_raised_prefix_is_behind_all_strings_with_it(prefix: str, rest: str) -> None:
    raised = _raised(prefix)

    if raised is None:
        assert set(prefix) == {"\U0010ffff"}
    else:
        assert (prefix + rest).encode() < raised.encode()


def test_columns_behind_the_first_32_are_stated_if_they_are_of_the_key(tmp_path: Path) -> None:
    columns = {f"c{i}": "bigint" for i in range(40)}

    stats = statistics(tmp_path, columns, [dict.fromkeys(columns, 1)], "c35")

    assert list(stats["minValues"]) == list(stats["nullCount"]) == [*list(columns)[:32], "c35"]


def test_a_file_of_many_row_groups_states_the_extremes_of_all(tmp_path: Path) -> None:
    writer = FileWriter(StorePlace.of(tmp_path), {"id": "bigint", "s": "string"}, ["id"], 10**9)
    columns = arrow_schema({"id": "bigint", "s": "string"})
    for start in (0, 200_000):
        ids = range(start, start + 200_000)
        writer.write(pa.table({"id": list(ids), "s": [None if start else f"{i % 1000:03}" for i in ids]}, columns))
    (file,) = writer.finish()

    stats = json.loads(file.stats)
    assert stats["minValues"] == {"id": 0, "s": "000"} and stats["maxValues"] == {"id": 399_999, "s": "999"}
    assert stats["nullCount"] == {"id": 0, "s": 200_000}
