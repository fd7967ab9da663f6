"""Two hundred tables with forty rows each a batch, and ten thousand small batches of one table.

    python -m benchmarks.spark.spark_many_tables [--tables 200] [--batches 10] [--small 10000] [--folder DIR]

The first part is compared with one Spark job a table, which reads its segment and appends it by hand. The second one
compares the processor time of the last hundred batches with that of the second hundred: it must not grow. It says how
many files and bytes there are at the end beside what is live.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

import numpy as np
from deltalake import write_deltalake
from pyspark.sql import SparkSession

from benchmarks.spark.spark_log import COLLECTION, LogMaker, ManyTables, Part
from benchmarks.spark.spark_side import ours, segments, spent, warm_session


def many_tables(spark: SparkSession, folder: Path, tables: int, batches: int) -> None:
    log, lake, hand = (folder / part for part in ("log", "lake", "hand"))
    maker = ManyTables(log, tables)
    print(f"{'batch':>5}  {'tidemark':26} {'by hand':26} {'ratio':>5}")
    for number in range(batches):
        start = maker.offset
        maker.commit(Part(np.arange(number * 20, number * 20 + 40), "c", False))
        with spent() as mine:
            ours(spark, log, lake)
        with spent() as theirs:
            for collection in maker.collections:
                rows = spark.read.parquet(*segments(log, collection, start)).toArrow()
                write_deltalake(str(hand / collection), rows.drop(["_unchanged"]), mode="append")
        print(f"{number:5}  {mine!s:26} {theirs!s:26} {mine.cpu / theirs.cpu:5.2f}", flush=True)


def small_batches(spark: SparkSession, folder: Path, batches: int) -> None:
    log, lake = folder / "log", folder / "lake"
    maker = LogMaker(log, "ordered")
    random = np.random.default_rng(5)
    seconds, cpu = [], []
    for number in range(batches):
        new = Part(np.arange(number * 10, number * 10 + 10), "c", False)
        maker.commit(new, Part(random.integers(0, number * 10 + 10, 5), "u", False))
        with spent() as batch:
            ours(spark, log, lake, {"*": ["current", "history"]})
        seconds.append(batch.seconds)
        cpu.append(batch.cpu)
        if number % 1000 == 999:
            print(f"{number + 1:6} batches, of the last hundred: {_hundred(seconds[-100:], cpu[-100:])}", flush=True)
    first, last = sum(cpu[100:200]), sum(cpu[-100:])
    print(f"batches 101 to 200: {_hundred(seconds[100:200], cpu[100:200])}; the last hundred: {last / first:.2f} of it")
    for kind in ("current", "history"):
        table = lake / COLLECTION / kind
        files = list(table.glob("*.parquet"))
        log_files = list((table / "_delta_log").iterdir())
        size = sum(file.stat().st_size for file in files) / 1e6
        print(f"{kind}: {len(files)} files, {size:.1f} MB, {len(log_files)} files of Delta's log")


def _hundred(seconds: list[float], cpu: list[float]) -> str:
    return f"{statistics.mean(cpu):.3f} CPU-s each, median {statistics.median(seconds):.3f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tables", type=int, default=200)
    parser.add_argument("--batches", type=int, default=10)
    parser.add_argument("--small", type=int, default=10_000)
    parser.add_argument("--folder", type=Path, default=None)
    options = parser.parse_args()
    spark = warm_session()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        if options.batches:
            many_tables(spark, Path(folder) / "many", options.tables, options.batches)
        if options.small:
            small_batches(spark, Path(folder) / "small", options.small)


if __name__ == "__main__":
    main()
