"""Kills at random under load: whatever is killed with -9, and whenever, the change log ends up equal to the source."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from random import Random

import pytest

from runtime.demo.processes import Command
from tests.end_to_end.capture import SECONDS, Capture
from tests.servers.deadline import let_pass, wait_until
from tests.servers.postgres import Database
from tests.workload.tables import create_tables
from tests.workload.writers import Workload

pytestmark = [pytest.mark.slow, pytest.mark.timeout(SECONDS + 300)]

ROWS = 20_000
"""Per table; with ``CONFIG``, 300 chunks: the backfill is under way at most of the kills."""

CONFIG = {"backfill": {"chunk_rows": 200}}


@pytest.fixture
def capture(database: Database, tmp_path: Path) -> Capture:
    with database.connect() as connection:
        create_tables(connection, ROWS)
    return Capture(tmp_path, database, CONFIG)


def kill_now_and_then(capture: Capture, running: Command, kill: Callable[[Command], Command | None], seed: int) -> int:
    """For ``SECONDS``, kills again 0.2 to 3 seconds after something new was committed.

    Args:
        running: ``tidemark capture``; it is stopped at the end.
        kill: Kills what is to be killed and returns the command that runs from then on, None when there was nothing.

    Returns:
        The number of kills.
    """
    random = Random(seed)
    end = time.monotonic() + SECONDS
    kills = 0
    with ExitStack() as stack:
        stack.enter_context(running)
        while time.monotonic() < end:
            capture.wait_for_events(running)
            let_pass(random.uniform(0.2, 3))
            running = stack.enter_context(wait_until(partial(kill, running), 30, "something to kill"))
            kills += 1
    return kills


def kill_connector(running: Command) -> Command | None:
    connector = running.connector()
    if connector is None:
        return None
    os.kill(connector, signal.SIGKILL)
    return running


def test_connector_killed_again_and_again(capture: Capture) -> None:
    with Workload(capture.postgres, seed=1, keys=ROWS, rate=100) as workload:
        kills = kill_now_and_then(capture, capture.start(), kill_connector, 1)
        done = workload.stop()
    capture.catch_up()
    assert kills >= SECONDS / 8
    assert done["committed"] > SECONDS * 10
    assert capture.differences() == []


def test_runtime_killed_again_and_again(capture: Capture) -> None:
    def kill_runtime(running: Command) -> Command:
        os.kill(running.pid, signal.SIGKILL)
        assert running.wait() == -signal.SIGKILL
        return capture.start()

    with Workload(capture.postgres, seed=2, keys=ROWS, rate=100) as workload:
        kills = kill_now_and_then(capture, capture.start(), kill_runtime, 2)
        done = workload.stop()
    capture.catch_up()
    assert kills >= SECONDS / 8
    assert done["committed"] > SECONDS * 10
    assert capture.differences() == []


def test_truncates_and_kills_together(capture: Capture) -> None:
    with Workload(capture.postgres, seed=3, keys=ROWS, rate=100, truncate=True) as workload:
        kill_now_and_then(capture, capture.start(), kill_connector, 3)
        workload.stop()
    with capture.postgres.connect() as connection:
        connection.execute("TRUNCATE entries")
    capture.catch_up()
    assert capture.differences() == []
