"""The log: one large transaction, and many of one row, from a slot to lines on stdout.

    python -m benchmarks.source.postgres_log [--rows 400000] [--rounds 3]

The limit is ``pg_recvlogical``, the server's own client, which writes what the walsender sends to a file and decodes
nothing. Whole processes are timed, start included, each on a slot of its own that stands before the rows.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from collections.abc import Callable

import psycopg

from benchmarks.source.postgres_server import ROWS, binding, capture, check_documents, compare, config, published_table
from tidemark.demo.servers.postgres_server import PostgresServer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with published_table() as (running, session):
        rows = arguments.rows
        print(f"one transaction of {rows:,} inserts")
        _measure(running, session, arguments.rounds, rows, lambda: session.execute(ROWS, [1, rows]))
        print(f"{rows // 4:,} transactions of one update")
        one_by_one = "UPDATE bench SET quantity = quantity + 1 WHERE id = i; COMMIT;"
        updates = f"DO $$ BEGIN FOR i IN 1..{rows // 4} LOOP {one_by_one} END LOOP; END $$"
        _measure(running, session, arguments.rounds, rows // 4, lambda: session.execute(updates))


def _measure(
    running: PostgresServer, session: psycopg.Connection, rounds: int, rows: int, write: Callable[[], object]
) -> None:
    slots = [f"bench_{side}_{n}" for side in ("peer", "ours") for n in range(rounds)]
    for slot in slots:
        session.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [slot])
    write()
    end = session.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()
    assert end is not None
    peers, ours = iter(slots[:rounds]), iter(slots[rounds:])

    def peer() -> None:
        with tempfile.NamedTemporaryFile() as output:
            subprocess.run(
                [
                    str(running.binaries / "pg_recvlogical"),
                    *("-d", running.dsn, "--slot", next(peers), "--start", "--no-loop", "--endpos", end[0]),
                    *("-o", "proto_version=1", "-o", "publication_names=bench", "-f", output.name),
                ],
                check=True,
                capture_output=True,
            )

    def connector() -> None:
        endpoint = config(running, slot=next(ours), publication="bench")
        capture(endpoint, [binding(scan="none")], lines)

    with tempfile.TemporaryFile() as lines:
        compare(
            {"pg_recvlogical to a file": peer, "tidemark.connectors.postgres, lines to a file": connector}, rounds, rows
        )
        check_documents(lines, rows)
    for slot in slots:
        session.execute("SELECT pg_drop_replication_slot(%s)", [slot])


if __name__ == "__main__":
    main()
