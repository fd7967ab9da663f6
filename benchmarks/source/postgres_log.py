"""The log: one large transaction, and many of one row, from a slot to lines on stdout.

    python -m benchmarks.source.postgres_log [--rows 400000] [--rounds 3]

The limit is ``pg_recvlogical``, the server's own client, which writes what the walsender sends to a file and decodes
nothing. The peer is Debezium's engine, which writes lines too. Whole processes are timed, start included, each on a
slot of its own that stands before the rows.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import psycopg

from benchmarks.peers.debezium import NAME, Debezium
from benchmarks.processor_time import Spent, timed
from benchmarks.results import had, in_turn, report
from benchmarks.source.postgres_server import ROWS, binding, capture, check_documents, config, published_table
from tidemark.testing.servers.postgres_server import PostgresServer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    rows, skipped = arguments.rows, dict[str, str]()
    with published_table() as (running, session), tempfile.TemporaryDirectory() as folder:
        debezium = had(NAME, lambda: Debezium("postgres", Path(folder)), skipped)

        def measure(what: str, changes: int, write: Callable[[], object]) -> None:
            taken = _measure(running, session, debezium, arguments.rounds, changes, write)
            report(f"PostgreSQL {running.version}, {what}", taken, changes, "changes", skipped)

        measure(f"one transaction of {rows:,} inserts", rows, lambda: session.execute(ROWS, [1, rows]))
        one_by_one = "UPDATE bench SET quantity = quantity + 1 WHERE id = i; COMMIT;"
        updates = f"DO $$ BEGIN FOR i IN 1..{rows // 4} LOOP {one_by_one} END LOOP; END $$"
        measure(f"{rows // 4:,} transactions of one update", rows // 4, lambda: session.execute(updates))


def _measure(
    running: PostgresServer,
    session: psycopg.Connection,
    debezium: Debezium | None,
    rounds: int,
    rows: int,
    write: Callable[[], object],
) -> dict[str, list[Spent]]:
    slots = [f"bench_{side}_{n}" for side in ("peer", "ours", "debezium") for n in range(rounds)]
    for slot in slots:
        session.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [slot])
    write()
    end = session.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()
    assert end is not None
    peers, ours, others = (iter(slots[part * rounds :][:rounds]) for part in range(3))

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

    sides = {"pg_recvlogical to a file": peer, "tidemark's connector alone": connector}
    if debezium is not None:
        sides[NAME] = lambda: debezium.of_postgres(running, next(others), rows, snapshot=False)
    with tempfile.TemporaryFile() as lines:
        taken = in_turn({name: partial(timed, running, side) for name, side in sides.items()}, rounds)
        check_documents(lines, rows)
    if debezium is not None:
        debezium.check(range(1, rows + 1))
    for slot in slots:
        session.execute("SELECT pg_drop_replication_slot(%s)", [slot])
    return taken


if __name__ == "__main__":
    main()
