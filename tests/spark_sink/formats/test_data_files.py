from __future__ import annotations

import tempfile
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tidemark.spark_sink.formats.data_files import KeyBounds
from tidemark.spark_sink.formats.delta_table import PositionedTable
from tidemark.spark_sink.formats.file_writer import FileWriter
from tidemark.spark_sink.formats.positions import Position
from tidemark.spark_sink.tables.column_types import arrow_schema
from tidemark.spark_sink.tables.store_place import StorePlace

MICROSECONDS = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 998999))

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "decimal(38,6)": st.decimals(-(10**31), 10**31, places=6, allow_nan=False),
    "decimal(38,0)": st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal),
    "decimal(9,9)": st.integers(-(10**9) + 1, 10**9 - 1).map(lambda i: Decimal(i) / 10**9),
    "string": st.text(st.characters(codec="utf-8"), max_size=8) | st.integers(1, 1100).map(lambda n: "\U0010ffff" * n),
    "date": st.dates(),
    "timestamp": MICROSECONDS.map(lambda t: t.replace(tzinfo=UTC)),
    "timestamp_ntz": MICROSECONDS,
}


def bounds(
    folder: Path, columns: dict[str, str], rows: list[dict[str, Any]], key: Sequence[str], *, checkpoint: bool = False
) -> KeyBounds:
    """Of a file with these rows, through a table."""
    table = PositionedTable(StorePlace.of(folder), "log-1", "t current")
    table.create(columns, "", key)
    writer = FileWriter(StorePlace.of(folder), columns, key, 10**6)
    writer.write(pa.Table.from_pylist(rows, arrow_schema(columns)))
    files = writer.finish()
    table.commit(files, [], Position(1))
    if checkpoint:
        DeltaTable(str(folder)).create_checkpoint()
        table = PositionedTable(StorePlace.of(folder), "log-1", "t current")
    ((file, box),) = table.bounds({name: columns[name] for name in key})
    assert (file.path, file.size, file.rows) == (files[0].path, files[0].size, files[0].rows)
    return box


@settings(deadline=None, max_examples=examples(20))
@given(st.lists(st.fixed_dictionaries(VALUES), min_size=1, max_size=5), st.booleans())
def test_bounds_enclose_the_keys_of_every_type(rows: list[dict[str, Any]], checkpoint: bool) -> None:
    columns = {name: name for name in VALUES}
    with tempfile.TemporaryDirectory() as folder:
        box = bounds(Path(folder), columns, rows, list(columns), checkpoint=checkpoint)

        for name, low in zip(columns, box.low or (), strict=box.low is not None):
            assert low <= min(row[name] for row in rows)
        for name, high in zip(columns, box.high or (), strict=box.high is not None):
            assert max(row[name] for row in rows) <= high
        # Parquet states no strings of more than 4096 bytes; and there is none behind the very last ones.
        longest = max(len(row["string"]) for row in rows)
        assert box.low is not None or longest >= 1024
        assert box.high is not None or longest >= 1024


EXACT: dict[str, list[Any]] = {
    "boolean": [False, True],
    "bigint": [-(2**63), 2**63 - 1],
    "decimal(38,6)": [Decimal("-12345678901234567890123456789012.123456"), Decimal("0.000001")],
    "string": ["", "é" * 1024],
    "date": [date(1, 1, 1), date(9999, 12, 31)],
}


@pytest.mark.parametrize("checkpoint", [False, True])
@pytest.mark.parametrize("spark", EXACT)
def test_bounds_are_exact(tmp_path: Path, spark: str, checkpoint: bool) -> None:
    rows = [{"k": value} for value in EXACT[spark]]

    box = bounds(tmp_path / "100% ü #1", {"k": spark}, rows, ["k"], checkpoint=checkpoint)

    assert box == KeyBounds((EXACT[spark][0],), (EXACT[spark][1],))


@pytest.mark.parametrize("checkpoint", [False, True])
@pytest.mark.parametrize(("spark", "zone"), [("timestamp", UTC), ("timestamp_ntz", None)])
def test_bounds_of_times_are_those_of_their_milliseconds(
    tmp_path: Path, spark: str, zone: Any, checkpoint: bool
) -> None:
    rows = [{"k": datetime(1600, 1, 1, microsecond=1001, tzinfo=zone)}, {"k": datetime(2026, 1, 1, tzinfo=zone)}]

    box = bounds(tmp_path, {"k": spark}, rows, ["k"], checkpoint=checkpoint)

    assert box == KeyBounds(
        (datetime(1600, 1, 1, microsecond=1000, tzinfo=zone),), (datetime(2026, 1, 1, microsecond=999, tzinfo=zone),)
    )


@pytest.mark.parametrize(("spark", "value"), [("double", 1.5), ("binary", b"a")])
def test_types_without_trusted_statistics_have_no_bounds(tmp_path: Path, spark: str, value: Any) -> None:
    assert bounds(tmp_path, {"k": spark}, [{"k": value}], ["k"]) == KeyBounds(None, None)


def test_a_null_is_below_every_bound(tmp_path: Path) -> None:
    box = bounds(tmp_path, {"k": "bigint"}, [{"k": None}, {"k": 3}], ["k"])

    assert box == KeyBounds(None, (3,))


def test_times_that_python_cannot_say_are_not_bounds(tmp_path: Path) -> None:
    columns = {"d": "date", "t": "timestamp"}
    far = pa.table({"d": pa.array([0, 10**7], pa.int32()), "t": pa.array([0, 4 * 10**17], pa.int64())})
    table = PositionedTable(StorePlace.of(tmp_path), "log-1", "t current")
    table.create(columns, "")
    writer = FileWriter(StorePlace.of(tmp_path), columns, ["d", "t"], 10**6)
    writer.write(far.cast(arrow_schema(columns)))
    table.commit(writer.finish(), [], Position(1))

    ((_, box),) = table.bounds(columns)

    assert box == KeyBounds((date(1970, 1, 1), datetime(1970, 1, 1, tzinfo=UTC)), None)


@pytest.mark.parametrize("checkpoint", [False, True])
def test_a_key_behind_many_columns_has_bounds(tmp_path: Path, checkpoint: bool) -> None:
    columns = {f"c{i}": "bigint" for i in range(60)}
    rows = [{name: i for i, name in enumerate(columns)}]

    box = bounds(tmp_path, columns, rows, ["c3", "c55"], checkpoint=checkpoint)

    assert box == KeyBounds((3, 55), (3, 55))
