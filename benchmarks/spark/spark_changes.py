"""Changes into a large ``current`` table: one row, and a hundred thousand, against the same by delta-rs's MERGE.

    python -m benchmarks.spark.spark_changes [--rows 16000000] [--keys uuid] [--folder DIR]

The table is loaded first. Then come, each in a commit of its own: one changed row, that row's
neighbour, and changes of 100,000 keys anywhere, a tenth of them deletes. By hand is one MERGE of the reduced changes by
``deltalake`` into a table of the same files, in one process. Megabytes are what either writes.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

from benchmarks.spark.spark_log import COLLECTION, Part, Shape, make_log
from benchmarks.spark.spark_side import load_by_hand, ours, peak_megabytes, rows_of, segments, spent, warm_session


def merge_by_hand(log: Path, table: Path, start: int) -> None:
    """One MERGE of the newest change of each key."""
    events = pa.concat_tables([pq.read_table(path) for path in segments(log, COLLECTION, start)])
    events = events.filter(pc.greater_equal(events["_offset"], pa.scalar(start)))
    newest = events.group_by("id").aggregate([("_offset", "max")])
    changes = events.filter(pc.is_in(events["_offset"], value_set=newest["_offset_max"].combine_chunks()))
    target = DeltaTable(str(table))
    names = [field.name for field in target.schema().fields]
    values = {name: f"s.{name}" for name in names}
    (
        target.merge(
            changes.select([*names, "_op"]), "t.id = s.id", source_alias="s", target_alias="t", streamed_exec=False
        )
        .when_matched_delete("s._op = 'd'")
        .when_matched_update(values)
        .when_not_matched_insert(values, predicate="s._op <> 'd'")
        .execute()
    )


def written_by(table: Path, before: set[str]) -> float:
    return sum(file.stat().st_size for file in table.glob("*.parquet") if file.name not in before) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=16_000_000)
    parser.add_argument("--keys", choices=["ordered", "uuid"], default="uuid")
    parser.add_argument("--folder", type=Path, default=None)
    options = parser.parse_args()
    spark = warm_session()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        log, lake, hand = (Path(folder) / part for part in ("log", "lake", "hand"))
        maker = make_log(log, Shape(options.rows, keys=options.keys))
        print(f"{'into ' + format(options.rows, ',') + ' rows':24} {'tidemark':38} {'by hand':38} {'ratio':>5}")
        with spent() as mine:
            ours(spark, log, lake)
        memory = peak_megabytes()
        with spent() as theirs:
            load_by_hand(spark, log, hand, COLLECTION)
        print(f"{'first load':24} {mine!s:38} {theirs!s:38} {mine.cpu / theirs.cpu:5.2f}", flush=True)
        kept = lake / COLLECTION / "current"
        scattered = np.random.default_rng(3).choice(options.rows, 100_000, replace=False)
        work = {
            "one row": [Part(np.array([options.rows // 3]), "u", False)],
            "its neighbour": [Part(np.array([options.rows // 3 + 1]), "u", False)],
            "100,000 anywhere": [Part(scattered[:90_000], "u", False), Part(scattered[90_000:], "d", False)],
        }
        for name, parts in work.items():
            start = maker.offset
            maker.commit(*parts)
            files = [{file.name for file in table.glob("*.parquet")} for table in (kept, hand)]
            with spent() as mine:
                ours(spark, log, lake)
            with spent() as theirs:
                merge_by_hand(log, hand, start)
            mine_mb, theirs_mb = (written_by(t, before) for t, before in zip((kept, hand), files, strict=True))
            if rows_of(kept) != rows_of(hand):
                raise SystemExit(f"the two tables differ: {rows_of(kept):,} and {rows_of(hand):,} rows")
            print(
                f"{name:24} {mine!s:26} {mine_mb:8.1f} MB {theirs!s:26} {theirs_mb:8.1f} MB "
                f"{mine.cpu / max(theirs.cpu, 0.01):5.2f}",
                flush=True,
            )
        print(f"memory of the driver's process after our first load, the log's making among it: {memory:.0f} MB")


if __name__ == "__main__":
    main()
