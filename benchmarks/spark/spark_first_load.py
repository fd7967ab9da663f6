"""A log into a ``current`` table for the first time, against Spark reducing the same segments by key by hand.

    python -m benchmarks.spark.spark_first_load [--rows 1000000 4000000 16000000] [--folder DIR]

For each size: keys that ascend; random ones (uuids), which a backfill by key reads in their order; four ranges read
side by side; and live changes of one row in a hundred between the chunks. One warm session; both sides must end with
the same number of rows. The last column is the memory of the driver's own process, which is not to grow.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.results import note
from benchmarks.spark.spark_log import COLLECTION, Shape, log_bytes, make_log
from benchmarks.spark.spark_side import load_by_hand, ours, peak_megabytes, rows_of, spent, warm_session


def shapes(rows: int) -> Iterator[tuple[str, Shape]]:
    yield "ordered", Shape(rows)
    yield "ordered, live", Shape(rows, live=0.01)
    yield "uuid", Shape(rows, keys="uuid")
    yield "uuid, live", Shape(rows, keys="uuid", live=0.01)
    yield "uuid, four ranges, live", Shape(rows, keys="uuid", ranges=4, live=0.01)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 4_000_000, 16_000_000])
    parser.add_argument("--folder", type=Path, default=None, help="where logs and tables are made (and removed)")
    parser.add_argument("--only", default="", help="the beginning of the names of the shapes to run")
    options = parser.parse_args()
    spark = warm_session()
    print(f"{'rows':>11} {'shape':24} {'log MB':>7}  {'tidemark':26} {'by hand':26} {'ratio':>5} {'driver MB':>9}")
    for rows in options.rows:
        for name, shape in shapes(rows):
            if name.startswith(options.only):
                with tempfile.TemporaryDirectory(dir=options.folder) as folder:
                    log, lake, hand = (Path(folder) / part for part in ("log", "lake", "hand"))
                    make_log(log, shape)
                    with spent() as mine:
                        ours(spark, log, lake)
                    with spent() as theirs:
                        count = load_by_hand(spark, log, hand, COLLECTION)
                    kept = lake / COLLECTION / "current"
                    if rows_of(kept) != count:
                        raise SystemExit(f"the two tables differ: {rows_of(kept):,} and {count:,} rows")
                    sides = {"a job by hand in Spark": [theirs], "tidemark materialize": [mine]}
                    measures = {
                        side: {"processor seconds": one.cpu, "seconds": one.seconds} for side, (one,) in sides.items()
                    }
                    note(f"{rows:,} rows, keys: {name}", measures)
                    print(
                        f"{rows:11,} {name:24} {log_bytes(log) / 1e6:7.0f}  {mine!s:26} {theirs!s:26} "
                        f"{mine.cpu / theirs.cpu:5.2f} {peak_megabytes():9.0f}",
                        flush=True,
                    )
                    shutil.rmtree(folder, ignore_errors=True)
                    Path(folder).mkdir()


if __name__ == "__main__":
    main()
