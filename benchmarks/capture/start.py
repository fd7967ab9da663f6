"""What it costs to start: each request as a process, and a capture until its first row is in the log.

    python -m benchmarks.capture.start [--runs 9]

Processor time is that of our processes, without the server's. The table has one row, so that reading it takes no time.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.processor_time import Spent, spent, timed
from benchmarks.results import middle, note
from benchmarks.source.postgres_server import CONNECTOR, binding, config, published_table
from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.errors import ChangeLogError
from tidemark.testing.servers.mariadb import MARIADB, fresh_database, no_source, running, source

MYSQL = [sys.executable, "-m", "tidemark.connectors.mysql"]

TIDEMARK = [sys.executable, "-m", "tidemark.runtime"]

GIVEN_UP_SECONDS = 60.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=9)
    runs = parser.parse_args().runs
    print(f"{'seconds, median of ' + str(runs):<44} {'processor':>9} {'clock':>9}")
    _mysql(runs)
    with published_table(rows=1) as (server, session):
        endpoint = config(server, slot="bench", publication="bench")
        _calls("PostgreSQL", CONNECTOR, {"name": "bench", "config": endpoint, "bindings": [binding()]}, runs)
        _tell("tidemark --version", [_process([*TIDEMARK, "--version"]) for _ in range(runs)])
        firsts = []
        for _ in range(runs):
            firsts.append(_first_row(endpoint))
            session.execute("SELECT pg_drop_replication_slot('bench')")
        _tell("tidemark capture, to its first row in the log", firsts)


def _mysql(runs: int) -> None:
    found = source(MARIADB)
    if found is None:
        sys.exit(no_source(MARIADB))
    with running(found) as mariadb, fresh_database(mariadb, "bench") as database:
        with database.connect() as session, session.cursor() as cursor:
            cursor.execute("CREATE TABLE bench (id bigint PRIMARY KEY)")
        resource = {"schema": "bench", "table": "bench"}
        bound = {**binding(), "resourceConfig": resource, "resourcePath": list(resource.values())}
        _calls("MySQL", MYSQL, {"name": "bench", "config": database.config(), "bindings": [bound]}, runs)


def _calls(database: str, command: list[str], capture: Mapping[str, Any], runs: int) -> None:
    for kind, body in {
        "spec": {},
        "discover": {"config": capture["config"]},
        "validate": capture,
        "apply": {"capture": capture},
    }.items():
        _unary(database, command, kind, body, runs)


def _unary(database: str, command: list[str], kind: str, body: Mapping[str, Any], runs: int) -> None:
    line = json.dumps({kind: body}).encode() + b"\n"
    _tell(f"{database} {kind}", [_process(command, line) for _ in range(runs)])


def _tell(what: str, taken: list[Spent]) -> None:
    """Prints and keeps the medians of processor time and of the clock."""
    one = middle(taken)
    print(f"{what:<44} {one.ours:>9.2f} {one.seconds:>9.2f}", flush=True)
    note(what, {"tidemark": {"seconds": one.seconds, "processor seconds": one.ours}}, rounds=len(taken))


def _process(command: list[str], given: bytes = b"") -> Spent:
    """What a process takes."""
    environment = {**os.environ, "LOG_LEVEL": "error"}
    run = partial(subprocess.run, command, input=given, stdout=subprocess.DEVNULL, env=environment, check=True)
    return timed(None, run)


def _first_row(endpoint: Mapping[str, Any]) -> Spent:
    """What a capture takes that ends as soon as its first row can be read; of the clock, until it can."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "capture.yaml"
        connector = {"command": ["python", "-m", "tidemark.connectors.postgres"], "config": endpoint}
        file.write_text(json.dumps({"capture": "bench", "connector": connector, "log": "bench.log"}))
        with spent(None) as found:
            started = time.perf_counter()
            with subprocess.Popen([*TIDEMARK, "capture", file], stderr=subprocess.DEVNULL) as command:
                while not _has_rows(file.with_name("bench.log")):
                    if time.perf_counter() - started > GIVEN_UP_SECONDS or command.poll() is not None:
                        command.kill()
                        sys.exit("no row came into the log")
                    time.sleep(0.002)
                seconds = time.perf_counter() - started
                command.send_signal(signal.SIGINT)
        found.seconds = seconds
        return found


def _has_rows(log: Path) -> bool:
    try:
        return ChangeLog(log).end() > 0
    except ChangeLogError:  # It is not there yet.
        return False


if __name__ == "__main__":
    main()
