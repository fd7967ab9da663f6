"""MariaDB's binary log: one large transaction, and many of one row, to lines on stdout.

    python -m benchmarks.mysql_log [--rows 200000] [--rounds 3]

The peer is mysql-replication, iterating the rows of the same stretch of the log and doing nothing with them. Whole
processes are timed, start included, in turn.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

from benchmarks.driven import Driven
from benchmarks.postgres_server import check_documents, compare
from tests.servers.mariadb import MariaDb, no_source, running, source

COMMAND = [sys.executable, "-m", "connectors.mysql"]

TABLE = """
CREATE TABLE bench.bench (
    id bigint PRIMARY KEY, customer int NOT NULL, quantity int NOT NULL, price decimal(12,2) NOT NULL,
    created datetime NOT NULL, updated timestamp(6) NOT NULL, note varchar(200) NOT NULL, paid boolean NOT NULL,
    weight double NOT NULL, attributes json NOT NULL
)"""
"""Ten columns, about 230 bytes a row as text."""

ROWS = """
INSERT INTO bench.bench
SELECT seq, seq % 99991, seq % 17, (seq % 1000007) / 100, '2024-01-01' + INTERVAL seq SECOND,
       '2024-01-01' + INTERVAL seq SECOND, concat('order ', seq, ', delivered to the side door, thank you'), seq % 2,
       seq / 7, json_object('source', 'web', 'tags', json_array('new', seq % 9), 'n', seq)
FROM bench.seq_1_to_{rows}"""

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    found = source()
    if found is None:
        sys.exit(no_source())
    rows = arguments.rows
    with running(found) as server:
        _execute(server, "CREATE DATABASE bench", TABLE)
        print(f"one transaction of {rows:,} inserts")
        _measure(server, arguments.rounds, rows, lambda: _execute(server, ROWS.format(rows=rows)))
        few = rows // 4
        print(f"{few:,} transactions of one update")
        loop = f"FOR i IN 1..{few} DO UPDATE bench.bench SET quantity = quantity + 1 WHERE id = i; COMMIT; END FOR"
        _measure(server, arguments.rounds, few, lambda: _execute(server, f"BEGIN NOT ATOMIC {loop}; END"))


def _measure(server: MariaDb, rounds: int, rows: int, write: Callable[[], None]) -> None:
    state = _state(server)
    ((file, offset),) = _rows(server, "SHOW MASTER STATUS", 2)
    write()

    def peer() -> None:
        arguments = [file, str(offset), str(rows), server.host, str(server.port), server.user]
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", PEER, *arguments], input=server.password.encode(), check=True
        )

    def connector() -> None:
        lines.truncate(0)
        lines.seek(0)
        environment = {**os.environ, "TIDEMARK_STOP_WHEN_CAUGHT_UP": "1", "LOG_LEVEL": "error"}
        line = json.dumps({"open": {"capture": _spec(server), "state": state}}).encode() + b"\n"
        subprocess.run(COMMAND, input=line, stdout=lines, env=environment, check=True)

    with tempfile.TemporaryFile() as lines:
        compare(
            {"mysql-replication, rows iterated": peer, "connectors.mysql, lines to a file": connector}, rounds, rows
        )
        check_documents(lines, rows)


def _state(server: MariaDb) -> Any:
    """The state of a capture that stands where the log ends now."""
    driven = Driven(COMMAND, _spec(server), {}, {"TIDEMARK_STOP_WHEN_CAUGHT_UP": "1"})
    driven.run(lambda: False)
    driven.finish()
    return driven.state


def _spec(server: MariaDb) -> dict[str, Any]:
    binding = {
        "resourceConfig": {"schema": "bench", "table": "bench", "scan": "none"},
        "resourcePath": ["bench", "bench"],
        "collection": {"name": "bench/bench", "key": ["/id"]},
        "stateKey": "bench%2Fbench",
    }
    return {"name": "bench", "config": server.config(), "bindings": [binding]}


def _execute(server: MariaDb, *statements: str) -> None:
    with server.connect() as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def _rows(server: MariaDb, query: str, columns: int) -> list[tuple[Any, ...]]:
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(query)
        return [tuple(row[:columns]) for row in cursor.fetchall()]


if __name__ == "__main__":
    main()
