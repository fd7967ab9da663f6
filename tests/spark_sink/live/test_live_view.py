from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from tests.spark_sink.live.random_log import WIDE, RandomLog, State, random_log
from tests.spark_sink.live.test_table_view import folded, map_columns
from tests.spark_sink.log_builder import EPOCH, Event, LogBuilder, create
from tidemark import read_table, read_tables
from tidemark.protocol.errors import SparkError
from tidemark.spark_sink.live.read_table import live_frame
from tidemark.spark_sink.live.table_view import TailLimits, end_of, table_view
from tidemark.spark_sink.source.followed_log import FollowedLog
from tidemark.spark_sink.spark.failures import tidemark_error
from tidemark.spark_sink.tables.store_place import StorePlace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

Moment = tuple[str, int | None]
"""A collection, and the offset as of which it is read; None for now."""

Form = Callable[["SparkSession", RandomLog, Moment, TailLimits], "DataFrame"]


def native(spark: SparkSession, made: RandomLog, moment: Moment, limits: TailLimits) -> DataFrame:
    log = FollowedLog(made.log.root)
    view = table_view(log, moment[0], end_of(log, moment[1]), StorePlace.of(made.warehouse))
    return live_frame(spark, replace(view, limits=limits))


def sql(spark: SparkSession, made: RandomLog, moment: Moment, _: TailLimits) -> DataFrame:
    reader = spark.read.format("tidemark").option("path", str(made.log.root)).option("table", moment[0])
    reader = reader.option("state", "current").option("warehouse", str(made.warehouse))
    return (reader if moment[1] is None else reader.option("asOf", str(moment[1]))).load()


LIMITS = {"tiny": TailLimits(), "small": TailLimits(rows=0), "large": TailLimits(keys=0)}


def states(frames: Sequence[DataFrame]) -> list[State]:
    """The rows of each frame, all collected in one job."""
    from pyspark.sql import functions as F

    names = [*WIDE, "_offset", "_commit_ts"]
    marked = [
        frame.select(
            F.lit(i), *((F.col(n) if n in frame.columns else F.lit(None).cast(WIDE[n])).alias(n) for n in names)
        )
        for i, frame in enumerate(frames)
    ]
    found: list[list[tuple[object, ...]]] = [[] for _ in frames]
    for row in reduce(lambda a, b: a.union(b), marked).collect():
        found[row[0]].append(tuple(row[1:]))
    assert all(len(rows) == len(set(rows)) for rows in found)
    return [set(rows) for rows in found]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> RandomLog:
    chance = random.Random(13)
    made = random_log(chance, tmp_path_factory.mktemp("live"), tables=3, commits=5)
    made.fold_at_random(chance)
    return made


@pytest.mark.drawn(2)
@pytest.mark.parametrize(("form", "tail"), [(native, "tiny"), (native, "small"), (native, "large"), (sql, "small")])
def test_a_view_is_what_a_replay_gives(spark: SparkSession, made: RandomLog, form: Form, tail: str) -> None:
    """Tables that were never folded, or up to three times; now, after each of some commits, and inside of them."""
    chance = random.Random(tail)
    end = made.boundaries[-1]
    moments: list[Moment] = [(collection, None) for collection in made.widened]
    moments += [(c, o) for c, o in zip(made.widened, chance.sample(range(end), 2), strict=False)]

    found = states([form(spark, made, moment, LIMITS[tail]) for moment in moments])

    expected = [made.state(collection, end if offset is None else offset) for collection, offset in moments]
    wrong = [moment for moment, a, b in zip(moments, found, expected, strict=True) if a != b]
    assert not wrong


def test_tables_are_read_at_one_offset(spark: SparkSession, made: RandomLog) -> None:
    offset = made.boundaries[3] - 1
    names = [collection.replace("/", ".") for collection in made.widened]

    tables = read_tables(spark, made.log.root, names[:2], offset, made.warehouse)

    assert list(tables) == names[:2]
    assert states(list(tables.values())) == [made.state(collection, offset) for collection in list(made.widened)[:2]]


def test_a_view_in_sql(spark: SparkSession, log: LogBuilder) -> None:
    log.commit(create(1, "a"), create(2, "b"))
    log.commit(Event("d", {"id": 1}), create(3, "c"))
    options = f"path '{log.root}', table 'public.items', state 'current'"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW items USING tidemark OPTIONS ({options})")
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW then USING tidemark OPTIONS ({options}, asOf '2026-01-01T00:00:01Z')")

    now = spark.sql("SELECT id, name, _offset FROM items ORDER BY id").collect()
    assert [tuple(row) for row in now] == [(2, "b", 1), (3, "c", 3)]
    assert spark.sql("SELECT sum(id) FROM then").collect()[0][0] == 3

    log.commit(create(4))
    # A view is of the moment when it was first asked; made again, it is of this one.
    assert spark.sql("SELECT count(*) FROM items").collect()[0][0] == 2
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW items USING tidemark OPTIONS ({options})")
    assert spark.sql("SELECT count(*) FROM items").collect()[0][0] == 3


