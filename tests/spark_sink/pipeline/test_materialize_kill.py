from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.spark_sink.log_builder import LogBuilder
from tests.spark_sink.replay import random_events, replay

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

KILLS = 2
COMMITS = 24
DEADLINE = 120


@contextmanager
def running(log: Path, warehouse: Path) -> Iterator[subprocess.Popen[str]]:
    """A run in a process group of its own, of which nothing is left at the end."""
    command = [sys.executable, "-m", "tests.spark_sink.pipeline.materialize_process", str(log), str(warehouse)]
    own = {**os.environ, "TMPDIR": str(warehouse.parent)}  # What a killed run leaves behind goes with the test.
    with subprocess.Popen(command, env=own, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def commits_in(warehouse: Path) -> int:
    return sum(1 for _ in warehouse.glob("public/items/*/_delta_log/*.json"))


def wait_for_commits(warehouse: Path, count: int, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + DEADLINE
    while commits_in(warehouse) < count and process.poll() is None:
        assert time.monotonic() < deadline, "no progress"
        time.sleep(0.005)


def test_killed_at_any_moment_it_ends_where_it_would_have(tmp_path: Path) -> None:
    chance = random.Random(os.urandom(8).hex())
    log, warehouse = LogBuilder(tmp_path / "a log"), tmp_path / "a lake"
    for _ in range(COMMITS):
        log.commit(*random_events(chance, 20, keys=80, truncates=0.002, table="public/items"))

    for _ in range(KILLS):
        with running(log.root, warehouse) as process:
            wait_for_commits(warehouse, commits_in(warehouse) + chance.randrange(1, 9), process)
            # Of the process alone, with its Java left to find out, or of both as when the machine stops.
            if chance.random() < 0.5:
                process.kill()
                process.wait()
    with running(log.root, warehouse) as process:
        _, said = process.communicate(timeout=DEADLINE)
    assert process.returncode == 0, said

    history, current = (
        DeltaTable(str(warehouse / "public/items" / kind)).to_pyarrow_table() for kind in ("history", "current")
    )
    assert history.sort_by("_offset").column("_offset").to_pylist() == list(range(log.offset))
    assert {row["id"]: row for row in current.drop(["_commit_ts"]).to_pylist()} == replay(log.events)
    assert current.num_rows == len(replay(log.events))
