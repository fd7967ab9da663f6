"""The binary log of MariaDB or MySQL: one large transaction, and many of one row, to lines on stdout.

    python -m benchmarks.source.mysql_log [--server mysql] [--rows 1000000] [--transactions 200000] [--rounds 3]

The peer is mysql-replication, iterating the rows of the same stretch of the log and doing nothing with them, and
for MySQL Debezium's engine, which writes lines too. Whole processes are timed in turn, their starts included; what a
start alone takes, with nothing to read, is shown too.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

from benchmarks.peers.debezium import NAME, Debezium
from benchmarks.processor_time import Spent, timed
from benchmarks.results import had, in_turn, report
from benchmarks.source.driven import Driven
from benchmarks.source.postgres_server import check_documents
from tidemark.testing.servers.mariadb import MARIADB, MYSQL, MariaDb, no_source, running, source

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
    """Where a stretch of the log begins: as a state of ours, as a file and an offset, and as MySQL's set of GTIDs."""

    state: Any
    file: str
    offset: int
    gtids: str


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
    rows, transactions, skipped = arguments.rows, arguments.transactions, dict[str, str]()
    with running(found) as server, tempfile.TemporaryDirectory() as folder:
        debezium = had(NAME, lambda: Debezium(arguments.server, Path(folder)), skipped)

        def measure(what: str, start: Start, changes: int) -> None:
            taken = _measure(server, debezium if changes else None, start, arguments.rounds, changes)
            report(
                f"{product.name} {server.version.partition('-')[0]}, {what}", taken, changes or 1, "changes", skipped
            )

        make_table(server, 0)
        execute(server, UPDATES)
        start = _here(server)
        measure("nothing to read", start, 0)
        execute(server, ROWS.format(rows=rows))
        measure(f"one transaction of {rows:,} inserts", start, rows)
        start = _here(server)
        execute(server, f"CALL bench.updates({transactions})")
        measure(f"{transactions:,} transactions of one update", start, transactions)


def make_table(server: MariaDb, rows: int) -> None:
    """Makes the table with so many rows, up to a million."""
    execute(server, "CREATE DATABASE bench", TABLE, "CREATE TABLE bench.thousand (n int)", THOUSAND)
    execute(server, ROWS.format(rows=rows), "ANALYZE TABLE bench.bench")


def _measure(
    server: MariaDb, debezium: Debezium | None, start: Start, rounds: int, rows: int
) -> dict[str, list[Spent]]:
    arguments = [start.file, str(start.offset), str(rows), server.host, str(server.port), server.user]
    peer = [sys.executable, "-W", "ignore", "-c", PEER, *arguments]
    request = json.dumps({"open": {"capture": _spec(server), "state": start.state}}).encode() + b"\n"
    with tempfile.TemporaryFile() as lines:
        sides = {
            "mysql-replication, rows iterated": lambda: _run(peer, server.password.encode(), subprocess.DEVNULL),
            "tidemark's connector alone": lambda: _run(COMMAND, request, _emptied(lines)),
        }
        if debezium is not None:
            place = {"file": start.file, "pos": start.offset, "gtids": start.gtids}
            sides[NAME] = lambda: debezium.of_mysql(server, rows, place)
        taken = in_turn({name: partial(timed, server.server, side) for name, side in sides.items()}, rounds)
        check_documents(lines, rows)
    if debezium is not None:
        debezium.check(range(1, rows + 1))
    return taken


def _run(command: list[str], request: bytes, output: IO[bytes] | int) -> None:
    environment = {**os.environ, "TIDEMARK_STOP_WHEN_CAUGHT_UP": "1", "LOG_LEVEL": "error"}
    subprocess.run(command, input=request, stdout=output, env=environment, check=True)


def _emptied(lines: IO[bytes]) -> IO[bytes]:
    lines.truncate(0)
    lines.seek(0)
    return lines


def _here(server: MariaDb) -> Start:
    """Where the log ends now."""
    driven = Driven(COMMAND, _spec(server), {}, {"TIDEMARK_STOP_WHEN_CAUGHT_UP": "1"})
    driven.run(lambda: False)
    driven.finish()
    return Start(driven.state, *end_of_log(server), _gtids(server))


def _gtids(server: MariaDb) -> str:
    """What MySQL's log has until now."""
    if not server.is_mysql:
        return ""
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT @@gtid_executed")
        row = cursor.fetchone()
    assert row is not None
    return str(row[0]).replace("\n", "")


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
