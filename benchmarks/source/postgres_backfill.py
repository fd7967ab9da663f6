"""The backfill of one table, from a server at rest to lines on stdout.

    python -m benchmarks.source.postgres_backfill [--rows 1000000] [--rounds 3] [--readers 1] [--scan key]

The limit is ``COPY bench TO STDOUT`` by psql, which gives the same rows as raw text. Whole processes are timed, start
included.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile

from benchmarks.source.postgres_server import binding, capture, check_documents, compare, config, published_table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--readers", type=int, default=1)
    parser.add_argument("--scan", choices=["key", "physical"], default="key")
    arguments = parser.parse_args()
    with published_table(arguments.rows) as (running, session):
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

        with tempfile.TemporaryFile() as lines:
            sides = {"psql COPY to a file": peer, "tidemark.connectors.postgres, lines to a file": connector}
            compare(sides, arguments.rounds, arguments.rows)
            check_documents(lines, arguments.rows)


if __name__ == "__main__":
    main()
