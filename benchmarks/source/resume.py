"""A backfill that is killed half-way: how soon the next process goes on, and what it reads again.

    python -m benchmarks.source.resume [--rows 5000000] [--kills 3]

At two sizes of the table, a fifth of the rows and all of them: both figures must not grow with it. The limit beside the
time is that of a process that only imports its modules, and for the rows it is one chunk for each reader.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks.results import note
from benchmarks.source.driven import Driven, backfilled
from benchmarks.source.postgres_server import CONNECTOR, ROWS, binding, config, published_table

MODULES = ("tidemark.captures.process.capture_session", "tidemark.captures.postgres.source")
"""What a session imports, and with these all others."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--kills", type=int, default=3)
    arguments = parser.parse_args()
    start = statistics.median(_start_seconds() for _ in range(3))
    print(f"a process that imports what a session needs: {start:.2f} s")
    with published_table() as (running, session):
        rows = 0
        for size in (arguments.rows // 5, arguments.rows):
            session.execute(ROWS, [rows + 1, size])
            rows = size
            session.execute("VACUUM ANALYZE bench")
            session.execute("SELECT pg_create_logical_replication_slot('bench', 'pgoutput')")
            endpoint = config(running, slot="bench", publication="bench")
            _measure({"name": "bench", "config": endpoint, "bindings": [binding()]}, size, arguments.kills, start)
            session.execute("SELECT pg_drop_replication_slot('bench')")


def _measure(spec: dict[str, Any], rows: int, kills: int, start: float) -> None:
    """Kills the capture ``kills`` times around half of the table, then lets it finish."""
    state: Any = {}
    committed = 0
    seconds: list[float] = []
    again: list[int] = []
    for kill in range(kills + 1):
        driven = Driven(CONNECTOR, spec, state)
        goal = rows * (40 + 20 * kill // max(1, kills)) // 100 if kill < kills else None
        driven.run(_reached(driven, None if goal is None else goal - committed))
        if kill:
            assert driven.first_row is not None
            seconds.append(driven.first_row - driven.started)
        committed += driven.rows
        again.append(driven.pending)  # Read, and thrown away by the kill.
        state = driven.state
        if goal is None:
            driven.finish()
        else:
            driven.kill()
    if committed != rows:
        raise SystemExit(f"{committed} rows were committed of {rows}")
    first = statistics.median(seconds)
    ours = {"seconds to the first row": first, "rows read again": max(again[:-1]), "rows committed twice": 0}
    sides = {
        "a process that only imports the same": {"seconds to the first row": start},
        "tidemark's connector alone": ours,
    }
    note(f"{rows:,} rows, killed {kills} times", sides, rounds=kills)
    print(
        f"{rows:>10,} rows, {kills} kills: first new row after {first:.2f} s "
        f"({first / start:.1f} of a mere start), "
        f"written again {max(again[:-1]):,} rows at most, committed twice 0"
    )


def _reached(driven: Driven, rows: int | None) -> Callable[[], bool]:
    """Whether a process has got so many rows through a checkpoint; with None, all of them."""
    return lambda: backfilled(driven.state) if rows is None else driven.rows >= rows


def _start_seconds() -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", f"import {', '.join(MODULES)}"], check=True)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
