"""Narrow scans and counts of a table's events: ``read_changes`` and the ``tidemark`` format, against native Parquet.

    python -m benchmarks.spark.spark_scan [--rows 4000000] [--rounds 3] [--folder DIR]

All three read the same segments. Rounds alternate in one warm session; the least of each counts.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks.results import note
from benchmarks.spark.spark_log import COLLECTION, Shape, make_log
from benchmarks.spark.spark_side import segments, timed, warm_session
from tidemark import read_changes, register

WORK: dict[str, Callable[[DataFrame], object]] = {
    "count(*)": lambda frame: frame.count(),
    "select id": lambda frame: frame.select("id").write.format("noop").mode("overwrite").save(),
    "sum(total)": lambda frame: frame.agg(F.sum("total")).collect(),
    "all columns": lambda frame: frame.write.format("noop").mode("overwrite").save(),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=None)
    options = parser.parse_args()
    spark = warm_session()
    register(spark)
    table = COLLECTION.replace("/", ".")
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        log = Path(folder) / "log"
        make_log(log, Shape(options.rows))
        sides: dict[str, Callable[[], DataFrame]] = {
            "Spark's own Parquet reader": lambda: spark.read.parquet(*segments(log, COLLECTION)),
            "tidemark, read_changes": lambda: read_changes(spark, log, table),
            "tidemark, as a format": lambda: spark.read.format("tidemark").options(path=str(log), table=table).load(),
        }
        least = {(work, side): float("inf") for work in WORK for side in sides}
        for _ in range(options.rounds):
            for work, do in WORK.items():
                for side, frame in sides.items():
                    taken = timed(lambda do=do, frame=frame: do(frame()))  # type: ignore[misc]
                    least[work, side] = min(least[work, side], taken.cpu)
        print(f"CPU-s over {options.rows:,} events" + "".join(f"{side:>24}" for side in sides))
        for work in WORK:
            native = least[work, "Spark's own Parquet reader"]
            told = "".join(f"{least[work, side]:16.2f} ({least[work, side] / native:4.1f})" for side in sides)
            print(f"{work:>28}{told}")
            measures = {side: {"processor seconds": least[work, side]} for side in sides}
            note(f"{work} of {options.rows:,} events", measures, rounds=options.rounds)


if __name__ == "__main__":
    main()
