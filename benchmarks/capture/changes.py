"""The whole way of changes: from PostgreSQL's log to committed segments, against the server's own client.

    python -m benchmarks.capture.changes [--changes 500000] [--each 1000] [--rounds 3]

``pg_recvlogical`` writes what the walsender sends to a file, and decodes nothing. Ours is ``tidemark capture
--until-caught-up``, with batches of columns and with lines, of a table of ten columns whose rows are updated, so many
in a transaction. All have a slot of their own that stands before the changes, and begin as new processes; the sides
alternate. At the end the logs of both forms are compared, row by row.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from benchmarks.capture.first_capture import capture_until_caught_up
from benchmarks.processor_time import Spent, spent
from benchmarks.source.postgres_server import config, published_table
from tidemark.demo.servers.postgres_server import PostgresServer
from tidemark.protocol.batches import ARROW
from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.environment import BATCHES

PEER = "pg_recvlogical"
FORMS = {"columns": ARROW, "lines": ""}
ROWS = 100_000
"""Of the table: they are updated in turn."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--changes", type=int, default=500_000)
    parser.add_argument("--each", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    rounds = range(arguments.rounds)
    with published_table(ROWS) as (running, session), tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for turn in rounds:
            session.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [f"peer_{turn}"])
            for form in FORMS:
                _prepare(running, folder / f"{form}_{turn}", f"{form}_{turn}", form)
        end = _change(session, arguments.changes, arguments.each)
        taken: dict[str, list[Spent]] = {PEER: [], **{form: [] for form in FORMS}}
        for turn in rounds:
            taken[PEER].append(_received(running, f"peer_{turn}", end))
            for form in FORMS:
                taken[form].append(_captured(running, folder / f"{form}_{turn}"))
        _report(taken, arguments.changes)
        first = {form: folder / f"{form}_0" / "bench.log" for form in FORMS}
        _compare(first["columns"], first["lines"], arguments.changes)


def _prepare(running: PostgresServer, folder: Path, slot: str, form: str) -> None:
    """A capture that has its slot, and nothing of the table's rows."""
    folder.mkdir()
    connector = {
        "command": [sys.executable, "-m", "tidemark.connectors.postgres"],
        "config": config(running, slot=slot, publication="bench"),
        "environment": {BATCHES: FORMS[form]},
    }
    tables = [{"table": "public.bench", "scan": "none"}]
    capture = {"capture": "bench", "connector": connector, "log": "./bench.log", "tables": tables}
    (folder / "capture.yaml").write_text(yaml.safe_dump(capture))
    capture_until_caught_up(folder)


def _change(session: psycopg.Connection, changes: int, each: int) -> str:
    """Makes the changes; the log's end after them."""
    update = f"UPDATE bench SET quantity = quantity + 1 WHERE id > first AND id <= first + {each}"
    session.execute(
        f"""DO $$ DECLARE first bigint; BEGIN
            FOR i IN 0..{changes // each - 1} LOOP first := i * {each} % {ROWS}; {update}; COMMIT; END LOOP;
        END $$"""
    )
    row = session.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()
    assert row is not None
    return str(row[0])


def _received(running: PostgresServer, slot: str, end: str) -> Spent:
    with tempfile.NamedTemporaryFile() as output, spent(running) as found:
        subprocess.run(
            [
                str(running.binaries / PEER),
                *("-d", running.dsn, "--slot", slot, "--start", "--no-loop", "--endpos", end),
                *("-o", "proto_version=1", "-o", "publication_names=bench", "-f", output.name),
            ],
            check=True,
            capture_output=True,
        )
    return found


def _captured(running: PostgresServer, folder: Path) -> Spent:
    with spent(running) as found:
        capture_until_caught_up(folder)
    return found


def _report(taken: dict[str, list[Spent]], changes: int) -> None:
    seconds = {name: statistics.median(one.seconds for one in runs) for name, runs in taken.items()}
    for name, runs in taken.items():
        ours = statistics.median(one.ours for one in runs) * 1e6 / changes
        server = statistics.median(one.server for one in runs) * 1e6 / changes
        print(
            f"{name:14} {changes / seconds[name]:>9,.0f} changes/s  {seconds[PEER] / seconds[name]:5.2f} of {PEER}  "
            f"{ours:5.2f} + {server:.2f} us of processor a change (ours, the server's)"
        )


def _compare(one: Path, other: Path, changes: int) -> None:
    """Ends with an error if the logs differ in anything but where the log stood before the first transaction."""
    tables = []
    for log in (one, other):
        opened = ChangeLog(log)
        files = [log / segment.path for segment in opened.segments("public/bench", 0, opened.end())]
        tables.append(pa.concat_tables([pq.read_table(file) for file in files]).sort_by("_offset"))
    if tables[0].num_rows != changes:
        sys.exit(f"{tables[0].num_rows} events came of {changes} changes")
    for name in tables[0].column_names:
        if name != "_loc" and not tables[0].column(name).equals(tables[1].column(name)):
            sys.exit(f"column {name} has other values in columns than in lines")


if __name__ == "__main__":
    main()
