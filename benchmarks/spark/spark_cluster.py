"""A live database, captured while it is written to, and kept by the executors of a standalone cluster.

    python -m benchmarks.spark.spark_cluster [--rows 1000000 16000000] [--folder DIR]

For each size: a table of so many rows is captured while some hundred rows a second are changed; `tidemark materialize
--master spark://…` loads the log on two workers, and takes what came since in a second run. Printed are the events, who
read them by the report and by Spark's event log, and the peak memory of the driver: of its Python process, and of its
JVM, whose heap is limited to 512 MB. Neither may grow with the table. The rows are compared with the source by number
and by a checksum of each column.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from deltalake import DeltaTable, QueryBuilder

from benchmarks.source.postgres_server import ROWS, TABLE, config, connect, server
from tidemark.demo.processes import TIDEMARK, descendants
from tidemark.testing.servers.postgres_server import PostgresServer
from tidemark.testing.spark_cluster import SparkCluster

ROWS_A_STATEMENT = 1_000_000

SUMS = "SELECT count(*), sum(id), sum(customer), sum(quantity), sum(CAST(price AS decimal(30,2))) FROM {}"


class Memory:
    """The peak resident memory of a command's own process and of its JVM, sampled while it runs."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.python = self.jvm = 0
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def join(self) -> None:
        self._thread.join()

    def _watch(self) -> None:
        while self._process.poll() is None:
            self.python = max(self.python, _resident(self._process.pid))
            found = [pid for pid, command in descendants(self._process.pid).items() if "java" in command.split(" ")[0]]
            self.jvm = max([self.jvm, *map(_resident, found)])
            time.sleep(0.05)


def _resident(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM:")), 0)


@contextmanager
def writing(running: PostgresServer, rows: int) -> Iterator[None]:
    """Changes rows all over the table, some hundred a second, for as long as the context lasts."""
    stop = threading.Event()

    def write() -> None:
        with connect(running) as connection:
            for step in itertools.count():
                if stop.wait(0.001):
                    return
                row = step * 7919 % rows + 1
                connection.execute("UPDATE bench SET quantity = quantity + 1, note = note || '.' WHERE id = %s", [row])

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def materialize(file: Path, cluster: SparkCluster, events: Path) -> tuple[dict[str, Any], Memory]:
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.dir": events.as_uri(),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.executor.memory": "1g",
        "spark.pyspark.python": sys.executable,
    }
    given = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    command = [*TIDEMARK, "materialize", str(file), "--available-now", "--json", "--master", cluster.url, *given]
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stdout=output, env=cluster.environment())
        memory = Memory(process)
        memory.join()
        if process.wait() != 0:
            sys.exit(f"materialize ended with {process.returncode}")
        output.seek(0)
        return json.loads(output.read().splitlines()[-1]), memory


def tasks(events: Path) -> Counter[str]:
    """Tasks by executor, by Spark's event logs."""
    found: Counter[str] = Counter()
    for log in events.iterdir():
        for line in log.read_text().splitlines():
            event = json.loads(line)
            if event["Event"] == "SparkListenerTaskEnd":
                found[event["Task Info"]["Executor ID"]] += 1
    return found


def run(rows: int, folder: Path) -> None:
    events = folder / "events"
    events.mkdir()
    file = folder / "bench.yaml"
    with server() as running, SparkCluster(memory="2g") as cluster:
        with connect(running) as connection:
            connection.execute(TABLE)
            for first in range(1, rows + 1, ROWS_A_STATEMENT):
                connection.execute(ROWS, [first, min(rows, first + ROWS_A_STATEMENT - 1)])
            connection.execute("ANALYZE bench")
        content = {
            "capture": "bench",
            "connector": {"command": ["python", "-m", "tidemark.connectors.postgres"], "config": config(running)},
            "tables": ["public.bench"],
            "log": str(folder / "log"),
            "spark": {"warehouse": str(folder / "lake"), "tables": {"*": "current"}},
        }
        file.write_text(json.dumps(content))
        file.chmod(0o600)
        capture = [*TIDEMARK, "capture", str(file), "--until-caught-up", "--json"]
        with writing(running, rows):
            began = time.monotonic()
            subprocess.run(capture, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            captured = time.monotonic() - began
            reports = [materialize(file, cluster, events)]
        subprocess.run(capture, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        reports.append(materialize(file, cluster, events))
        with connect(running) as connection:
            expected = [str(value) for value in connection.execute(SUMS.format("bench")).fetchone() or ()]
    table = DeltaTable(str(folder / "lake" / "public" / "bench" / "current"))
    sums = QueryBuilder().register("t", table).execute(SUMS.format("t")).read_all()
    kept = [str(sums.column(number)[0].as_py()) for number in range(sums.num_columns)]
    if kept != expected:
        sys.exit(f"the table differs from the source: {kept} and {expected}")
    print(f"{rows:,} rows captured in {captured:.0f} s, kept and equal to the source")
    for name, (report, memory) in zip(("first load", "what came since"), reports, strict=True):
        print(
            f"  {name}: {report['events']:,} events, read by executors: {sum(report['executors'].values()):,} "
            f"on {len(report['executors'])}; driver {memory.python / 1e6:.0f} MB, its JVM {memory.jvm / 1e6:.0f} MB"
        )
    print(f"  tasks by executor, by the event log: {dict(sorted(tasks(events).items()))}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 16_000_000])
    parser.add_argument("--folder", type=Path, default=None, help="where logs and tables are made (and removed)")
    options = parser.parse_args()
    os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:+UseSerialGC")
    for rows in options.rows:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            run(rows, Path(folder))


if __name__ == "__main__":
    main()
