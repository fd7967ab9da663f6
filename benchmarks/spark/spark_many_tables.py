"""Two hundred tables with forty rows each a batch, and ten thousand small batches of one table.

    python -m benchmarks.spark.spark_many_tables [--tables 200] [--batches 10] [--small 10000] [--folder DIR]

The first part is compared with one Spark job a table, which reads its segment and appends it by hand. The second one
is one run of ``materialize`` that follows a log, with two kinds of one table. The processor time of the last hundred
batches is compared with that of the second hundred: it must not grow, while the table grows from 1,000 rows to 100,000.
It says how many files and bytes there are at the end beside those of the newest version.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from benchmarks.processor_time import tree_seconds
from benchmarks.spark.spark_log import COLLECTION, LogMaker, ManyTables, Part
from benchmarks.spark.spark_side import ours, segments, spent, warm_session
from tidemark.protocol.errors import TidemarkError
from tidemark.spark_sink.pipeline.keep import keep
from tidemark.spark_sink.run.report import Applied, PlannedPart
from tidemark.spark_sink.run.settings import FoldRule, KeepSettings
from tidemark.spark_sink.tables.kept_tables import KeepRules
from tidemark.spark_sink.tables.store_place import StorePlace


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


class Feeder:
    """Writes the next commit once both tables have the last one, and notes what each batch has cost."""

    def __init__(self, log: Path, batches: int) -> None:
        self.seconds: list[float] = []
        self.cpu: list[float] = []
        self.stop = threading.Event()
        self._batches = batches
        self._maker = LogMaker(log, "ordered")
        self._random = np.random.default_rng(5)
        self._applied = 0
        self._commit()

    def planned(self, parts: Sequence[PlannedPart]) -> None:
        pass

    def applied(self, applied: Applied) -> None:
        self._applied += 1
        if self._applied % 2 == 0:
            seconds, cpu = time.perf_counter(), tree_seconds(os.getpid())
            self.seconds.append(seconds - self._began)
            self.cpu.append(cpu - self._spent)
            self._tell()
            self._commit()

    def set_aside(self, table: str, kind: str, error: TidemarkError) -> None:
        sys.exit(f"{table} was set aside: {error}")

    def _commit(self) -> None:
        number = len(self.cpu)
        if number == self._batches:
            self.stop.set()
            return
        new = Part(np.arange(number * 10, number * 10 + 10), "c", False)
        self._maker.commit(new, Part(self._random.integers(0, number * 10 + 10, 5), "u", False))
        self._began, self._spent = time.perf_counter(), tree_seconds(os.getpid())

    def _tell(self) -> None:
        number = len(self.cpu)
        if number % 1000 == 0:
            print(f"{number:6} batches, of the last hundred: {_hundred(self.seconds, self.cpu)}", flush=True)


def small_batches(spark: SparkSession, folder: Path, batches: int) -> None:
    log, lake = folder / "log", folder / "lake"
    feeder = Feeder(log, batches)
    # What one run does that follows a log, but for the pause after each batch, by which it spares the machine.
    settings = KeepSettings(
        log=StorePlace.of(log),
        warehouse=StorePlace.of(lake),
        rules=KeepRules({"*": ["current", "history"]}),
        available_now=False,
        fold=FoldRule(share=1.0, trigger=0.0),
    )
    keep(settings, lambda: spark, feeder, feeder.stop)
    first, last = sum(feeder.cpu[100:200]), sum(feeder.cpu[-100:])
    print(
        f"batches 101 to 200: {_hundred(feeder.seconds[:200], feeder.cpu[:200])}; "
        f"the last hundred: {_hundred(feeder.seconds, feeder.cpu)}, {last / first:.2f} of it"
    )
    for kind in ("current", "history"):
        table = lake / COLLECTION / kind
        live = DeltaTable(str(table)).get_add_actions(flatten=True)
        files = list(table.glob("*.parquet"))
        log_files = list((table / "_delta_log").iterdir())
        size = sum(file.stat().st_size for file in files) / 1e6
        print(
            f"{kind}: {live.num_rows} files of the newest version; {len(files)} files, {size:.1f} MB, in all; "
            f"{len(log_files)} files of Delta's log"
        )


def _hundred(seconds: list[float], cpu: list[float]) -> str:
    """Of the last hundred batches."""
    return f"{statistics.mean(cpu[-100:]):.3f} CPU-s each, median {statistics.median(seconds[-100:]):.3f} s"


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
