"""A large table read through the live view, against the files of its base read by Spark alone.

    python -m benchmarks.spark.spark_live_view [--rows 4000000] [--rounds 5]

The base is kept as ``materialize`` keeps it: sorted by key, in files of some megabytes, here with random keys. Behind
it is a tail of one change, then of a thousand more to keys all over the table. Both sides do the same three queries in
one warm session, by turns: count all rows, sum up a column, and take every column of every row. Ours begins with
``read_table`` each time, theirs with the list of files and their schema, which is all that a reader of the base needs.
Seconds are those of all processors, Spark's and Python's processes together, and medians count.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.results import in_turn, middle, note
from benchmarks.spark.spark_side import timed
from tidemark import read_table
from tidemark.protocol.changelog import ChangeLog
from tidemark.runtime.changelog.writer import LogWriter
from tidemark.spark_sink.formats.delta_table import PositionedTable
from tidemark.spark_sink.formats.file_writer import FileWriter
from tidemark.spark_sink.formats.positions import Position
from tidemark.spark_sink.spark.spark_session import open_session
from tidemark.spark_sink.tables.column_types import arrow_schema, ddl
from tidemark.spark_sink.tables.kept_tables import CURRENT, Target
from tidemark.spark_sink.tables.store_place import StorePlace

COLLECTION = "public/orders"
COLUMNS = {"id": "string", "customer": "bigint", "amount": "bigint", "status": "string", "note": "string"}
ROW = {**COLUMNS, "_offset": "bigint", "_commit_ts": "timestamp"}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "_meta": {"type": "object"},
        **{name: {"type": "integer" if spark == "bigint" else "string"} for name, spark in COLUMNS.items()},
    },
}
FILE_BYTES = 16 * 1024 * 1024
WRITTEN = 200_000
TAILS = (1, 1000)

QUERIES: dict[str, Callable[[DataFrame], object]] = {
    "count": lambda rows: rows.count(),
    "sum": lambda rows: rows.agg(F.sum("amount")).collect(),
    "full scan": lambda rows: rows.write.format("noop").mode("overwrite").save(),
}


def keys(rows: int) -> list[str]:
    """Random keys, in order."""
    return sorted(hashlib.md5(str(number).encode()).hexdigest() for number in range(rows))


def append(log: Path, ids: Sequence[str]) -> int:
    """Commits a change of each row; returns the offset after them."""
    with LogWriter.open(log, "benchmark") as writer:
        orders = writer.bind(COLLECTION, SCHEMA, ["id"])
        batch = writer.begin()
        meta = {"op": "u", "source": {"ts_ms": 1_700_000_000_000, "loc": [1, 2], "txid": 3}}
        document = {"_meta": meta, "customer": 1, "amount": 1, "status": "paid", "note": "changed"}
        batch.add(orders, [json.dumps({**document, "id": id}).encode() for id in ids])
        writer.commit(batch, {}, 1)
        return writer.summary.next_offset


def keep_base(log: Path, lake: Path, ids: Sequence[str], position: int) -> PositionedTable:
    """The kept table, with a row for each key, as of a position."""
    target = Target(COLLECTION, CURRENT)
    table = PositionedTable(target.place(StorePlace.of(lake)), ChangeLog(log).header.log_id, target.name)
    table.create(ROW, "for a benchmark", ["id"])
    writer = FileWriter(table.place, ROW, ["id"], FILE_BYTES)
    rng = random.Random(1)
    for start in range(0, len(ids), WRITTEN):
        some = ids[start : start + WRITTEN]
        count = len(some)
        columns = {
            "id": some,
            "customer": [rng.randrange(100_000) for _ in range(count)],
            "amount": [rng.randrange(10_000) for _ in range(count)],
            "status": [rng.choice(("new", "paid", "sent")) for _ in range(count)],
            "note": [f"note {rng.randrange(1_000_000)} of this order" for _ in range(count)],
            "_offset": [0] * count,
            "_commit_ts": [None] * count,
        }
        writer.write(pa.table(columns, arrow_schema(ROW)))
    table.commit(writer.finish(), [], Position(position))
    return table


def ask(query: Callable[[DataFrame], object], read: Callable[[], DataFrame]) -> None:
    query(read())


def measure(
    spark: SparkSession, log: Path, lake: Path, table: PositionedTable, rounds: int, rows: int, tail: int
) -> None:
    """Prints a line for each query."""
    paths = [table.place.store.where(file.path) for file in table.files()]

    def ours() -> DataFrame:
        return read_table(spark, log, "public.orders", warehouse=lake)

    def theirs() -> DataFrame:
        return spark.read.schema(ddl(ROW)).parquet(*paths)

    for name, query in QUERIES.items():
        asked = {side: partial(timed, partial(ask, query, read)) for side, read in (("view", ours), ("base", theirs))}
        in_turn(asked, 1)  # The first round warms both up.
        view, base = (middle(runs).cpu for runs in in_turn(asked, rounds).values())
        sides = {
            "Spark, of the base alone": {"processor seconds": base},
            "tidemark's live view": {"processor seconds": view},
        }
        note(f"{name} of {rows:,} rows, with changes after them: {tail:,}", sides, rounds=rounds)
        print(f"  {name:10} live view {view:6.2f}   base alone {base:6.2f}   difference {view - base:+.2f} CPU seconds")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    ids = keys(options.rows)
    with tempfile.TemporaryDirectory() as folder:
        log, lake = Path(folder) / "log", Path(folder) / "lake"
        table = keep_base(log, lake, ids, append(log, ids[:1]))
        spark = open_session(None, {})[0]
        print(f"{options.rows:,} rows in {len(table.files())} files, {table.size / 1e6:.0f} MB")
        rng = random.Random(2)
        for tail in TAILS:
            append(log, rng.sample(ids, min(tail, len(ids))))
            print(f"tail of {tail:,} more changes")
            measure(spark, log, lake, table, options.rounds, options.rows, tail)
        spark.stop()


if __name__ == "__main__":
    main()
