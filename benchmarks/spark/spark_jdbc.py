"""From a database's rows to a Delta table: ``tidemark`` against the query that everybody types, ``spark.read.jdbc``.

    python -m benchmarks.spark.spark_jdbc [--rows 4000000] [--rounds 3]

By hand is a job of two partitions by key ranges that Spark reads from PostgreSQL at once, writes as Parquet, and that
is committed as a Delta table: what one writes who needs the rows once, and no change after them. Ours is a capture into
a change log and ``tidemark materialize`` of the kind ``current``: one after the other, and side by side. The sides
begin as new processes with an empty folder, and end once the table has all rows; they alternate. Processor time is that
of all processes, then the server's. At the end the tables are compared, column by column.

The JDBC driver comes from Maven Central, before anything is measured.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml
from deltalake import DeltaTable
from psycopg.conninfo import conninfo_to_dict

from benchmarks.peers.jars import jars
from benchmarks.processor_time import Spent, spent
from benchmarks.results import report
from benchmarks.source.postgres_server import CONNECTOR, config, published_table
from benchmarks.spark.spark_side import commit_of_files
from tidemark.testing.servers.postgres_server import PostgresServer

DRIVER = "org.postgresql:postgresql:42.7.7"

PARTITIONS = 2

TIDEMARK = [sys.executable, "-m", "tidemark.runtime"]

_PR_SET_CHILD_SUBREAPER = 36

GIVEN_UP_SECONDS = 900.0
LOOK_SECONDS = 0.2


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--by-hand", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.by_hand is not None:
        _by_hand(**json.loads(arguments.by_hand))
        return
    libraries = jars(DRIVER)  # Before JVMs are adopted: the one that fetches is no part of a side.
    _adopt_jvms()
    with published_table(arguments.rows) as (running, _), tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sides: dict[str, Callable[[Path, str], Path]] = {
            "spark.read.jdbc": lambda into, _: _read_by_jdbc(running, into, libraries, arguments.rows),
            "tidemark, one after the other": lambda into, slot: _one_after_the_other(running, into, slot),
            "tidemark, side by side": lambda into, slot: _side_by_side(running, into, slot, arguments.rows),
        }
        taken: dict[str, list[Spent]] = {side: [] for side in sides}
        for turn in range(arguments.rounds):
            for number, (side, load) in enumerate(sides.items()):
                into = folder / f"side_{number}"
                shutil.rmtree(into, ignore_errors=True)
                into.mkdir()
                with spent(running) as found:
                    table = load(into, f"load_{turn}_{number}")
                    _wait_for_jvms()
                taken[side].append(found)
                if (rows := _rows(table)) != arguments.rows:
                    sys.exit(f"{side}: {rows} of {arguments.rows} rows")
        report(f"{arguments.rows:,} rows of PostgreSQL {running.version} into a Delta table", taken, arguments.rows)
        _compare(*(folder / f"side_{number}" for number in range(len(sides))))


def _adopt_jvms() -> None:
    """A JVM outlives the Python that started it by a moment. It becomes a process of this one: see prctl(2)."""
    if ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        sys.exit("processor time of a JVM that outlives its parent is known on Linux only")


def _wait_for_jvms() -> None:
    for child in Path("/proc/self/task").glob("*/children"):
        for pid in map(int, child.read_text().split()):
            if Path(f"/proc/{pid}/comm").read_text().strip() == "java":
                os.waitpid(pid, 0)


def _read_by_jdbc(running: PostgresServer, into: Path, libraries: list[str], rows: int) -> Path:
    at = conninfo_to_dict(running.dsn)
    given = {
        "url": f"jdbc:postgresql://{at['host']}:{at['port'] or 5432}/{at['dbname']}",
        "user": at["user"],
        "password": at.get("password") or "",
        "jars": libraries,
        "rows": rows,
        "table": str(into / "table"),
    }
    subprocess.run(
        [sys.executable, "-m", "benchmarks.spark.spark_jdbc", "--by-hand", json.dumps(given)],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return into / "table"


def _by_hand(url: str, user: str, password: str, jars: list[str], rows: int, table: str) -> None:
    """The whole of what one would type, as the process that is measured."""
    from pyspark.sql import SparkSession

    session = SparkSession.builder.master(f"local[{PARTITIONS}]").config("spark.jars", ",".join(jars))
    spark = session.config("spark.ui.enabled", "false").config("spark.sql.session.timeZone", "UTC").getOrCreate()
    properties = {"user": user, "password": password, "driver": "org.postgresql.Driver", "fetchsize": "10000"}
    read = spark.read.jdbc(url, "bench", "id", 1, rows + 1, PARTITIONS, properties=properties)
    read.write.option("compression", "zstd").parquet(table)
    spark.stop()
    commit_of_files(Path(table))


def _one_after_the_other(running: PostgresServer, into: Path, slot: str) -> Path:
    file = _capture_file(running, into, slot)
    for command in (["capture", file, "--until-caught-up"], ["materialize", file, "--available-now"]):
        subprocess.run([*TIDEMARK, *command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return into / "lake" / "public" / "bench" / "current"


def _side_by_side(running: PostgresServer, into: Path, slot: str, rows: int) -> Path:
    file, table = _capture_file(running, into, slot), into / "lake" / "public" / "bench" / "current"
    deadline = time.monotonic() + GIVEN_UP_SECONDS
    with _running("capture", file), _running("materialize", file):
        while _rows(table) != rows:
            if time.monotonic() > deadline:
                sys.exit(f"the table does not have all rows after {GIVEN_UP_SECONDS:.0f} s")
            time.sleep(LOOK_SECONDS)
    return table


@contextmanager
def _running(*command: str) -> Iterator[None]:
    process = subprocess.Popen([*TIDEMARK, *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def _capture_file(running: PostgresServer, into: Path, slot: str) -> str:
    content = {
        "capture": "bench",
        "connector": {"command": CONNECTOR, "config": config(running, publication="bench", slot=slot)},
        "tables": [{"table": "public.bench"}],
        "log": "./bench.log",
        "spark": {"warehouse": "./lake", "tables": {"*": "current"}, "master": f"local[{PARTITIONS}]"},
    }
    file = into / "capture.yaml"
    file.write_text(yaml.safe_dump(content))
    return str(file)


def _rows(table: Path) -> int:
    """How many rows a Delta table has; 0 where there is none yet."""
    if not DeltaTable.is_deltatable(str(table)):
        return 0
    return DeltaTable(str(table)).count()


def _compare(by_hand: Path, *others: Path) -> None:
    """Ends with an error if a column differs."""
    wanted = _sorted(by_hand / "table")
    for other in others:
        found = _sorted(other / "lake" / "public" / "bench" / "current")
        for column in wanted.column_names:
            if not _plain(found.column(column)).equals(_plain(wanted.column(column))):
                sys.exit(f"{other.name}: column {column} differs from what spark.read.jdbc gives")


def _sorted(table: Path) -> pa.Table:
    rows: pa.Table = DeltaTable(str(table)).to_pyarrow_table()
    return rows.sort_by("id")


def _plain(column: Any) -> Any:
    """Integers of one size, and moments without a zone: sides choose different ones."""
    if pa.types.is_integer(column.type):
        return column.cast(pa.int64())
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("us"))
    return column.cast(pa.string()) if pa.types.is_large_string(column.type) else column


if __name__ == "__main__":
    main()
