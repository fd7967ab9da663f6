"""What a large ``current`` table costs that is altered, or read again, against the same by hand.

    python -m benchmarks.spark.spark_altered [--rows 16000000] [--folder DIR]

The table is loaded first. Then a column gets a type that holds all old values (``bigint`` to ``decimal``), and another
one is added with a constant: both are one commit without an event, for which all files are rewritten. By hand that is
Spark's own reader and writer of Parquet with the cast or the constant between them, and one commit by ``deltalake``.

Then the table is read again twice. First it stays as it was: the rows are laid over the old ones, in four parts, and at
the end those go that did not come again, a thousandth. Then a column gets a type that no old value fits, and all rows
are replaced at the end. By hand that is a first load of the new rows alone.
"""

from __future__ import annotations

import argparse
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.processor_time import Spent
from benchmarks.spark.spark_log import COLLECTION, LogMaker, Part, Shape, make_log
from benchmarks.spark.spark_side import commit_of_files, load_by_hand, ours, rows_of, timed, warm_session
from tidemark.protocol.changelog import Column

_PER_COMMIT = 250_000
_LACKING = 1000
"""One row of so many does not come again."""


def rewrite_by_hand(spark: SparkSession, table: Path, into: Path, column: str, value: str) -> int:
    """Another table of all rows of one, in which a column has the value of an SQL expression. Returns its rows."""
    rows: DataFrame = spark.read.parquet(*DeltaTable(str(table)).file_uris())
    rows.withColumn(column, F.expr(value)).write.option("compression", "zstd").parquet(str(into))
    return commit_of_files(into)


def read_again(maker: LogMaker, first: int, last: int) -> None:
    for start in range(first, last, _PER_COMMIT):
        numbers = np.arange(start, min(start + _PER_COMMIT, last))
        maker.commit(Part(numbers[numbers % _LACKING != 0]))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=16_000_000)
    parser.add_argument("--folder", type=Path, default=None)
    options = parser.parse_args()
    rows: int = options.rows
    spark = warm_session()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        log, lake = Path(folder) / "log", Path(folder) / "lake"
        kept = lake / COLLECTION / "current"
        maker = make_log(log, Shape(rows))
        print(f"{format(rows, ',') + ' rows':44} {'tidemark':28} {'by hand':28} {'ratio':>5}")

        def shown(name: str, mine: Spent, theirs: Spent, expected: int) -> None:
            if rows_of(kept) != expected:
                raise SystemExit(f"{name}: the table has {rows_of(kept):,} rows, not {expected:,}")
            print(f"{name:44} {mine!s:28} {theirs!s:28} {mine.cpu / theirs.cpu:5.2f}", flush=True)

        def materialize() -> Spent:
            return timed(lambda: ours(spark, log, lake))

        load = timed(lambda: load_by_hand(spark, log, Path(folder) / "loaded", COLLECTION))
        shown("first load", materialize(), load, rows)
        for name, column, value in (
            (
                "a column of another type",
                Column(name="customer", type="decimal(21,2)", id="2"),
                "CAST(customer AS decimal(21,2))",
            ),
            ("a column added with a constant", Column(name="added", type="bigint", id="8", fill=7), "7L"),
        ):
            hand = timed(partial(rewrite_by_hand, spark, kept, Path(folder) / column.name, column.name, value))
            maker.alter(column)
            shown(name, materialize(), hand, rows)

        maker.begin()
        laid = Spent()
        for part in range(4):
            read_again(maker, rows * part // 4, rows * (part + 1) // 4)
            laid += materialize()
        maker.complete()
        removal = materialize()
        left = rows - -(-rows // _LACKING)
        shown("read again: laid over the old rows", laid, load, left)
        shown("read again: rows that did not come go", removal, load, left)

        maker.begin(Column(name="created", type="bigint", id="6"))
        read_again(maker, 0, rows)
        waiting = materialize()
        maker.complete()
        shown("read again with other columns: meanwhile", waiting, load, left)
        shown("read again with other columns: at the end", materialize(), load, left)


if __name__ == "__main__":
    main()