def test_a_given_schema_pins_and_prunes(spark: SparkSession, log: LogBuilder) -> None:
    log.commit(create(1, "a", "x"))
    reader = spark.read.format("tidemark").options(path=str(log.root), table="public.items", state="current")

    rows = reader.schema("name string, id decimal(20,0), missing date").load()

    assert [(row["name"], int(row["id"]), row["missing"]) for row in rows.collect()] == [("a", 1, None)]
    with pytest.raises(Exception, match="TM-SPK-005") as caught:
        reader.schema("id date").load().collect()
    assert tidemark_error(caught.value).code == "TM-SPK-005"


def test_a_frame_stays_what_it_was_when_it_was_made(spark: SparkSession, log: LogBuilder, tmp_path: Path) -> None:
    log.commit(create(1, "a"))
    folded(log, tmp_path, 1)
    log.commit(Event("u", {"id": 1, "name": "b"}, unchanged=("note",)), create(2))
    frame = read_table(spark, log.root, "public.items", warehouse=tmp_path)

    log.commit(Event("t"))
    folded(log, tmp_path, 4)

    assert sorted((row["id"], row["name"]) for row in frame.collect()) == [(1, "b"), (2, None)]
    assert read_table(spark, log.root, "public.items", EPOCH + timedelta(seconds=1), tmp_path).count() == 1


def test_a_capture_file_names_log_and_warehouse(spark: SparkSession, log: LogBuilder, tmp_path: Path) -> None:
    log.commit(create(1, "of the log"))
    folded(log, tmp_path / "lake", 1)
    file = tmp_path / "shop.yaml"
    file.write_text(
        f"capture: shop\nconnector: {{command: [none]}}\nlog: ./{log.root.name}\nspark: {{warehouse: ./lake}}\n"
    )

    assert read_table(spark, file, "public.items").collect()[0]["name"] == "a"


def test_columns_and_filters_reach_the_files_of_the_base(spark: SparkSession, log: LogBuilder, tmp_path: Path) -> None:
    log.commit(create(1, "a"))
    folded(log, tmp_path, 1)
    log.commit(create(1, "b"))
    frame = read_table(spark, log.root, "public.items", warehouse=tmp_path).where("name = 'a'").select("name")
    execution: Any = frame._jdf.queryExecution()

    scans = [line for line in execution.executedPlan().toString().splitlines() if "FileScan" in line]
    scans = [scan for scan in scans if "_op#" not in scan]

    assert scans
    for scan in scans:
        assert "EqualTo(name,a)" in scan
        assert "ReadSchema: struct<id:bigint,name:string>" in scan
    # After the overlay, though: the row's name is another one now.
    assert frame.count() == 0


class DeltaByHand(DataSource):
    """Stands for Delta Lake for Spark, which this session has not: reads the files of a version."""

    @classmethod
    def name(cls) -> str:
        return "delta"

    def schema(self) -> str:
        assert self.options["versionasof"] == "1"
        return "id bigint, name string, note string, _offset bigint, _commit_ts timestamp"

    def reader(self, schema: StructType) -> DataSourceReader:
        return FilesReader(self.options["path"])


class FilesReader(DataSourceReader):
    def __init__(self, path: str) -> None:
        self.path = path

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        for file in Path(self.path).glob("*.parquet"):
            yield from pq.read_table(file).to_batches()


def test_a_base_with_a_feature_of_another_engine_is_read_by_it(
    spark: SparkSession, log: LogBuilder, tmp_path: Path
) -> None:
    log.commit(create(1, "a"))
    map_columns(folded(log, tmp_path, 1))
    log.commit(Event("u", {"id": 1, "name": "b"}, unchanged=("note",)), create(2))
    with pytest.raises(SparkError, match="TM-SPK-018"):
        read_table(spark, log.root, "public.items", warehouse=tmp_path)

    other = spark.newSession()
    other.dataSource.register(DeltaByHand)
    rows = read_table(other, log.root, "public.items", warehouse=tmp_path).collect()

    assert sorted((row["id"], row["name"]) for row in rows) == [(1, "b"), (2, None)]
