"""What it costs to start: each request as a process, and a capture until its first row is in the log.

    python -m benchmarks.capture.start [--runs 9]

Processor time is that of our processes, without the server's. The table has one row, so that reading it takes no time.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.processor_time import children_seconds
from benchmarks.source.postgres_server import CONNECTOR, binding, config, published_table
from tests.servers.mariadb import MARIADB, fresh_database, no_source, running, source
from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.errors import ChangeLogError

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


def _tell(what: str, taken: list[tuple[float, float]]) -> None:
    """Prints the medians of processor time and of the clock."""
    processor, clock = (statistics.median(seconds) for seconds in zip(*taken, strict=True))
    print(f"{what:<44} {processor:>9.2f} {clock:>9.2f}", flush=True)


def _process(command: list[str], given: bytes = b"") -> tuple[float, float]:
    """Seconds of processor and of the clock that a process takes."""
    before, started = children_seconds(), time.perf_counter()
    environment = {**os.environ, "LOG_LEVEL": "error"}
    subprocess.run(command, input=given, stdout=subprocess.DEVNULL, env=environment, check=True)
    return children_seconds() - before, time.perf_counter() - started


def _first_row(endpoint: Mapping[str, Any]) -> tuple[float, float]:
    """Seconds of processor of a capture that ends as soon as its first row can be read, and of the clock until then."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "capture.yaml"
        connector = {"command": ["python", "-m", "tidemark.connectors.postgres"], "config": endpoint}
        file.write_text(json.dumps({"capture": "bench", "connector": connector, "log": "bench.log"}))
        before, started = children_seconds(), time.perf_counter()
        with subprocess.Popen([*TIDEMARK, "capture", file], stderr=subprocess.DEVNULL) as command:
            while not _has_rows(file.with_name("bench.log")):
                if time.perf_counter() - started > GIVEN_UP_SECONDS or command.poll() is not None:
                    command.kill()
                    sys.exit("no row came into the log")
                time.sleep(0.002)
            seconds = time.perf_counter() - started
            command.send_signal(signal.SIGINT)
        return children_seconds() - before, seconds


def _has_rows(log: Path) -> bool:
    try:
        return ChangeLog(log).end() > 0
    except ChangeLogError:  # It is not there yet.
        return False


if __name__ == "__main__":
    main()
