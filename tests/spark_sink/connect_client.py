"""``python -m tests.spark_sink.connect_client FILE``: a client of Spark Connect that does all that a session is for.

The session is the one that ``SPARK_REMOTE`` says. The client says as a line of JSON what it got of ``public.items`` of
the capture file's log: in each way of reading, and of each run of ``materialize``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidemark import materialize, read_changes, read_table, register
from tidemark.protocol.capture_file import read_capture_file
from tidemark.spark_sink.spark.spark_session import open_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidemark.spark_sink.run.settings import Way

TABLE = "public.items"


def ids(frame: DataFrame) -> list[int]:
    return sorted(row["id"] for row in frame.select("id").collect())


def main(file: str) -> None:
    spark, _ = open_session(None, {})
    register(spark)
    read = read_capture_file(Path(file))
    log = str(read.log)
    checkpoint, copy = Path(file).parent / "checkpoint", str(Path(file).parent / "copy")
    events = spark.readStream.format("tidemark").option("path", log).option("table", TABLE).load()
    written = events.writeStream.format("parquet").option("checkpointLocation", str(checkpoint)).option("path", copy)
    written.trigger(availableNow=True).start().awaitTermination()
    said: dict[str, Any] = {
        "session": type(spark).__module__,
        "batch": ids(spark.read.format("tidemark").option("path", log).option("table", TABLE).load()),
        "stream": ids(spark.read.parquet(copy)),
        "changes": ids(read_changes(spark, log, TABLE)),
        "live from the log": ids(read_table(spark, log, TABLE)),
    }
    ways: tuple[Way, ...] = ("rewrite", "task")
    for way in ways:
        report = materialize(file, spark=spark, way=way, rebuild=() if way == "rewrite" else (TABLE,))
        said[way] = [[kept.kind, kept.way, kept.rows, kept.error] for kept in report.tables]
    said["live"] = ids(read_table(spark, file, TABLE))
    sys.stdout.write(json.dumps(said) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
