"""An archive of Spark's classes: ``python -m tests.spark_classes FILE`` makes it, and tests' JVMs take it.

A JVM that loads Spark from its jars takes 20 s of a processor for a session and four small queries, and 11 s from the
archive. The tests start dozens. A JVM that the archive does not fit, since Java or Spark is another one, does without.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql import DataFrame

ARCHIVE = Path(sys.prefix) / "spark.jsa"

# Runs of tests are too short to pay for the optimizing compiler and for threads that collect garbage: without them a
# session takes half the processor time. Without that compiler a JVM reserves 48 MB for compiled code and not 240 MB;
# the session of a whole run fills them. What a JVM thinks of an archive would stand in a command's output.
LEAN = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC -Xlog:disable"


def java_options() -> str:
    """Options of every JVM that a test starts for Spark, as Spark's launcher splits them."""
    return f'{LEAN} "-XX:SharedArchiveFile={ARCHIVE}"' if ARCHIVE.exists() else LEAN


def make(archive: Path) -> None:
    """Does a little of all that the tests do, in a JVM that archives what it has loaded when it ends."""
    os.environ["SPARK_SUBMIT_OPTS"] = f'{LEAN} "-XX:ArchiveClassesAtExit={archive}"'
    from pyspark import SparkContext

    from tidemark import register
    from tidemark.spark_sink.spark.spark_session import open_session

    session, _ = open_session("local[2]", {"spark.app.name": "tidemark tests"})
    register(session)
    with tempfile.TemporaryDirectory() as folder:
        rows = session.range(100).selectExpr("id", "id % 3 AS third", "CAST(id AS string) AS name")
        rows.write.parquet(f"{folder}/rows")
        session.read.parquet(f"{folder}/rows").createOrReplaceTempView("rows")
        session.sql("SELECT third, count(*), max(name) FROM rows GROUP BY third").toArrow()
        session.sql("SELECT * FROM rows a JOIN rows b ON a.id = b.third ORDER BY a.id").collect()
        session.table("rows").mapInArrow(_unchanged, "id bigint, third bigint, name string").collect()
        stream = session.readStream.schema(rows.schema).parquet(f"{folder}/rows").writeStream
        stream.foreachBatch(_taken).trigger(availableNow=True).start().awaitTermination()
    session.stop()
    gateway = SparkContext._gateway
    assert gateway is not None
    gateway.shutdown()
    gateway.proc.stdin.close()  # The JVM ends with it.
    gateway.proc.wait()


def _unchanged(batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
    return batches


def _taken(batch: DataFrame, number: int) -> None:
    batch.count()


if __name__ == "__main__":
    make(Path(sys.argv[1]).resolve())
