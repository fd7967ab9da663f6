"""How much log the slot keeps on the server through a backfill under load, beside a run that reads the table first.

    python -m benchmarks.source.retained_wal [--rows 5000000] [--writes 2000] [--png FILE]

Both runs are the same connector over the same table under the same load of updates; the second one's checkpoints are
acknowledged only when the backfill is over. That is where the slot of any tool stands that reads the table first and
the log after, however it reads the table.
"""

from __future__ import annotations

import argparse
import threading
import time
from pathlib import Path

import psycopg

from benchmarks.results import note
from benchmarks.source.driven import Driven, backfilled
from benchmarks.source.postgres_server import CONNECTOR, binding, config, connect, published_table
from tidemark.testing.servers.postgres_server import PostgresServer

RETAINED = """
SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint FROM pg_replication_slots WHERE slot_name = 'bench'
"""

FIRST = "any tool that reads the table first"

Samples = list[tuple[float, int]]
"""Seconds since the run began, bytes retained."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--writes", type=int, default=2_000, help="updates a second")
    parser.add_argument("--png", type=Path, help="draw both, into this file")
    arguments = parser.parse_args()
    with published_table(arguments.rows) as (running, _):
        runs = {
            FIRST: _run(running, arguments.rows, arguments.writes, at_once=False),
            "tidemark's connector alone": _run(running, arguments.rows, arguments.writes, at_once=True),
        }
    most = {name: max(size for _, size in samples) / 1e6 for name, samples in runs.items()}
    for name, samples in runs.items():
        print(f"{name:<40} most retained {most[name]:>8.1f} MB in {samples[-1][0]:.0f} s")
    first, ours = most.values()
    print(f"ratio {first / ours:.1f}")
    sides = {name: {"MB retained": size} for name, size in most.items()}
    note(f"{arguments.rows:,} rows, {arguments.writes:,} updates a second beside", sides)
    if arguments.png is not None:
        _plot(runs, arguments.png)


def _run(running: PostgresServer, rows: int, writes: int, *, at_once: bool) -> Samples:
    with connect(running) as session:
        session.execute("CHECKPOINT")
        session.execute("SELECT pg_create_logical_replication_slot('bench', 'pgoutput')")
    over = threading.Event()
    samples: Samples = []
    beside = [
        threading.Thread(target=_write, args=(running, rows, writes, over)),
        threading.Thread(target=_sample, args=(running, over, samples)),
    ]
    for thread in beside:
        thread.start()
    try:
        endpoint = config(running, slot="bench", publication="bench", heartbeat_seconds=1)
        spec = {"name": "bench", "config": endpoint, "bindings": [binding()]}
        driven = Driven(CONNECTOR, spec, {})
        driven.acknowledging = at_once
        driven.run(lambda: backfilled(driven.state))
        driven.acknowledging = True
        ends = time.perf_counter() + 5.0
        driven.run(lambda: time.perf_counter() > ends)  # The slot comes down again.
    finally:
        over.set()
        for thread in beside:
            thread.join()
    driven.finish()
    with connect(running) as session:
        session.execute("SELECT pg_drop_replication_slot('bench')")
    return samples


def _write(running: PostgresServer, rows: int, writes: int, over: threading.Event) -> None:
    """About ``writes`` updates a second, in transactions of 100 rows."""
    with connect(running) as session:
        began, done = time.perf_counter(), 0
        while not over.is_set():
            first = done * 7919 % max(1, rows - 100)
            session.execute("UPDATE bench SET quantity = quantity + 1 WHERE id BETWEEN %s AND %s", [first, first + 99])
            done += 100
            over.wait(max(0.0, began + done / writes - time.perf_counter()))


def _sample(running: PostgresServer, over: threading.Event, samples: Samples) -> None:
    with psycopg.connect(running.dsn, autocommit=True) as session:
        began = time.perf_counter()
        while not over.wait(0.1):
            row = session.execute(RETAINED).fetchone()
            if row is not None and row[0] is not None:
                samples.append((time.perf_counter() - began, int(row[0])))


def _plot(runs: dict[str, Samples], path: Path) -> None:
    import matplotlib  # only this benchmark draws

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 4))
    for name, samples in runs.items():
        axes.plot([seconds for seconds, _ in samples], [size / 1e6 for _, size in samples], label=name)
    axes.set_xlabel("seconds since the backfill began")
    axes.set_ylabel("log the slot retains, MB")
    axes.legend()
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    print(f"drawn in {path}")


if __name__ == "__main__":
    main()
