"""How a backfill grows with its readers, and with the number of tables.

    python -m benchmarks.source.backfill_scaling [--rows 1000000] [--readers 1 2 4] [--tables 1 10 200]
                                                 [--far-rows 200000] [--far-readers 1 2 4 8] [--far-tables 1 10]

First, the same rows in 1, 10 and 200 tables, each read by 1, 2 and 4 readers, from a server on this machine. The limit
beside it is ``psql COPY`` of the same tables, as many at once as there are readers. All of it shares this machine's
cores, so beside the rates stands how many of them were busy: where that is all of them, the machine is the limit, and
what a row takes of them is what counts.

Then from the same server as if it were far away, where each connection is slow by itself
(``benchmarks.source.slow_network``) and the machine has little to do: there throughput is to grow with the readers.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any

import psycopg

from benchmarks.processor_time import Spent, spent
from benchmarks.source.postgres_server import ROWS, TABLE, capture, config, connect, server
from benchmarks.source.slow_network import slow_network
from tidemark.testing.servers.postgres_server import PostgresServer

CAPTURED = re.compile(rb'{"captured":{"binding":(\d+),"doc":{"_meta":{.*?}},"id":(\d+),')

FAR_MEGABYTES = 2.0
"""A second, of each connection: about 8,500 rows."""

FAR_MILLISECONDS = 2.0
"""Each way."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--readers", type=int, nargs="*", default=[1, 2, 4])
    parser.add_argument("--tables", type=int, nargs="*", default=[1, 10, 200])
    parser.add_argument("--far-rows", type=int, default=200_000)
    parser.add_argument("--far-readers", type=int, nargs="*", default=[1, 2, 4, 8])
    parser.add_argument("--far-tables", type=int, nargs="*", default=[1, 10])
    arguments = parser.parse_args()
    with server() as running:
        for count in arguments.tables:
            print(f"{arguments.rows:,} rows, {os.cpu_count()} cores shared with the server")
            _beside_the_server(running, count, arguments.rows // count, arguments.readers)
        for count in arguments.far_tables:
            print(f"{arguments.far_rows:,} rows, {FAR_MEGABYTES:g} MB/s a connection, {FAR_MILLISECONDS:g} ms each way")
            _far_away(running, count, arguments.far_rows // count, arguments.far_readers)


def _beside_the_server(running: PostgresServer, count: int, rows: int, readers: list[int]) -> None:
    names = _make(running, count, rows)
    first = None
    for number in readers:
        ours = _capture(running, names, number, rows * count)
        first = first or ours
        limit = _copy(running, names, number)
        print(
            f"{count:>4} tables, {number} readers: {_rates(ours, first, rows * count)}, "
            f"{limit.seconds / ours.seconds:.2f} of COPY; {ours.per_row(rows * count)}; "
            f"COPY {rows * count / limit.seconds:,.0f} rows/s, {limit.cores:.1f} busy",
            flush=True,
        )
    _drop(running, names)


def _far_away(running: PostgresServer, count: int, rows: int, readers: list[int]) -> None:
    names = _make(running, count, rows)
    first = None
    with slow_network(running.host, running.port, megabytes=FAR_MEGABYTES, milliseconds=FAR_MILLISECONDS) as port:
        for number in readers:
            ours = _capture(running, names, number, rows * count, host="127.0.0.1", port=port)
            first = first or ours
            rates = _rates(ours, first, rows * count)
            print(f"{count:>4} tables, {number} readers: {rates}; {ours.per_row(rows * count)}", flush=True)
    _drop(running, names)


def _rates(ours: Spent, first: Spent, rows: int) -> str:
    return f"{rows / ours.seconds:>9,.0f} rows/s, {first.seconds / ours.seconds:.2f} times one reader"


def _make(running: PostgresServer, count: int, rows: int) -> list[str]:
    """Tables of ``rows`` rows each, in a publication."""
    names = [f"bench_{index}" for index in range(count)]
    with connect(running) as session:
        for name in names:
            session.execute(TABLE.replace("CREATE TABLE bench", f"CREATE TABLE {name}").encode())
            session.execute(ROWS.replace("INSERT INTO bench", f"INSERT INTO {name}").encode(), [1, rows])
            session.execute(f"VACUUM ANALYZE {name}")
        session.execute(f"CREATE PUBLICATION bench FOR TABLE {', '.join(names)}")
        session.execute("CHECKPOINT")  # Otherwise the first run shares the disk with it.
    return names


def _drop(running: PostgresServer, names: list[str]) -> None:
    with connect(running) as session:
        session.execute("DROP PUBLICATION bench")
        for name in names:
            session.execute(f"DROP TABLE {name}")


def _capture(running: PostgresServer, names: list[str], readers: int, rows: int, **endpoint: Any) -> Spent:
    """The connector for all tables, start included."""
    with connect(running) as session:
        session.execute("SELECT pg_create_logical_replication_slot('bench', 'pgoutput')")
        whole = config(running, slot="bench", publication="bench", backfill={"readers": readers}, **endpoint)
        with tempfile.TemporaryFile() as lines:
            with spent(running) as result:
                capture(whole, [_binding(name) for name in names], lines)
            _check(lines, len(names), rows // len(names))
        _drop_slot(session)
    return result


def _check(lines: IO[bytes], tables: int, rows: int) -> None:
    """Every row has to be there. Where a range was cut in the middle of a chunk, the rest of that chunk comes twice."""
    seen = [bytearray(rows + 1) for _ in range(tables)]
    lines.seek(0)
    for line in lines:
        if (captured := CAPTURED.match(line)) is not None:
            seen[int(captured[1])][int(captured[2])] = 1
    if missing := sum(table.count(0, 1) for table in seen):
        sys.exit(f"{missing} rows did not come out")


def _drop_slot(session: psycopg.Connection) -> None:
    """The walsender behind a proxy outlives the connector for a moment; it is ended with its slot."""
    session.execute("SELECT pg_terminate_backend(active_pid, 10000) FROM pg_replication_slots WHERE active")
    session.execute("SELECT pg_drop_replication_slot('bench')")


def _binding(name: str) -> dict[str, Any]:
    return {
        "resourceConfig": {"schema": "public", "table": name},
        "resourcePath": ["public", name],
        "collection": {"name": f"public/{name}", "key": ["/id"]},
        "stateKey": f"public%2F{name}",
    }


def _copy(running: PostgresServer, names: list[str], at_once: int) -> Spent:
    """psql for all tables, ``at_once`` at a time; one table cannot be shared."""

    def one(name: str) -> None:
        command = [str(running.binaries / "psql"), running.dsn, "-q", "-c", f"COPY {name} TO STDOUT"]
        with tempfile.TemporaryFile() as output:
            subprocess.run(command, stdout=output, check=True)

    with spent(running) as result, ThreadPoolExecutor(at_once) as pool:
        list(pool.map(one, names))
    return result


if __name__ == "__main__":
    main()
