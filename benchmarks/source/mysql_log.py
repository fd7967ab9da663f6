"""The binary log of MariaDB or MySQL: one large transaction, and many of one row, to lines on stdout.

    python -m benchmarks.source.mysql_log [--server mysql] [--rows 1000000] [--transactions 200000] [--rounds 3]

The peer is mysql-replication, iterating the rows of the same stretch of the log and doing nothing with them. Whole
processes are timed in turn, their starts included; what a start alone takes, with nothing to read, is shown too.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any

from benchmarks.source.driven import Driven
from benchmarks.source.postgres_server import check_documents
from tests.servers.mariadb import MARIADB, MYSQL, MariaDb, no_source, running, source

COMMAND = [sys.executable, "-m", "tidemark.connectors.mysql"]

TABLE = """
CREATE TABLE bench.bench (
    id bigint PRIMARY KEY, customer int NOT NULL, quantity int NOT NULL, price decimal(12,2) NOT NULL,
    created datetime NOT NULL, updated timestamp(6) NOT NULL, note varchar(200) NOT NULL, paid boolean NOT NULL,
    weight double NOT NULL, attributes json NOT NULL
)"""
"""Ten columns, about 230 bytes a row as text."""

ROWS = """
INSERT INTO bench.bench
SELECT n, n % 99991, n % 17, (n % 1000007) / 100, '2024-01-01' + INTERVAL n SECOND, '2024-01-01' + INTERVAL n SECOND,
       concat('order ', n, ', delivered to the side door, thank you'), n % 2, n / 7,
       json_object('source', 'web', 'tags', json_array('new', n % 9), 'n', n)
FROM (SELECT a.n + 1000 * b.n + 1 AS n FROM bench.thousand a JOIN bench.thousand b) numbers
WHERE n <= {rows}
ORDER BY n"""

THOUSAND = """
INSERT INTO bench.thousand WITH RECURSIVE numbers AS (SELECT 0 n UNION ALL SELECT n + 1 FROM numbers WHERE n < 999)
SELECT n FROM numbers"""

UPDATES = """
CREATE PROCEDURE bench.updates(last INT)
BEGIN
    DECLARE i INT DEFAULT 1;
    WHILE i <= last DO
        UPDATE bench.bench SET quantity = quantity + 1 WHERE id = i;
        SET i = i + 1;
    END WHILE;
