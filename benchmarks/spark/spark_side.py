"""What the benchmarks of Spark share: a session, processor time of all that it started, and the work by hand.

By hand is what one writes who knows what the log holds and needs it once: Spark reads the segments with its own Parquet
reader, keeps the newest event of each key, writes Parquet natively, and ``deltalake`` commits the files. No table is
kept up, nothing is resumed, no column may be missing.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, Schema
from deltalake.transaction import AddAction, create_table_with_add_actions
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.processor_time import Spent, tree_seconds
from tidemark.protocol.changelog import ChangeLog
from tidemark.spark_sink.pipeline.keep import keep
from tidemark.spark_sink.run.report import MaterializeReport
from tidemark.spark_sink.run.settings import KeepSettings
from tidemark.spark_sink.spark.spark_session import open_session
from tidemark.spark_sink.tables.kept_tables import KeepRules
from tidemark.spark_sink.tables.store_place import StorePlace

_MICROS = pa.timestamp("us", "UTC")


@contextmanager
def spent() -> Iterator[Spent]:
    """What is spent inside; known at the end. Only on Linux."""
    result = Spent()
    began, cpu = time.perf_counter(), tree_seconds(os.getpid())
    yield result
    result.seconds, result.ours = time.perf_counter() - began, tree_seconds(os.getpid()) - cpu


def warm_session() -> SparkSession:
    """A local session that has run a job of each kind, so that no side pays for what happens once."""
    if sys.platform != "linux":
        sys.exit("processor time of a tree of processes is known on Linux only")
    spark, _ = open_session(None, {})
    numbers = spark.range(0, 100_000, 1, 4)
    numbers.groupBy((F.col("id") % 10).alias("k")).agg(F.max(F.struct("id"))).collect()
    numbers.mapInArrow(_counted, "rows bigint").collect()
    return spark


def ours(
    spark: SparkSession, log: Path, warehouse: Path, tables: dict[str, str | list[str]] | None = None
) -> MaterializeReport:
    """``materialize`` of all tables, once."""
    rules = KeepRules(tables or {"*": "current"})
    report = keep(KeepSettings(StorePlace.of(log), StorePlace.of(warehouse), rules), lambda: spark)
    if report.set_aside:
        sys.exit(f"a table was set aside: {report.set_aside[0].error}")
    return report


def segments(log: Path, collection: str, start: int = 0) -> list[str]:
    """Paths of a collection's segments from an offset on."""
    source = ChangeLog(log)
    return [str(log / segment.path) for segment in source.segments(collection, start, source.end())]


def newest(spark: SparkSession, paths: list[str], key: str = "id") -> DataFrame:
    """The newest event of each key, by the cheapest aggregate there is, unless it is a delete."""
    events = spark.read.parquet(*paths)
    kept = [name for name in events.columns if not name.startswith("_") or name in ("_commit_ts",)]
    last = events.groupBy(key).agg(F.max(F.struct("_offset", "_op", *(n for n in kept if n != key))).alias("last"))
    return last.where("last._op <> 'd'").select(key, "last.*").drop("_op")


def load_by_hand(spark: SparkSession, log: Path, table: Path, collection: str) -> int:
    """Makes a Delta table of a log. Returns its rows."""
    newest(spark, segments(log, collection)).write.option("compression", "zstd").parquet(str(table))
    return commit_of_files(table)


def commit_of_files(table: Path) -> int:
    """Makes a Delta table of the Parquet files in a folder. Returns its rows."""
    files = sorted(table.glob("*.parquet"))
    schema: pa.Schema = pq.read_schema(files[0])
    fields = [(field.name, _MICROS if pa.types.is_timestamp(field.type) else field.type) for field in schema]
    now = time.time_ns() // 10**6
    rows = [pq.read_metadata(file).num_rows for file in files]
    adds = [
        AddAction(file.name, file.stat().st_size, {}, now, True, f'{{"numRecords":{count}}}')
        for file, count in zip(files, rows, strict=True)
    ]
    create_table_with_add_actions(str(table), Schema.from_arrow(pa.schema(fields)), adds)
    return sum(rows)


def rows_of(table: Path) -> int:
    """How many rows a Delta table has."""
    return DeltaTable(str(table)).count()


def peak_megabytes() -> float:
    """The most memory that this process had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def timed(work: Callable[[], object]) -> Spent:
    """Does a piece of work, and says what it took."""
    with spent() as result:
        work()
    return result


def _counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pydict({"rows": [sum(batch.num_rows for batch in batches)]})
