"""Prints what changed in a table, from a tidemark change log, with nothing but Spark.

::

    python examples/read_changes.py examples/shop.log public.orders
    python examples/read_changes.py examples/shop.log public.orders --follow
"""

from __future__ import annotations

import argparse
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from tidemark import register


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("log", help="directory of the change log")
    parser.add_argument("table", help="schema.table")
    parser.add_argument("--follow", action="store_true", help="follow new changes until interrupted")
    arguments = parser.parse_args()

    spark = (
        SparkSession.builder.master("local[*]")
        .appName("read_changes")
        .config("spark.sql.shuffle.partitions", 4)
        .config("spark.ui.enabled", False)
        .getOrCreate()
    )
    register(spark)
    options = {"path": arguments.log, "table": arguments.table}

    if arguments.follow:
        changes = spark.readStream.format("tidemark").options(**options).option("startingOffset", "latest").load()
        changes.writeStream.format("console").option("truncate", False).start().awaitTermination()
        return 0

    events = spark.read.format("tidemark").options(**options).load()
    events.groupBy("_op", "_snapshot").agg(
        f.count("*").alias("events"), f.min("_commit_ts").alias("first"), f.max("_commit_ts").alias("last")
    ).orderBy("_op", "_snapshot").show(truncate=False)
    events.orderBy(f.desc("_offset")).show(10, truncate=60)
    return 0


if __name__ == "__main__":
    sys.exit(main())
