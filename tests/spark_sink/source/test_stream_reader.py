from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.datasource import DataSourceStreamReader

from spark_sink.spark_failures import tidemark_error
from tests.spark_sink.log_builder import LogBuilder, create, schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = pytest.mark.spark

admission = pytest.mark.skipif(
    not hasattr(DataSourceStreamReader, "getDefaultReadLimit"),
    reason="before PySpark 4.2 a Python source cannot say how much a batch may hold",
)


class Sink:
    """Runs AvailableNow queries with one checkpoint and notes the offsets of every batch."""

    def __init__(self, spark: SparkSession, checkpoint: Path) -> None:
        self.spark = spark
        self.checkpoint = checkpoint
        self.batches: list[list[int]] = []

    def run(self, log: LogBuilder, **options: Any) -> StreamingQuery:
        self.batches = []
        stream = self.spark.readStream.format("tidemark").options(
            **{"path": str(log.root), "table": "public.items", **options}
        )
        query = (
            stream.load()
            .writeStream.foreachBatch(self._note)
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return query

    def _note(self, batch: DataFrame, number: int) -> None:
        self.batches.append(sorted(row["_offset"] for row in batch.select("_offset").collect()))


@pytest.fixture
def sink(spark: SparkSession, tmp_path: Path) -> Sink:
    return Sink(spark, tmp_path / "checkpoint")


@admission
def test_batches_end_on_commits_and_a_restart_goes_on(sink: Sink, log: LogBuilder) -> None:
    for size in (2, 2, 3, 1):
        log.commit(*map(create, range(size)))

    query = sink.run(log, maxEventsPerBatch=4)

    assert sink.batches == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert query.lastProgress
    source = query.lastProgress.sources[0]
    assert json.loads(source.endOffset) == json.loads(source.latestOffset) == {"v": 1, "log": "log-1", "offset": 8}

    sink.run(log)
    assert sink.batches == []

    log.commit(create(1))
    sink.run(log)
    assert sink.batches == [[8]]


def test_without_its_checkpoint_it_reads_the_same_again(sink: Sink, log: LogBuilder) -> None:
    log.commit(create(1), create(2))
    sink.run(log)
    shutil.rmtree(sink.checkpoint)

    sink.run(log)

    assert sink.batches == [[0, 1]]


@admission
def test_bytes_limit_batches(sink: Sink, log: LogBuilder) -> None:
    size = max(log.commit(create(i)).segments[0].size for i in range(4))

    sink.run(log, maxBytesPerBatch=2 * size)

    assert sink.batches == [[0, 1], [2, 3]]


def test_it_starts_where_it_is_told_to(sink: Sink, log: LogBuilder) -> None:
    for i in range(3):
        log.commit(create(i), create(i))

    sink.run(log, startingOffset=3)

    assert sink.batches == [[3, 4, 5]]


@admission
def test_other_tables_do_not_wake_it(sink: Sink, log: LogBuilder) -> None:
    log.change_schema(schema("public/others"))
    log.commit(create(1))
    sink.run(log)
    log.commit(create(1, table="public/others"))

    sink.run(log)
    assert sink.batches == []

    log.commit(create(2))
    sink.run(log)
    assert sink.batches == [[2]]


def failure(sink: Sink, log: LogBuilder, **options: Any) -> str:
    with pytest.raises(StreamingQueryException) as caught:
        sink.run(log, **options)
    return str(tidemark_error(caught.value))


def test_a_checkpoint_of_another_log_is_refused(sink: Sink, log: LogBuilder, tmp_path: Path) -> None:
    log.commit(create(1))
    sink.run(log)
    replaced = LogBuilder(tmp_path / "other", log_id="log-2")
    for i in range(3):
        replaced.commit(create(i))

    assert failure(sink, replaced).startswith("TM-SPK-006: the checkpoint is not of the change log")


def test_a_log_that_lost_commits_is_refused(sink: Sink, log: LogBuilder, tmp_path: Path) -> None:
    log.commit(create(1))
    log.commit(create(2))
    sink.run(log)
    restored = LogBuilder(tmp_path / "restored")
    restored.commit(create(1))

    assert failure(sink, restored).startswith("TM-SPK-006: the checkpoint is at offset 2")


def test_an_end_is_not_for_streams(sink: Sink, log: LogBuilder) -> None:
    log.commit(create(1))

    assert failure(sink, log, endingOffset=1).startswith("TM-SPK-003")
