"""What it costs to verify a table, against what its backfill cost: seconds, and seconds of processor.

    python -m benchmarks.capture.verify [--server mariadb] [--rows 1000000] [--rounds 3]

The backfill is ``tidemark capture --until-caught-up`` into a new log. Then ``tidemark verify`` has a capture that runs
read all rows once more, and compares them with the log. The processor time of verify is that of the command, of the
running capture with its connector and readers, and of the server, each meanwhile. Every row has to be compared, and be
equal.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.capture.first_capture import Source, captured, mariadb, postgres
from benchmarks.processor_time import Spent, spent, tree_seconds
from benchmarks.results import report
from tidemark.testing.deadline import wait_until

COMMAND = [sys.executable, "-m", "tidemark.runtime"]
ENVIRONMENT = {**os.environ, "LOG_LEVEL": "warn"}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--server", choices=("postgres", "mariadb"), default="postgres")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    opened = mariadb if arguments.server == "mariadb" else postgres
    taken: dict[str, list[Spent]] = {"the backfill of the same rows": [], "tidemark verify": []}
    first, second = taken.values()
    with opened(arguments.rows) as source, tempfile.TemporaryDirectory() as name:
        for turn in range(arguments.rounds):
            folder = Path(name) / f"round_{turn}"
            endpoint: dict[str, Any] = {**source.config, "backfill": {"readers": 1}}
            if opened is postgres:
                endpoint["slot"] = f"verify_{turn}"
            first.append(captured(source, endpoint, folder))
            with _running(folder) as capture:
                second.append(_verified(source, folder, capture, arguments.rows))
    report(f"{arguments.rows:,} rows of {source.product}, compared with the log", taken, arguments.rows)


@contextmanager
def _running(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        [*COMMAND, "capture", "capture.yaml"], cwd=folder, env=ENVIRONMENT, stdout=subprocess.DEVNULL
    ) as running:
        try:
            wait_until(lambda: _state(folder) == "running", 60, "the capture runs")
            yield running
        finally:
            running.terminate()


def _state(folder: Path) -> str:
    asked = subprocess.run([*COMMAND, "status", "capture.yaml", "--json"], cwd=folder, capture_output=True, check=False)
    said = json.loads(asked.stdout)
    return str(said["state"]) if said["caught_up"] else ""


def _verified(source: Source, folder: Path, capture: subprocess.Popen[bytes], rows: int) -> Spent:
    before = tree_seconds(capture.pid)
    with spent(source.server) as found:
        command = [*COMMAND, "verify", "capture.yaml", "--json"]
        asked = subprocess.run(command, cwd=folder, env=ENVIRONMENT, capture_output=True, check=True)
    found.ours += tree_seconds(capture.pid) - before
    (table,) = json.loads(asked.stdout)["tables"].values()
    if table["compared"] != rows or table["keys"]:
        sys.exit(f"not every row was compared, or some differ: {table}")
    return found


if __name__ == "__main__":
    main()
