"""Runs assignments as Spark jobs, and collects the reports. No rows return to the driver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidemark.protocol.errors import SparkError
from tidemark.spark_sink.changes.key_order import Place, place
from tidemark.spark_sink.parts.part_tasks import REPORT, Assignment, TaskReport, bundles, performed, routed
from tidemark.spark_sink.parts.routing import route
from tidemark.spark_sink.source.arrow_handover import packed
from tidemark.spark_sink.spark.failures import spark_exceptions
from tidemark.spark_sink.spark.spark_session import is_connect
from tidemark.spark_sink.tables.column_types import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PLACE = "__tidemark_place"
_SALTS_A_PARTITION = 32
"""How many numbers are tried per partition, until one of them hashes into it. If none does, more are tried."""

SAMPLED = 4096
"""How many keys of events are sampled."""


class SparkJobs:
    """Runs jobs in a session, which is requested for the first job."""

    def __init__(self, session: Callable[[], SparkSession]) -> None:
        self._session = session
        self._opened: SparkSession | None = None
        self._salts: dict[int, list[int]] = {}

    @property
    def spark(self) -> SparkSession:
        """The session. Raises ``TM-SPK-013`` when it has ended."""
        self.open()
        assert self._opened is not None
        if not is_connect(self._opened) and self._opened.sparkContext._jsc is None:
            raise SparkError("TM-SPK-013", "the Spark session has ended")
        return self._opened

    @property
    def is_open(self) -> bool:
        """Whether the session was opened."""
        return self._opened is not None

    def open(self) -> None:
        """Opens the session where it is not open yet. What goes wrong there is of no single table."""
        if self._opened is None:
            self._opened = self._session()

    def is_alive(self) -> bool:
        """Whether the session can still run jobs."""
        try:
            return bool(self.spark.range(1).collect())
        except SparkError:
            return False
        except spark_exceptions():
            return False

    @property
    def parallelism(self) -> int:
        """About how many tasks the session runs in parallel."""
        spark = self.spark
        if is_connect(spark):
            return int(spark.conf.get("spark.sql.shuffle.partitions") or 2)
        return max(spark.sparkContext.defaultParallelism, 1)

    def run(self, work: Sequence[Sequence[Assignment]], description: str) -> list[TaskReport]:
        """Performs bundles of assignments, one task for each bundle.

        Raises:
            PySparkException: A task failed repeatedly, for example because its process died.
        """
        self._describe(description)
        if is_connect(self.spark):
            numbers = self.spark.range(0, len(work), 1, len(work))
            return _reports(numbers.mapInArrow(bundles(work), REPORT))
        # An RDD, where there is one: no query is to be planned and compiled, which takes a new session seconds.
        tasks = self.spark.sparkContext.parallelize(work, len(work))
        return [TaskReport.parse(report) for report in tasks.flatMap(performed).collect()]

    def run_routed(
        self,
        work: Sequence[Assignment],
        events: DataFrame,
        bounds: Sequence[Place],
        key: Sequence[str],
        types: Sequence[str],
        description: str,
    ) -> list[TaskReport]:
        """Performs assignments with a shuffle: Spark reads the events, and sorts them in the task of their key range.

        Args:
            work: One assignment for each range.
            events: The table's columns and those of ``EVENT_META``, in this order.
            bounds: The begins of all ranges but the first.
            key: Names of the key's columns.
            types: Their Spark types.
            description: Of the job, for Spark's pages.
        """
        from pyspark.sql import functions as F

        count = len(work)
        placed = events.withColumn(_PLACE, F.expr(route(key, types, bounds)))
        # A partition without events must run too, since its sources must be written.
        marks = self.spark.range(0, count, 1, 1).select(
            *(F.lit(None).cast(field.dataType).alias(field.name) for field in events.schema.fields),
            F.col("id").cast("int").alias(_PLACE),
        )
        salts = F.expr(f"array({', '.join(f'{salt}L' for salt in self._salts_of(count))})")
        partitioned = placed.unionAll(marks).repartition(count, F.get(salts, F.col(_PLACE)))
        order = [F.col(quoted(name)).asc_nulls_first() for name in key]
        ordered = partitioned.sortWithinPartitions(*order, F.col("_offset").asc_nulls_first())
        self._describe(description)
        return _reports(packed(ordered).mapInArrow(routed(work), REPORT))

    def sample(self, events: DataFrame, key: Sequence[str], count: int) -> list[Place]:
        """A random sample of the keys of ``count`` events, in order. Spark's range partitioning samples so too."""
        keys = events.select(*(quoted(name) for name in key))
        fraction = min(1.0, SAMPLED / max(count, 1))
        self._describe("looking where keys lie")
        drawn: pa.Table = keys.sample(fraction, 1).toArrow()
        columns: list[list[Any]] = []
        for column in drawn.columns:
            plain: Any = column.cast(_plain(column.type))
            columns.append(plain.to_pylist())
        return sorted(place(values) for values in zip(*columns, strict=True))

    def _salts_of(self, count: int) -> list[int]:
        """For each of ``count`` partitions a number that Spark's hash assigns to it."""
        if count not in self._salts:
            found: dict[int, int] = {}
            tried = 0
            while len(found) < count:
                more = tried + count * _SALTS_A_PARTITION
                rows = self.spark.range(tried, more, 1, 1).selectExpr("id", f"pmod(hash(id), {count}) AS place")
                for row in rows.collect():
                    found.setdefault(row["place"], row["id"])
                tried = more
            self._salts[count] = [found[place] for place in range(count)]
        return self._salts[count]

    def _describe(self, description: str) -> None:
        if not is_connect(self.spark):
            self.spark.sparkContext.setJobDescription(f"tidemark: {description}")


def _plain(type_: pa.DataType) -> pa.DataType:
    """The type in UTC. Timestamps arrive in the session's time zone."""
    return pa.timestamp("us", tz="UTC") if pa.types.is_timestamp(type_) and type_.tz else type_


def _reports(frame: DataFrame) -> list[TaskReport]:
    return [TaskReport.parse(row["report"]) for row in frame.collect()]
