"""A change log into a ``current`` table: ``materialize``, against Spark doing the same by hand.

    python -m benchmarks.spark_current [--rows 1000000] [--rounds 3]

By hand is what one writes who knows what the batch is: Spark reads the very same segment files with its own Parquet
reader, keeps the newest event of each key with a window, collects Arrow, and ``deltalake`` appends or merges it. It has
no stream, no checkpoint and no schema to look after; ours has, and a second or so of each call is the start of its
query. Two steps are timed: the first load of all rows, and then changes to a fifth as many keys anywhere in the table,
a tenth of them deletes. Rounds alternate in one warm session, medians count, and both sides must end with the same
number of rows.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F

from benchmarks.ingest import SCHEMA, documents
from protocol.changelog import ChangeLog
from runtime.changelog.writer import LogWriter
from spark_sink.pipeline.materialize import materialize
from spark_sink.session import open_session

PER_COMMIT = 50_000
COLLECTION = "public/orders"


def changes(rows: int) -> list[bytes]:
    """New versions of a fifth of the rows, and deletes."""
    rng = random.Random(2)
    fresh = documents(rows // 5, details=True)
    result = []
    for document, id in zip(fresh, rng.sample(range(rows), rows // 5), strict=True):
        head, _, tail = document.partition(b',"id":')
        op = b'"op":"d"' if rng.random() < 0.1 else b'"op":"u"'
        head = head.replace(b'"op":"c"', op).replace(b'"op":"u"', op).replace(b'"op":"d"', op)
        result.append(b'%b,"id":%d%b' % (head, id, tail[tail.index(b",") :]))
    return result


def creates(rows: int) -> Iterator[bytes]:
    for document in documents(rows, details=True):
        yield document.replace(b'"op":"u"', b'"op":"c"', 1).replace(b'"op":"d"', b'"op":"c"', 1)


def append(log: Path, docs: list[bytes]) -> int:
    """Commits documents; returns the offset after them."""
    with LogWriter.open(log, "benchmark") as writer:
        orders = writer.bind(COLLECTION, SCHEMA, ["id"])
        for start in range(0, len(docs), PER_COMMIT):
            batch = writer.begin()
            batch.add(orders, docs[start : start + PER_COMMIT])
            writer.commit(batch, {}, 1)
        return writer.next_offset


def by_hand(spark: SparkSession, log: Path, table: Path, start: int) -> None:
    """Applies the events from ``start`` on."""
    source = ChangeLog(log)
    paths = [str(log / segment.path) for segment in source.segments(COLLECTION, start, source.summary().next_offset)]
    newest = Window.partitionBy("id").orderBy(F.col("_offset").desc())
    events = spark.read.parquet(*paths).withColumn("_place", F.row_number().over(newest)).where("_place = 1")
    columns = [*SCHEMA["properties"].keys() - {"_meta"}, "_offset", "_commit_ts"]
    batch = events.select(*columns, (F.col("_op") == "d").alias("_deleted")).toArrow()
    if not DeltaTable.is_deltatable(str(table)):
        write_deltalake(str(table), batch.filter(pc.invert(batch["_deleted"])).drop(["_deleted"]))
        return
    values = {name: f"s.{name}" for name in columns}
    (
        DeltaTable(str(table))
        .merge(batch, "t.id = s.id", source_alias="s", target_alias="t", streamed_exec=False)
        .when_matched_delete("s._deleted")
        .when_matched_update(values)
        .when_not_matched_insert(values, predicate="NOT s._deleted")
        .execute()
    )


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def one_round(spark: SparkSession, initial: list[bytes], changed: list[bytes], folder: Path) -> dict[str, list[float]]:
    """Seconds of the first load and of the changes, for each side."""
    log, theirs = folder / "log", folder / "theirs"
    kept = folder / "lake" / COLLECTION / "current"
    seconds: dict[str, list[float]] = {"tidemark": [], "by hand": []}
    start = 0
    for docs in (initial, changed):
        end = append(log, docs)
        seconds["tidemark"].append(timed(lambda: materialize(log, folder / "lake", {"*": "current"}, spark=spark)))
        seconds["by hand"].append(timed(partial(by_hand, spark, log, theirs, start)))
        start = end
    rows = [DeltaTable(str(table)).count() for table in (kept, theirs)]
    if rows[0] != rows[1]:
        raise SystemExit(f"the two tables differ: {rows[0]:,} and {rows[1]:,} rows")
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    spark, _ = open_session(None, {"spark.app.name": "benchmark"})
    initial, changed = list(creates(options.rows)), changes(options.rows)
    measured: dict[str, list[list[float]]] = {"tidemark": [], "by hand": []}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.rounds + 1):
            for side, seconds in one_round(spark, initial, changed, Path(folder) / str(number)).items():
                if number:  # the first round warms both up
                    measured[side].append(seconds)
    spark.stop()
    rates = {}
    for side, rounds in measured.items():
        load, change = (statistics.median(step) for step in zip(*rounds, strict=True))
        rates[side] = options.rows / load, len(changed) / change
        print(f"{side:10} first load {rates[side][0]:>9,.0f} rows/s   changes {rates[side][1]:>9,.0f} rows/s")
    load_ratio, change_ratio = (rates["tidemark"][i] / rates["by hand"][i] for i in range(2))
    print(f"{'ratio':10} first load {load_ratio:>9.2f}          changes {change_ratio:>9.2f}")


if __name__ == "__main__":
    main()
