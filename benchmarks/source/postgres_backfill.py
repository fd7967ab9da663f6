"""The backfill of one table, from a server at rest to lines on stdout.

    python -m benchmarks.source.postgres_backfill [--rows 1000000] [--rounds 3] [--readers 1] [--scan key]

The limit is ``COPY bench TO STDOUT`` by psql, which gives the same rows as raw text. The peer is Debezium's snapshot,
as lines too. Whole processes are timed, start included.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from functools import partial
from itertools import count
from pathlib import Path

from benchmarks.peers.debezium import NAME, Debezium
from benchmarks.processor_time import timed
from benchmarks.results import had, in_turn, report
from benchmarks.source.postgres_server import binding, capture, check_documents, config, published_table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--readers", type=int, default=1)
    parser.add_argument("--scan", choices=["key", "physical"], default="key")
    arguments = parser.parse_args()
    rows = arguments.rows
    with published_table(rows) as (running, session):
        session.execute("SELECT pg_create_logical_replication_slot('bench', 'pgoutput')")

        def peer() -> None:
            with tempfile.TemporaryFile() as output:
                subprocess.run(
                    [str(running.binaries / "psql"), running.dsn, "-q", "-c", "COPY bench TO STDOUT"],
                    stdout=output,
                    check=True,
                )

        def connector() -> None:
            endpoint = config(running, slot="bench", publication="bench", backfill={"readers": arguments.readers})
            capture(endpoint, [binding(scan=arguments.scan)], lines)

        with tempfile.TemporaryFile() as lines, tempfile.TemporaryDirectory() as folder:
            sides = {"psql COPY to a file": peer, "tidemark's connector alone": connector}
            turns, skipped = count(), dict[str, str]()
            debezium = had(NAME, lambda: Debezium("postgres", Path(folder)), skipped)
            if debezium is not None:
                sides[NAME] = lambda: debezium.of_postgres(running, f"turn_{next(turns)}", rows, snapshot=True)
            taken = in_turn({name: partial(timed, running, side) for name, side in sides.items()}, arguments.rounds)
            report(f"{rows:,} rows of PostgreSQL {running.version} as lines", taken, rows, skipped=skipped)
            check_documents(lines, rows)
            if debezium is not None:
                debezium.check(range(1, rows + 1))


if __name__ == "__main__":
    main()
