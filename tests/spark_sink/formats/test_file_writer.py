from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemark.protocol.errors import SparkError
from tidemark.spark_sink.formats import file_writer
from tidemark.spark_sink.formats.data_files import DataFile
from tidemark.spark_sink.formats.file_writer import FileWriter
from tidemark.spark_sink.tables.column_types import arrow_schema
from tidemark.spark_sink.tables.store_place import StorePlace

COLUMNS = {"a": "bigint", "b": "string", "c": "bigint", "note": "string"}
KEY = st.tuples(st.none() | st.integers(0, 3), st.sampled_from(["", "x", "xy", "z"]), st.integers(0, 30))
KEYS = st.lists(KEY, max_size=300, unique=True)


def rows_of(keys: Sequence[tuple[Any, ...]], columns: dict[str, str] = COLUMNS) -> pa.Table:
    return pa.Table.from_pylist(
        [dict(zip(columns, (*key, f"note {key}"), strict=True)) for key in keys], arrow_schema(columns)
    )


def written(root: Path, rows: pa.Table, key: Sequence[str], target: int, batches: Sequence[int]) -> list[DataFile]:
    writer = FileWriter(StorePlace.of(root), COLUMNS, key, target)
    start = 0
    for size in batches:
        writer.write(rows.slice(start, size))
        start += size
    writer.write(rows.slice(start))
    return writer.finish()


def read(root: Path, file: DataFile) -> pa.Table:
    return pq.ParquetFile(root / file.path).read()


@contextmanager
def longest_run(size: int) -> Iterator[None]:
    """Of a run, and of a row group, which is never longer."""
    before = file_writer._RUN_BYTES, file_writer._GROUP_BYTES
    file_writer._RUN_BYTES, file_writer._GROUP_BYTES = size, min(size, before[1])
    try:
        yield
    finally:
        file_writer._RUN_BYTES, file_writer._GROUP_BYTES = before


def values(table: pa.Table, name: str) -> list[Any]:
    """With a null as what is below all else."""
    return [-1 if value is None else value for value in table.column(name).to_pylist()]


def disjoint(first: pa.Table, second: pa.Table, key: Sequence[str]) -> bool:
    """Whether the boxes that enclose the keys of two files do not meet."""
    for name in key:
        one, two = values(first, name), values(second, name)
        if max(one) < min(two) or max(two) < min(one):
            return True
    return False


@settings(deadline=None)
@given(
    KEYS,
    st.integers(1, 4000),
    st.lists(st.integers(0, 60), max_size=8),
    st.sampled_from([100, 2000, 2**26]),
    st.integers(1, 3),
)
def test_a_box_of_key_ranges_alone_says_in_which_file_a_key_is(
    keys: list[tuple[int, str, int]], target: int, batches: list[int], longest: int, columns: int
) -> None:
    key = ["a", "b", "c"][:columns]
    unique = sorted({k[:columns]: k for k in keys}.values(), key=lambda k: (k[0] is not None, k))
    with tempfile.TemporaryDirectory() as folder, longest_run(longest):
        root = Path(folder)
        files = written(root, rows_of(unique), key, target, batches)

        tables = [read(root, file) for file in files]
        assert pa.concat_tables([rows_of([]), *tables]).equals(rows_of(unique))
        for i, table in enumerate(tables):
            assert all(disjoint(table, other, key) for other in tables[i + 1 :])
        assert [file.rows for file in files] == [table.num_rows for table in tables]
        assert {file.path: file.size for file in files} == {f.name: f.stat().st_size for f in root.iterdir()}


