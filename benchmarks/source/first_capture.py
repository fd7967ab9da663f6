"""The whole way of a first capture: from rows in PostgreSQL to committed segments, against what anyone can type.

    python -m benchmarks.source.first_capture [--rows 1000000] [--rounds 3] [--readers 1]

By hand it is two lines: ``COPY … TO STDOUT (FORMAT csv)`` by psql, read by pyarrow.csv with a schema, and written as
Parquet with zstd. Ours is ``tidemark capture --until-caught-up``, with batches of columns and with lines. All begin as
new processes, and end with synced files; the sides alternate. At the end the contents are compared, column by column.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from benchmarks.processor_time import Spent, spent
from benchmarks.source.postgres_server import config, published_table
from tidemark.demo.servers.postgres_server import PostgresServer
from tidemark.protocol.batches import ARROW
from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.environment import BATCHES

BY_HAND = """
import os, subprocess, sys
import pyarrow as pa, pyarrow.csv as csv, pyarrow.parquet as pq
psql, dsn, path = sys.argv[1:]
types = {"id": pa.int64(), "customer": pa.int64(), "quantity": pa.int64(), "price": pa.decimal128(12, 2),
         "created": pa.timestamp("us"), "updated": pa.timestamp("us", "UTC"), "note": pa.string(), "paid": pa.bool_(),
         "weight": pa.float64(), "attributes": pa.string()}
copy = "SET timezone = 'UTC'; COPY bench TO STDOUT (FORMAT csv)"
with subprocess.Popen([psql, dsn, "-q", "-c", copy], stdout=subprocess.PIPE) as server:
    reader = csv.open_csv(
        server.stdout, csv.ReadOptions(column_names=list(types), block_size=4 << 20, use_threads=False),
        convert_options=csv.ConvertOptions(
            column_types=types, true_values=["t"], false_values=["f"],
            timestamp_parsers=[csv.ISO8601, "%Y-%m-%d %H:%M:%S+00"]
        ))
    with pq.ParquetWriter(path, reader.schema, compression="zstd") as writer:
        for batch in reader:
            writer.write_batch(batch)
with open(path, "rb") as file:
    os.fsync(file.fileno())
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--readers", type=int, default=1)
    arguments = parser.parse_args()
    with published_table(arguments.rows) as (running, _), tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "bench.parquet"
        logs = {"columns": ARROW, "lines": ""}
        taken: dict[str, list[Spent]] = {"by hand": [], **{name: [] for name in logs}}
        for turn in range(arguments.rounds):
            with spent(running) as of_hand:
                program = str(running.binaries / "psql")
                subprocess.run([sys.executable, "-c", BY_HAND, program, running.dsn, str(table)], check=True)
            taken["by hand"].append(of_hand)
            for name, batches in logs.items():
                taken[name].append(
                    _captured(running, Path(folder) / name, f"{name}_{turn}", batches, arguments.readers)
                )
        _report(taken, arguments.rows)
        for name in logs:
            _compare(Path(folder) / name / "bench.log", table, name)


def _captured(running: PostgresServer, folder: Path, slot: str, batches: str, readers: int) -> Spent:
    """One capture into a new log."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    endpoint = config(running, slot=slot, publication="bench", backfill={"readers": readers})
    connector = {
        "command": [sys.executable, "-m", "tidemark.connectors.postgres"],
        "config": endpoint,
        "environment": {BATCHES: batches},
    }
    capture = {"capture": "bench", "connector": connector, "log": "./bench.log", "tables": [{"table": "public.bench"}]}
    (folder / "capture.yaml").write_text(yaml.safe_dump(capture))
    with spent(running) as found:
        subprocess.run(
            [sys.executable, "-m", "tidemark.runtime", "capture", "capture.yaml", "--until-caught-up"],
            cwd=folder,
            check=True,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "LOG_LEVEL": "warn"},
        )
    return found


def _report(taken: dict[str, list[Spent]], rows: int) -> None:
    seconds = {name: statistics.median(one.seconds for one in runs) for name, runs in taken.items()}
    for name, runs in taken.items():
        ours = statistics.median(one.ours for one in runs) * 1e6 / rows
        server = statistics.median(one.server for one in runs) * 1e6 / rows
        print(
            f"{name:8} {rows / seconds[name]:>10,.0f} rows/s  {seconds['by hand'] / seconds[name]:5.2f} of by hand  "
            f"{ours:5.2f} + {server:.2f} CPU seconds a million rows (clients', the server's)"
        )


def _compare(log: Path, table: Path, name: str) -> None:
    """Ends with an error if a column differs."""
    by_hand = pq.read_table(table).sort_by("id")
    opened = ChangeLog(log)
    files = [log / segment.path for segment in opened.segments("public/bench", 0, opened.end())]
    ours = pa.concat_tables([pq.read_table(file) for file in files]).sort_by("id")
    for column in by_hand.column_names:
        if not ours.column(column).cast(by_hand.schema.field(column).type).equals(by_hand.column(column)):
            sys.exit(f"{name}: column {column} differs from what COPY gives")


if __name__ == "__main__":
    main()
