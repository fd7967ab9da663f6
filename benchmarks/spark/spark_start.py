"""What ``materialize --available-now`` takes that has one row to apply, or none, against Spark's own start.

    python -m benchmarks.spark.spark_start [--rows 10000] [--rounds 5] [--folder DIR]

Spark's own start is a new Python that opens a local session, counts some numbers and stops. Each is a process of its
own, from its start to its end; rounds alternate, and medians count. Only on Linux.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.processor_time import Spent
from benchmarks.results import middle
from benchmarks.spark.spark_log import Part, Shape, make_log

BARE = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
spark.range(1000).count()
spark.stop()
"""


_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Makes this process the parent of a JVM that outlives its driver by a moment, so that its time is known."""
    if sys.platform != "linux" or ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        sys.exit("processor time of a tree of processes is known on Linux only")


def process(*command: str | Path) -> Spent:
    """Runs a program to its end. Its seconds are until it returns, its processor time that of all that it started."""
    before, began = os.times(), time.perf_counter()
    # No pipes: who waits for their end waits for the JVM's.
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    seconds = time.perf_counter() - began
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed: exit status {done.returncode}")
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return Spent(seconds, cpu)


def told(name: str, found: Spent, bare: Spent) -> None:
    print(
        f"{name:20} {found.seconds:6.1f} s ({found.seconds - bare.seconds:+5.1f})"
        f" {found.cpu:6.1f} CPU-s ({found.cpu - bare.cpu:+5.1f})",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, default=None)
    options = parser.parse_args()
    adopt_orphans()
    tidemark = Path(sys.executable).parent / "tidemark"
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        maker = make_log(Path(folder) / "log", Shape(options.rows))
        file = Path(folder) / "capture.yaml"
        file.write_text("{capture: benchmark, connector: {command: [x]}, log: log, spark: {warehouse: lake}}")
        keep = (tidemark, "materialize", file, "--available-now")
        process(*keep)
        bare, one, none = [], [], []
        for number in range(options.rounds):
            bare.append(process(sys.executable, "-c", BARE))
            maker.commit(Part(np.array([number]), "u", False))
            one.append(process(*keep))
            none.append(process(*keep))
        for name, found in (("Spark and one job", bare), ("one new row", one), ("nothing new", none)):
            told(name, middle(found), middle(bare))


if __name__ == "__main__":
    main()