@settings(deadline=None)
@given(KEYS, st.integers(200, 4000), st.lists(st.integers(0, 60), max_size=8))
def test_rows_without_a_key_keep_their_order(keys: list[tuple[int, str, int]], target: int, batches: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        files = written(root, rows_of(keys), [], target, batches)

        assert pa.concat_tables([rows_of([]), *(read(root, file) for file in files)]).equals(rows_of(keys))


def many(leading: Sequence[int]) -> pa.Table:
    """Rows of about 30 compressed bytes, so many for each leading value."""
    noise = random.Random(0)
    keys = [(a, f"{i:06}", i) for a, count in enumerate(leading) for i in range(count)]
    return pa.table(
        {
            "a": [key[0] for key in keys],
            "b": [key[1] for key in keys],
            "c": [key[2] for key in keys],
            "note": [noise.randbytes(15).hex() for _ in keys],
        }
    )


@pytest.mark.parametrize("key", [["c"], [], ["a", "b"]])
def test_files_are_about_as_large_as_asked_for(tmp_path: Path, key: list[str]) -> None:
    rows = many([100_000])
    files = written(tmp_path, rows, key, 500_000, [10_000] * 10)

    assert all(400_000 < file.size < 650_000 for file in files[:-1])
    assert len(files) >= 3
    groups = [pq.ParquetFile(tmp_path / file.path).num_row_groups for file in files]
    assert max(groups) <= 8


def test_a_run_that_does_not_fit_begins_a_file_and_ends_one(tmp_path: Path) -> None:
    files = written(tmp_path, many([4_000, 50_000, 6_000]), ["a", "b"], 500_000, [5_000] * 12)

    held = [sorted(set(values(read(tmp_path, file), "a"))) for file in files]
    assert held[0] == [0]
    assert held[1:-1] == [[1]] * (len(held) - 2) and len(held) >= 4
    assert held[-1] == [2]


def test_nulls_of_a_leading_column_are_one_run(tmp_path: Path) -> None:
    rows = many([30_000, 2_000])
    nulls = pa.array([None] * 30_000 + [0] * 2_000, pa.int64())
    files = written(tmp_path, rows.set_column(0, "a", nulls), ["a", "b"], 500_000, [5_000] * 6)

    held = [set(values(read(tmp_path, file), "a")) for file in files]
    assert held == [{-1}] * (len(files) - 1) + [{0}] and len(files) >= 3


def test_runs_that_fit_share_a_file(tmp_path: Path) -> None:
    files = written(tmp_path, many([500] * 40), ["a", "b"], 200_000, [900] * 22)

    held = [set(read(tmp_path, file).column("a").to_pylist()) for file in files]
    assert all(not one & two for one, two in pairwise(held))
    assert all(120_000 < file.size < 250_000 for file in files[:-1])


def test_a_run_does_not_wait_in_memory_beyond_a_limit(tmp_path: Path) -> None:
    rows = many([1_000, 60_000])
    with longest_run(500_000):
        writer = FileWriter(StorePlace.of(tmp_path), COLUMNS, ["a", "b"], 10**8)
        for start in range(0, rows.num_rows, 1_000):
            writer.write(rows.slice(start, 1_000))
            assert writer._pending.nbytes < 700_000
    held = [sorted(set(values(read(tmp_path, file), "a"))) for file in writer.finish()]

    assert held == [[0], [1]]


def test_what_is_discarded_leaves_nothing(tmp_path: Path) -> None:
    writer = FileWriter(StorePlace.of(tmp_path), COLUMNS, ["c"], 100_000)
    writer.write(many([20_000]))
    assert len(list(tmp_path.iterdir())) > 1

    writer.discard()

    assert not list(tmp_path.iterdir())


def test_no_rows_are_no_files(tmp_path: Path) -> None:
    writer = FileWriter(StorePlace.of(tmp_path), COLUMNS, ["c"], 100_000)
    writer.write(rows_of([]))

    assert (writer.finish(), list(tmp_path.iterdir())) == ([], [])


def test_a_folder_that_cannot_be_made_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    writer = FileWriter(StorePlace.of(tmp_path / "taken" / "here"), COLUMNS, ["c"], 100_000)

    with pytest.raises(SparkError, match=r"TM-SPK-015.*taken/here.*Not a directory"):
        writer.write(rows_of([(1, "", 2)]))
        writer.finish()
