"""How a backfill grows with its readers, and with the number of tables.

    python -m benchmarks.backfill_scaling [--rows 1000000] [--readers 1 2 4] [--tables 1 10 200]

The same rows in 1, 10 and 200 tables, each read by 1, 2 and 4 readers. The limit beside it is ``psql COPY`` of the same
tables, as many at once as there are readers. All of it shares this machine's cores with the server, so the number of
cores is where it ends.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg

from benchmarks.postgres_server import ROWS, TABLE, capture, check_documents, config, connect, server
from runtime.demo.postgres_server import PostgresServer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--readers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--tables", type=int, nargs="+", default=[1, 10, 200])
    arguments = parser.parse_args()
    print(f"{arguments.rows:,} rows, {os.cpu_count()} cores shared with the server")
    with server() as running, connect(running) as session:
        for count in arguments.tables:
            names = _make(session, count, arguments.rows // count)
            rows = arguments.rows // count * count
            first = None
            for readers in arguments.readers:
                ours = _capture(running, names, readers, rows)
                first = first or ours
                limit = _copy(running, names, readers)
                print(
                    f"{count:>4} tables, {readers} readers: {rows / ours:>10,.0f} rows/s, "
                    f"{first / ours:.2f} times one reader, {limit / ours:.2f} of COPY ({rows / limit:,.0f} rows/s)"
                )
            session.execute("DROP PUBLICATION bench")
            for name in names:
                session.execute(f"DROP TABLE {name}")


def _make(session: psycopg.Connection, count: int, rows: int) -> list[str]:
    names = [f"bench_{index}" for index in range(count)]
    for name in names:
        session.execute(TABLE.replace("CREATE TABLE bench", f"CREATE TABLE {name}").encode())
        session.execute(ROWS.replace("INSERT INTO bench", f"INSERT INTO {name}").encode(), [1, rows])
        session.execute(f"VACUUM ANALYZE {name}")
    session.execute(f"CREATE PUBLICATION bench FOR TABLE {', '.join(names)}")
    return names


def _capture(running: PostgresServer, names: list[str], readers: int, rows: int) -> float:
    """Seconds of the connector for all tables, start included."""
    with connect(running) as session:
        session.execute("SELECT pg_create_logical_replication_slot('bench', 'pgoutput')")
    endpoint = config(running, slot="bench", publication="bench", backfill={"readers": readers})
    spec = {"name": "bench", "config": endpoint, "bindings": [_binding(name) for name in names]}
    with tempfile.TemporaryFile() as lines:
        started = time.perf_counter()
        capture({"open": {"capture": spec, "state": {}}}, lines)
        taken = time.perf_counter() - started
        check_documents(lines, rows)
    with connect(running) as session:
        session.execute("SELECT pg_drop_replication_slot('bench')")
    return taken


def _binding(name: str) -> dict[str, Any]:
    return {
        "resourceConfig": {"schema": "public", "table": name},
        "resourcePath": ["public", name],
        "collection": {"name": f"public/{name}", "key": ["/id"]},
        "stateKey": f"public%2F{name}",
    }


def _copy(running: PostgresServer, names: list[str], at_once: int) -> float:
    """Seconds of psql for all tables, ``at_once`` at a time; one table cannot be shared."""

    def one(name: str) -> None:
        command = [str(running.binaries / "psql"), running.dsn, "-q", "-c", f"COPY {name} TO STDOUT"]
        with tempfile.TemporaryFile() as output:
            subprocess.run(command, stdout=output, check=True)

    started = time.perf_counter()
    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(one, names))
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
