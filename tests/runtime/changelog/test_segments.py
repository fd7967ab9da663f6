"""What the writer of a segment says of its rows, against the slow and obvious way of finding it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.examples import examples, sample
from tests.protocol.segment_facts import segment_facts
from tests.runtime.changelog.shop import ORDER_SCHEMA, ORDERS, order
from tidemark.protocol.changelog import Column, Segment, TableSchema
from tidemark.protocol.changelog.models import DOCUMENT_COLUMN, LONGEST_RUN, MOST_RUNS
from tidemark.protocol.store.local import DirectoryStore
from tidemark.runtime.changelog.documents.decoder import decoder
from tidemark.runtime.changelog.segments.segment_writer import SegmentWriter
from tidemark.runtime.changelog.writer import LogWriter

POOLS: dict[str, list[Any]] = {
    "boolean": [False, True],
    "bigint": [-(2**63), -10, -9, 0, 9, 10, 2**63 - 1],
    "string": ["", "10", "9", "Z", "a", "é", "\uffff", "\U00010000", "é" * 128, "é" * 128 + "x"],
    "binary": [b"", b"\x00", b"a\x00", b"\x7f", b"\x80", b"\xff" * 256, b"\xff" * 257],
    "date": [date.min, date(999, 12, 31), date(1969, 12, 31), date(2026, 1, 31), date.max],
    "timestamp": [
        datetime.min.replace(tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
        datetime(2026, 1, 1, tzinfo=UTC),
        datetime(2026, 1, 1, 0, 0, 0, 1, UTC),
        datetime.max.replace(tzinfo=UTC),
    ],
    "timestamp_ntz": [datetime.min, datetime(2026, 1, 1), datetime(2026, 1, 1, 0, 0, 0, 1), datetime.max],
    "decimal(9,2)": [Decimal("-12.50"), Decimal("-9.00"), Decimal("0.00"), Decimal("9.00"), Decimal("10.01")],
    "decimal(38,0)": [Decimal(-(10**38) + 1), Decimal(9), Decimal(10), Decimal(10**38 - 1)],
    "double": [-0.5, 1.0, 2.0],
    "array<bigint>": [[], [1], [1, 2]],
}
"""Values by type, in their order, and two types of which nothing is stated."""


@dataclass(frozen=True)
class Case:
    """A table, and the rows of a segment of it, each list of them one row group."""

    schema: TableSchema
    groups: list[list[dict[str, Any]]]

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [row for group in self.groups for row in group]


def case(types: list[str], keys: list[tuple[Any, ...] | None], group_rows: int, marks: str = "s") -> Case:
    """A segment of these keys, offsets with gaps, the marks over and over: s backfilled, c captured, t a truncation."""
    names = [f"k{index}" for index in range(len(types))]
    columns = [Column(name=name, type=type_) for name, type_ in zip(names, types, strict=True)]
    schema = TableSchema(collection="t", columns=[*columns, Column(name="note", type="string")], key=names)
    rows = []
    for index, key in enumerate(keys):
        mark = marks[index % len(marks)]
        values = (None,) * len(names) if key is None or mark == "t" else key
        own = dict(zip(names, values, strict=True))
        meta = {"_op": "t" if mark == "t" else "c", "_offset": 7 + 3 * index, "_snapshot": mark == "s"}
        rows.append(own | meta)
    return Case(schema, [rows[start : start + group_rows] for start in range(0, len(rows), group_rows)])


@st.composite
def cases(draw: st.DrawFn) -> Case:
    usual = st.sampled_from([type_ for type_ in POOLS if type_ not in ("double", "array<bigint>")])
    types = draw(st.lists(usual | st.sampled_from(list(POOLS)), min_size=1, max_size=3))
    pools = [draw(st.lists(st.sampled_from(POOLS[type_]), min_size=1, max_size=6)) for type_ in types]
    keys: list[tuple[Any, ...] | None] = []
    for _ in range(draw(st.integers(1, 5))):
        stretch = draw(st.lists(st.tuples(*map(st.sampled_from, pools)), min_size=1, max_size=8))
        keys += sorted(stretch) if draw(st.booleans()) else stretch
    keys *= draw(st.sampled_from([1, 1, 2, MOST_RUNS]))
    if draw(st.integers(0, 5)) == 0:
        keys[draw(st.integers(0, len(keys) - 1))] = None
    marks = draw(st.text(st.sampled_from("ssscct"), min_size=1, max_size=6))
    return case(types, keys, draw(st.integers(1, len(keys))), marks)


def written(root: Path, made: Case, least: int, longest: int = LONGEST_RUN) -> tuple[Segment, list[pa.Table]]:
    """The segment that the writer makes of it, and the tables it was given."""
    schema = decoder(made.schema, frozenset()).arrow_schema
    path, fingerprint = "data/t/1-1-0.parquet", made.schema.fingerprint
    writer = SegmentWriter(
        DirectoryStore(root), path, made.schema, fingerprint, schema, group_rows=least, longest_run=longest
    )
    tables = []
    for group in made.groups:
        # In pieces, as decoded documents come.
        pieces = [pa.RecordBatch.from_pylist(group[start : start + 3], schema) for start in range(0, len(group), 3)]
        tables.append(pa.Table.from_batches(pieces))
        writer.write(tables[-1])
    return writer.finish(), tables


def check(made: Case, least: int = 3, longest: int = LONGEST_RUN) -> Segment:
    with tempfile.TemporaryDirectory() as folder:
        segment, tables = written(Path(folder), made, least, longest)
        assert pq.read_table(Path(folder, segment.path)).equals(pa.concat_tables(tables))
    told = {name: getattr(segment, name) for name in ("truncated_at", "key_min", "key_max", "runs")}
    assert told == segment_facts(made.schema, made.rows, longest)
    assert segment.uncompressed == sum(table.nbytes for table in tables)
    assert Segment.model_validate_json(segment.model_dump_json()) == segment
    return segment


# An example takes a tenth of a second.
@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cases(), st.integers(1, 9))
@example(case(["bigint", "string"], [(1, "b"), (1, "c"), (2, "a"), (2, "a")], 1), 2)
@example(case(["string"], [("é" * 128 + "x",)], 1), 1)
@example(case(["string"], [("a",), ("é" * 128 + "x",), ("z",)], 3), 1)
def test_a_segment_says_what_its_rows_are(made: Case, least: int) -> None:
    check(made, least)


KEYS: dict[str, Callable[[int], tuple[Any, ...]]] = {
    "bigint": lambda number: (number,),
    "decimal(38,0)": lambda number: (Decimal(number),),
    "date": lambda number: (date(1970, 1, 1) + timedelta(number),),
    "timestamp": lambda number: (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=number),),
    "string": lambda number: (f"order {number * 7919:08x}-{number}",),
    "binary": lambda number: (b"\0\xff" + (number * 7919).to_bytes(4, "big"),),
    "boolean bigint": lambda number: (True, number),
}


@pytest.mark.heavy
# All rows of the backfill: of one type only.
@pytest.mark.drawn(3)
@pytest.mark.parametrize(
    ("types", "marks"),
    sample(
        [(types, marks) for types in KEYS for marks in ("s", "ssssssc")],
        [("bigint", "s"), *((types, "ssssssc") for types in KEYS)],
    ),
)
def test_ranges_that_come_in_turn_have_runs_and_row_groups_of_their_own(tmp_path: Path, types: str, marks: str) -> None:
    # Rows of one range and of the next one ascend, but for the turn from the last range to the first.
    numbers = [range_ * 40_000 + chunk * 1500 + row for chunk in range(3) for range_ in range(4) for row in range(1500)]
    made = case(types.split(), [KEYS[types](number) for number in numbers], 2000, marks)
    segment, _ = written(tmp_path, made, least=200)
    range_of = {row["_offset"]: number // 40_000 for row, number in zip(made.rows, numbers, strict=True)}
    with pq.ParquetFile(tmp_path / segment.path) as file:
        for index in range(file.num_row_groups):
            rows = file.read_row_group(index, columns=["_offset", "_snapshot"]).to_pylist()
            assert len({range_of[row["_offset"]] for row in rows if row["_snapshot"]}) == 1
    assert segment.runs is not None
    assert len(segment.runs) == 12
    for run in segment.runs:
        assert range_of[run.first_offset] == range_of[run.last_offset]


@pytest.mark.heavy
@pytest.mark.drawn(2)
@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("bigint", lambda number: number),
        ("string", lambda number: f"{number:015x}"),
        ("string", lambda number: f"order {number:019}"),
        ("string", lambda number: str(UUID(int=number << 68))),
        ("binary", lambda number: number.to_bytes(8, "big")),
    ],
)
def test_keys_without_gaps_have_no_jumps(tmp_path: Path, type_: str, value: Callable[[int], Any]) -> None:
    keys = sorted(Random(3).sample(range(2**60), 20_000))
    segment, _ = written(tmp_path, case([type_], [(value(key),) for key in keys], 10_000), least=200)
    assert segment.runs is not None
    assert [run.rows for run in segment.runs] == [16_384, 3_616]


@settings(max_examples=examples(20), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cases(), st.integers(1, 7))
def test_a_run_has_so_many_rows_and_no_more(made: Case, longest: int) -> None:
    check(made, longest=longest)


def test_so_many_runs_are_stated_and_no_more() -> None:
    # Each key lower than the one before. A row group of its own, or several of them.
    for group_rows in (1, 10, 1000):
        keys: list[tuple[Any, ...] | None] = [(key,) for key in range(MOST_RUNS, -1, -1)]
        runs = check(case(["bigint"], keys[:-1], group_rows)).runs
        assert runs is not None
        assert len(runs) == MOST_RUNS
        assert check(case(["bigint"], keys, group_rows)).runs is None


def test_a_run_goes_on_over_row_groups_and_rows_of_the_log() -> None:
    keys: list[tuple[Any, ...] | None] = [(1,), (900,), (2,), (-900,), (3,), (0,)]
    segment = check(case(["bigint"], keys, group_rows=2, marks="sc"))
    assert segment.runs is not None
    (run,) = segment.runs
    assert (run.first, run.last, run.rows, run.first_offset, run.last_offset) == ([1], [3], 3, 7, 19)
    assert (segment.key_min, segment.key_max) == ([-900], [900])


def test_a_value_of_every_type_is_stated() -> None:
    types = [type_ for type_ in POOLS if type_ not in ("double", "array<bigint>")]
    key = tuple(POOLS[type_][0] for type_ in types)
    assert check(case(types, [key], 1)).key_min == [
        *(False, -(2**63), "", "", "0001-01-01", "0001-01-01T00:00:00.000000Z", "0001-01-01T00:00:00.000000"),
        *("-12.50", "-" + "9" * 38),
    ]


def test_a_key_that_is_no_column_is_not_stated() -> None:
    document = TableSchema(collection="t", columns=[Column(name=DOCUMENT_COLUMN, type="string")], key=["id"])
    rows = [{DOCUMENT_COLUMN: "{}", "_op": "c", "_offset": n, "_snapshot": True} for n in range(3)]
    assert check(Case(document, [rows])).runs is None
    without_key = document.model_copy(update={"key": []})
    assert check(Case(without_key, [rows])).runs is None
    assert check(Case(without_key, [[row | {"_snapshot": False} for row in rows]])).runs == []


def test_a_committed_segment_says_it_all(tmp_path: Path) -> None:
    with LogWriter.open(tmp_path, "shop") as log:
        orders = log.bind(ORDERS, ORDER_SCHEMA, ["id"])
        batch = log.begin()
        batch.add(orders, [order(id, note="x" * 1000, source={"snapshot": True}) for id in range(1000)])
        batch.add(orders, [b'{"_meta":{"op":"t"}}', order(5000), b'{"_meta":{"op":"t"}}', order(-7, "d")])
        (segment,) = log.commit(batch, {}, 1).segments
    assert segment.runs is not None
    assert [(run.first, run.last, run.rows, run.last_offset) for run in segment.runs] == [([0], [999], 1000, 999)]
    assert (segment.key_min, segment.key_max, segment.truncated_at) == ([-7], [5000], 1002)
    assert segment.size < 1_000_000 < segment.uncompressed < 1_200_000


def test_only_columns_of_few_values_have_dictionaries(tmp_path: Path) -> None:
    keys: list[tuple[Any, ...] | None] = [
        (number, f"{number:08x}", "same", Decimal(number % 9)) for number in range(3000)
    ]
    segment, _ = written(tmp_path, case(["bigint", "string", "string", "decimal(9,2)"], keys, 3000), least=1)
    with pq.ParquetFile(tmp_path / segment.path) as file:
        columns = [file.metadata.row_group(0).column(place) for place in range(file.metadata.num_columns)]
    how = {column.path_in_schema: set(column.encodings) - {"RLE", "PLAIN"} for column in columns}
    few, steps = {"RLE_DICTIONARY"}, {"DELTA_BINARY_PACKED"}
    assert [how[name] for name in ("k0", "k1", "k2", "k3", "_offset", "_commit_ts")] == [
        *(steps, set(), few, few, steps, steps),
    ]
