"""``python -m tests.spark_sink.pipeline.cluster_process MASTER EVENTS``: a driver of a cluster's executors.

It says the port where executors find it. Then it reads the directories of a log and a warehouse from its input, a line
of JSON for each run, and answers with a line. It fails if it reads rows of a Parquet file itself; footers are metadata.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NoReturn

import pyarrow.parquet as pq

from tidemark.spark_sink.formats.file_sizes import FileSizes
from tidemark.spark_sink.pipeline.keep import keep
from tidemark.spark_sink.run.settings import KeepSettings, PartLimits
from tidemark.spark_sink.tables.kept_tables import KeepRules
from tidemark.spark_sink.tables.store_place import StorePlace
from tidemark.testing.spark_cluster import SETTINGS


def refuse(*arguments: Any, **more: Any) -> NoReturn:
    raise AssertionError("the driver reads rows")


def main() -> None:
    from pyspark.sql import SparkSession

    master, events = sys.argv[1:]
    settings = {
        **SETTINGS,
        "spark.eventLog.dir": Path(events).as_uri(),
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
    }
    builder = SparkSession.builder.master(master).appName("tidemark tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    # Executors import their own.
    for name in ("ParquetDataset", "read_table"):
        setattr(pq, name, refuse)
    for name in ("iter_batches", "read", "read_row_group", "read_row_groups"):
        setattr(pq.ParquetFile, name, refuse)
    sys.stdout.write(json.dumps(spark.sparkContext.getConf().get("spark.driver.port")) + "\n")
    sys.stdout.flush()
    for line in sys.stdin:
        log, warehouse = json.loads(line)
        kept = KeepSettings(
            StorePlace.of(log),
            StorePlace.of(warehouse),
            KeepRules({"*": ["current", "history"]}),
            way="rewrite",
            # All events are shuffled.
            limits=PartLimits(task_events=0, range_most=20_000, range_least=20_000),
            file_sizes=FileSizes(smallest=5_000),
        )
        report = keep(kept, lambda: spark)
        answer = [report.events, report.executors, [table.error for table in report.set_aside]]
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    spark.stop()


if __name__ == "__main__":
    main()