END"""
"""Each is a transaction, as nobody begins one."""

PEER = """
import sys
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import UpdateRowsEvent, WriteRowsEvent
file, offset, rows = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
settings = {"host": sys.argv[4], "port": int(sys.argv[5]), "user": sys.argv[6], "passwd": sys.stdin.read()}
stream = BinLogStreamReader(
    connection_settings=settings, server_id=77, resume_stream=True, blocking=False, log_file=file, log_pos=offset,
    only_events=[WriteRowsEvent, UpdateRowsEvent],
)
seen = sum(1 for event in stream for row in event.rows)
sys.exit(0 if seen == rows else f"the peer saw {seen} of {rows} rows")
"""


@dataclass(frozen=True)
class Start:
    """Where a stretch of the log begins: as a state of ours, and as a file and an offset."""

    state: Any
    file: str
    offset: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", choices=("mariadb", "mysql"), default="mariadb")
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the large transaction, up to a million")
    parser.add_argument("--transactions", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    product = MYSQL if arguments.server == "mysql" else MARIADB
    found = source(product)
    if found is None:
        sys.exit(no_source(product))
    rounds, rows, transactions = arguments.rounds, arguments.rows, arguments.transactions
    with running(found) as server:
        print(f"{found}, {server.version}")
        make_table(server, 0)
        execute(server, UPDATES)
        start = _here(server)
        print("nothing to read")
        _measure(server, start, rounds, 0)
        print(f"one transaction of {rows:,} inserts")
        execute(server, ROWS.format(rows=rows))
        _measure(server, start, rounds, rows)
        print(f"{transactions:,} transactions of one update")
        start = _here(server)
        execute(server, f"CALL bench.updates({transactions})")
        _measure(server, start, rounds, transactions)


def make_table(server: MariaDb, rows: int) -> None:
    """Makes the table with so many rows, up to a million."""
    execute(server, "CREATE DATABASE bench", TABLE, "CREATE TABLE bench.thousand (n int)", THOUSAND)
    execute(server, ROWS.format(rows=rows), "ANALYZE TABLE bench.bench")


def _measure(server: MariaDb, start: Start, rounds: int, rows: int) -> None:
    arguments = [start.file, str(start.offset), str(rows), server.host, str(server.port), server.user]
    peer = [sys.executable, "-W", "ignore", "-c", PEER, *arguments]
    request = json.dumps({"open": {"capture": _spec(server), "state": start.state}}).encode() + b"\n"

    with tempfile.TemporaryFile() as lines:
        sides = {
            "mysql-replication, rows iterated": lambda: _run(peer, server.password.encode(), subprocess.DEVNULL),
            "tidemark.connectors.mysql, lines to a file": lambda: _run(COMMAND, request, _emptied(lines)),
        }
        _compare(sides, rounds, rows)
        check_documents(lines, rows)


def _compare(sides: dict[str, Callable[[], None]], rounds: int, rows: int) -> None:
    """Runs the sides in turn and prints the medians of each, and how many times faster the last is than the first."""
    elapsed: dict[str, list[float]] = {name: [] for name in sides}
    processor: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, run in sides.items():
            started, used = time.perf_counter(), _processor_seconds()
            run()
            elapsed[name].append(time.perf_counter() - started)
            processor[name].append(_processor_seconds() - used)
    for name, taken in elapsed.items():
        seconds, cpu = statistics.median(taken), statistics.median(processor[name])
        rate = f"{rows / seconds:>10,.0f} rows/s {cpu / rows * 1e6:>7.1f} us of processor a row" if rows else ""
        print(
            f"  {name:<36}{seconds:>8.2f} s, {cpu:>6.2f} s of processor{rate}  ({min(taken):.2f} to {max(taken):.2f} s)"
        )
    if rows:
        theirs, ours = (statistics.median(taken) for taken in elapsed.values())
        print(f"  {theirs / ours:.1f} times the peer's rows a second")


def _run(command: list[str], request: bytes, output: IO[bytes] | int) -> None:
    environment = {**os.environ, "TIDEMARK_STOP_WHEN_CAUGHT_UP": "1", "LOG_LEVEL": "error"}
    subprocess.run(command, input=request, stdout=output, env=environment, check=True)


def _emptied(lines: IO[bytes]) -> IO[bytes]:
    lines.truncate(0)
    lines.seek(0)
    return lines


def _processor_seconds() -> float:
    """Of the processes that were started and waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _here(server: MariaDb) -> Start:
    """Where the log ends now."""
    driven = Driven(COMMAND, _spec(server), {}, {"TIDEMARK_STOP_WHEN_CAUGHT_UP": "1"})
    driven.run(lambda: False)
    driven.finish()
    return Start(driven.state, *end_of_log(server))


def end_of_log(server: MariaDb) -> tuple[str, int]:
    """The file in which the log ends now, and the offset."""
    modern = server.is_mysql and tuple(map(int, server.version.split("-")[0].split(".")[:2])) >= (8, 2)
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SHOW BINARY LOG STATUS" if modern else "SHOW MASTER STATUS")
        row = cursor.fetchone()
    assert row is not None  # the binary log is on
    return row[0], row[1]


def _spec(server: MariaDb) -> dict[str, Any]:
    binding = {
        "resourceConfig": {"schema": "bench", "table": "bench", "scan": "none"},
        "resourcePath": ["bench", "bench"],
        "collection": {"name": "bench/bench", "key": ["/id"]},
        "stateKey": "bench%2Fbench",
    }
    return {"name": "bench", "config": server.config(), "bindings": [binding]}


def execute(server: MariaDb, *statements: str) -> None:
    with server.connect() as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


if __name__ == "__main__":
    main()
