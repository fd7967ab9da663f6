"""A first load from a log in a bucket into a table there, against the same in directories.

    python -m benchmarks.spark.spark_bucket [--rows 1000000 4000000] [--store s3://bucket/prefix] [--rounds 3]

The bucket is of a server that is started for it, whose processor time counts, or of ``--store``: see
``benchmarks/buckets.py``. One warm session. Rounds of both sides alternate, and the median counts. The rows of both
tables are compared by their number, and by the sum of their offsets and of their keys.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

import pyarrow.compute as pc
from deltalake import DeltaTable

from benchmarks.buckets import Bucket, bucket
from benchmarks.processor_time import Spent
from benchmarks.results import middle
from benchmarks.spark.spark_log import COLLECTION, Shape, log_bytes, make_log
from benchmarks.spark.spark_side import spent, warm_session
from tidemark.protocol.store.local import DirectoryStore
from tidemark.spark_sink.formats.delta_storage import delta_storage
from tidemark.spark_sink.pipeline.keep import keep
from tidemark.spark_sink.run.settings import KeepSettings
from tidemark.spark_sink.tables.kept_tables import KeepRules
from tidemark.spark_sink.tables.store_place import StorePlace


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 4_000_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--store", metavar="URL", help="a bucket that there is")
    options = parser.parse_args()
    spark = warm_session()

    def load(log: StorePlace, lake: StorePlace) -> Spent:
        with spent() as taken:
            report = keep(KeepSettings(log, lake, KeepRules({"*": "current"})), lambda: spark)
        if report.set_aside:
            sys.exit(f"a table was set aside: {report.set_aside[0].error}")
        return taken

    print(f"{'rows':>11} {'log MB':>7}  {'bucket':26} {'directory':26} {'ratio: clock':>12} {'CPU':>5}")
    for rows in options.rows:
        with tempfile.TemporaryDirectory() as name, bucket(options.store, Path(name) / "server") as there:
            here = Path(name) / "here"
            make_log(here / "log", Shape(rows, live=0.01))
            there.filled("log", DirectoryStore(here / "log"))
            taken: list[tuple[Spent, Spent]] = []
            for number in range(options.rounds):
                lakes = _place(there, f"lake {number}"), StorePlace.of(here / f"lake {number}")
                taken.append((load(_place(there, "log"), lakes[0]), load(StorePlace.of(here / "log"), lakes[1])))
                if (found := _sums(lakes[0])) != _sums(lakes[1]):
                    raise SystemExit(f"the two tables differ: {found} and {_sums(lakes[1])}")
                shutil.rmtree(here / f"lake {number}")
            ours, theirs = (middle([round[side] for round in taken]) for side in (0, 1))
            print(
                f"{rows:11,} {log_bytes(here / 'log') / 1e6:7.0f}  {ours!s:26} {theirs!s:26} "
                f"{ours.seconds / theirs.seconds:12.2f} {ours.cpu / theirs.cpu:5.2f}",
                flush=True,
            )


def _place(there: Bucket, name: str) -> StorePlace:
    return StorePlace(f"{there.place}/{name}", there.settings)


def _sums(lake: StorePlace) -> tuple[int, int, int]:
    """The rows of the table, and the sums of their offsets and keys."""
    place = lake / f"{COLLECTION}/current"
    table = DeltaTable(place.text, storage_options=delta_storage(place)).to_pyarrow_table(columns=["_offset", "id"])
    return table.num_rows, pc.sum(table.column("_offset")).as_py(), pc.sum(table.column("id")).as_py()


if __name__ == "__main__":
    main()
