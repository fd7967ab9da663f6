"""The whole way of a first capture: from rows in a database to committed segments, against what anyone can type.

    python -m benchmarks.capture.first_capture [--server mariadb] [--rows 1000000] [--rounds 3] [--readers 1]

By hand it is two lines: ``COPY … TO STDOUT (FORMAT csv)`` by psql, or ``mariadb --quick --batch``, read by pyarrow.csv
with a schema, and written as Parquet with zstd. Ours is ``tidemark capture --until-caught-up``, with batches of columns
and with lines. All begin as new processes, and end with synced files; the sides alternate. At the end the contents are
compared, column by column.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from benchmarks.processor_time import Spent, spent
from benchmarks.source import mysql_log
from benchmarks.source.postgres_server import config, published_table
from tests.servers.mariadb import MARIADB, MariaDb, no_source
from tidemark.demo.servers.server_process import ServerProcess
from tidemark.protocol.batches import ARROW
from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.environment import BATCHES

BY_HAND = """
import os, subprocess, sys
import pyarrow as pa, pyarrow.csv as csv, pyarrow.parquet as pq
path, *command = sys.argv[1:]
psql = command[0].endswith("psql")
types = {"id": pa.int64(), "customer": pa.int64(), "quantity": pa.int64(), "price": pa.decimal128(12, 2),
         "created": pa.timestamp("us"), "updated": pa.timestamp("us", "UTC" if psql else None), "note": pa.string(),
         "paid": pa.bool_() if psql else pa.int64(), "weight": pa.float64(), "attributes": pa.string()}
plain = csv.ParseOptions(delimiter="\\t", quote_char=False)
with subprocess.Popen(command, stdout=subprocess.PIPE) as server:
    reader = csv.open_csv(
        server.stdout, csv.ReadOptions(column_names=list(types), block_size=4 << 20, use_threads=False),
        csv.ParseOptions() if psql else plain,
        csv.ConvertOptions(
            column_types=types, true_values=["t"], false_values=["f"],
            timestamp_parsers=[csv.ISO8601, "%Y-%m-%d %H:%M:%S+00"]
        ))
    with pq.ParquetWriter(path, reader.schema, compression="zstd") as writer:
        for batch in reader:
            writer.write_batch(batch)
with open(path, "rb") as file:
    os.fsync(file.fileno())
"""


@dataclass(frozen=True)
class Source:
    """A server with the table ``bench``.

    Attributes:
        by_hand: The command that writes its rows.
        connector: The module of ours.
        config: Of the connector.
        table: With its schema.
    """

    server: ServerProcess
    by_hand: list[str]
    connector: str
    config: dict[str, Any]
    table: str


@contextmanager
def postgres(rows: int) -> Iterator[Source]:
    copy = "SET timezone = 'UTC'; COPY bench TO STDOUT (FORMAT csv)"
    with published_table(rows) as (running, _):
        by_hand = [str(running.binaries / "psql"), running.dsn, "-q", "-c", copy]
        endpoint = config(running, publication="bench")
        yield Source(running, by_hand, "tidemark.connectors.postgres", endpoint, "public.bench")


@contextmanager
def mariadb(rows: int) -> Iterator[Source]:
    programs, client = MARIADB.installed(), shutil.which("mariadb")
    if programs is None or client is None:
        sys.exit(no_source(MARIADB))
    with MARIADB.server(programs, settings={"innodb_buffer_pool_size": "1G"}) as running:
        server = MariaDb(running.host, running.port, running.user, running.password, server=running)
        mysql_log.make_table(server, rows)
        by_hand = [
            *(client, f"--host={server.host}", f"--port={server.port}", f"--user={server.user}"),
            *(f"--password={server.password}", "--skip-ssl", "--init-command=SET time_zone = '+00:00'"),
            *("--quick", "--batch", "--skip-column-names", "--execute=SELECT * FROM bench.bench"),
        ]
        yield Source(running, by_hand, "tidemark.connectors.mysql", server.config(), "bench.bench")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--server", choices=("postgres", "mariadb"), default="postgres")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--readers", type=int, default=1)
    arguments = parser.parse_args()
    opened = mariadb if arguments.server == "mariadb" else postgres
    with opened(arguments.rows) as source, tempfile.TemporaryDirectory() as folder:
        parquet = Path(folder) / "bench.parquet"
        logs = {"columns": ARROW, "lines": ""}
        taken: dict[str, list[Spent]] = {"by hand": [], **{name: [] for name in logs}}
        for turn in range(arguments.rounds):
            with spent(source.server) as of_hand:
                subprocess.run([sys.executable, "-c", BY_HAND, str(parquet), *source.by_hand], check=True)
            taken["by hand"].append(of_hand)
            for name, batches in logs.items():
                endpoint = {**source.config, "backfill": {"readers": arguments.readers}}
                if opened is postgres:
                    endpoint["slot"] = f"{name}_{turn}"
                taken[name].append(captured(source, endpoint, Path(folder) / name, batches))
        _report(taken, arguments.rows)
        for name in logs:
            _compare(Path(folder) / name / "bench.log", source.table, parquet, name)


def captured(source: Source, endpoint: dict[str, Any], folder: Path, batches: str = ARROW) -> Spent:
    """One capture into a new log, ``bench.log`` beside a capture file in the folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    connector = {
        "command": [sys.executable, "-m", source.connector],
        "config": endpoint,
        "environment": {BATCHES: batches},
    }
    capture = {"capture": "bench", "connector": connector, "log": "./bench.log", "tables": [{"table": source.table}]}
    (folder / "capture.yaml").write_text(yaml.safe_dump(capture))
    with spent(source.server) as found:
        capture_until_caught_up(folder)
    return found


def capture_until_caught_up(folder: Path) -> None:
    """Runs the capture of ``capture.yaml`` in a folder. Raises CalledProcessError if it fails."""
    subprocess.run(
        [sys.executable, "-m", "tidemark.runtime", "capture", "capture.yaml", "--until-caught-up"],
        cwd=folder,
        check=True,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "LOG_LEVEL": "warn"},
    )


def _report(taken: dict[str, list[Spent]], rows: int) -> None:
    seconds = {name: statistics.median(one.seconds for one in runs) for name, runs in taken.items()}
    for name, runs in taken.items():
        ours = statistics.median(one.ours for one in runs) * 1e6 / rows
        server = statistics.median(one.server for one in runs) * 1e6 / rows
        print(
            f"{name:8} {rows / seconds[name]:>10,.0f} rows/s  {seconds['by hand'] / seconds[name]:5.2f} of by hand  "
            f"{ours:5.2f} + {server:.2f} CPU seconds a million rows (clients', the server's)"
        )


def _compare(log: Path, table: str, parquet: Path, name: str) -> None:
    """Ends with an error if a column differs."""
    by_hand = pq.read_table(parquet).sort_by("id")
    opened = ChangeLog(log)
    files = [log / segment.path for segment in opened.segments(table.replace(".", "/"), 0, opened.end())]
    ours = pa.concat_tables([pq.read_table(file) for file in files]).sort_by("id")
    for column in by_hand.column_names:
        if not ours.column(column).cast(by_hand.schema.field(column).type).equals(by_hand.column(column)):
            sys.exit(f"{name}: column {column} differs from what is got by hand")


if __name__ == "__main__":
    main()
