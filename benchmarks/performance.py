"""Runs what docs/performance.md tells of, keeps the results in ``benchmarks/results.json``, and writes the page.

    python -m benchmarks.performance [--quick] [NAME …]

With names, of benchmarks' files, only these are run, and replace what there is of them. ``--quick`` takes a fiftieth of
the sizes, to try the way: the page then says that such figures tell nothing.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import orjson

from benchmarks.peers.debezium import VERSION
from benchmarks.results import RECORDS, RESULTS
from tests.house import performance_page

ROOT = RESULTS.parents[1]

RUNS = {
    "capture.first_capture": ("--rows 1000000 --rounds 2", "--rows 1000000 --rounds 2 --server mariadb"),
    "capture.shapes": ("--bytes 1000000000 --rounds 1",),
    "source.postgres_backfill": ("--rows 500000 --rounds 2",),
    "capture.changes": (
        "--changes 500000 --rounds 2",
        "--changes 200000 --rounds 2 --each 1",
        "--changes 500000 --rounds 2 --server mariadb",
    ),
    "source.postgres_log": ("--rows 300000 --rounds 2",),
    "source.mysql_log": (
        "--rows 100000 --transactions 20000 --rounds 2 --server mysql",
        "--rows 100000 --transactions 20000 --rounds 2",
    ),
    "capture.commit_latency": ("--commits 200",),
    "source.resume": ("--rows 2000000 --kills 3",),
    "source.retained_wal": ("--rows 8000000 --writes 5000",),
    "capture.start": ("--runs 5",),
    "capture.many_tables": ("--server postgres mariadb --tables 10 500 --limit 1000",),
    "capture.verify": ("--rows 1000000 --rounds 2",),
    "spark.spark_jdbc": ("--rows 4000000 --rounds 2",),
    "spark.spark_first_load": ("--rows 1000000 --only uuid",),
    "spark.spark_live_view": ("--rows 1000000 --rounds 3",),
    "spark.spark_scan": ("--rows 2000000 --rounds 2",),
}
"""Modules beneath ``benchmarks``, and the arguments of each run."""

NAMES = {module.rpartition(".")[2]: module for module in RUNS}

PACKAGES = ("psycopg", "adbc-driver-postgresql", "pyarrow", "PyMySQL", "dlt", "connectorx", "pyspark", "deltalake")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="of a benchmark: " + ", ".join(NAMES))
    parser.add_argument("--quick", action="store_true", help="small sizes")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(NAMES):
        parser.error(f"the page has no {', '.join(sorted(unknown))}, but: {', '.join(NAMES)}")
    failed = []
    for name in arguments.names or NAMES:
        result = _measured(NAMES[name], quick=arguments.quick)
        if result is None:
            failed.append(name)
            continue
        found = {**(orjson.loads(RESULTS.read_bytes()) if RESULTS.is_file() else {}), name: result}
        ordered = {name: found[name] for name in NAMES if name in found}
        RESULTS.write_bytes(orjson.dumps(ordered, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
        performance_page.main([])
        print(f"== {name} took {result['seconds']} s", flush=True)
    if failed:
        sys.exit(f"these failed, and their results are those of before: {', '.join(failed)}")


def _measured(module: str, *, quick: bool) -> dict[str, Any] | None:
    """The result of all runs of a benchmark; None if one fails."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        records = Path(folder) / "records"
        for arguments in RUNS[module]:
            given = _small(arguments) if quick else arguments
            print(f"== {module} {given}", flush=True)
            command = [sys.executable, "-m", f"benchmarks.{module}", *given.split()]
            if subprocess.run(command, cwd=ROOT, env={**os.environ, RECORDS: str(records)}, check=False).returncode:
                return None
        found = [orjson.loads(line) for line in records.read_bytes().splitlines()]
    seconds = round(time.monotonic() - began)
    return {"quick": quick, "seconds": seconds, "machine": _machine(), "records": found}


def _small(arguments: str) -> str:
    """A fiftieth of what counts in thousands, once."""
    once = re.sub(r"(--rounds|--runs|--kills) \d+", r"\1 1", arguments)
    return re.sub(r"\d{5,}", lambda size: str(int(size[0]) // 50), once)


def _machine() -> dict[str, Any]:
    """What figures depend on."""
    return {
        "commit of tidemark": _said("git", "rev-parse", "--short=10", "HEAD"),
        "cores": os.cpu_count(),
        "processor": _said("sed", "-n", r"s/^model name\s*: //p", "/proc/cpuinfo"),
        "memory, GB": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9),
        "file system": _said("stat", "--file-system", "--format=%T", tempfile.gettempdir()),
        "system": f"{platform.system()} {platform.release()}",
        "Python": platform.python_version(),
        "Java": _said("java", "--version"),
        "Debezium": VERSION,
        **{name: version(name) for name in PACKAGES},
    }


def _said(*command: str) -> str:
    """The first line that a program says."""
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()[0]


if __name__ == "__main__":
    main()
