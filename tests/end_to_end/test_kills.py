"""Kills at random under load: whatever is killed with -9, and whenever, the change log ends up equal to the source."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from random import Random

import pytest

from tests.end_to_end.capture import SECONDS, Capture, own_process
from tests.examples import sample
from tests.workload.tables import Database, create_tables, source_of
from tests.workload.writers import Workload
from tidemark.demo.measurements import captured_twice
from tidemark.demo.processes import Command
from tidemark.testing.deadline import let_pass, wait_until

KILLS = max(2, int(SECONDS / 8))
"""At least: a busy machine takes its time between two of them."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(20 * SECONDS + 900)]

ROWS = int(os.environ.get("TIDEMARK_TEST_ROWS", "10000"))
"""Per table; with ``CHUNK_ROWS``, 50 chunks each or more: the backfill is under way at most of the kills."""

RATE = int(os.environ.get("TIDEMARK_TEST_RATE", "100"))
"""Transactions a second that the writers try for."""

CHUNK_ROWS = max(200, ROWS // 100)

READERS = 2

Kill = Callable[[Capture, Command], Command | None]

CONFIG = {"backfill": {"chunk_rows": CHUNK_ROWS, "readers": READERS}}


@pytest.fixture
def capture(each_database: Database, tmp_path: Path) -> Capture:
    create_tables(each_database, ROWS)
    return Capture(tmp_path, each_database, CONFIG, own_process(each_database))


def kill_now_and_then(capture: Capture, running: Command, kill: Kill, seed: int) -> int:
    """For ``SECONDS``, and ``KILLS`` times at least, kills 0.2 to 3 seconds after something new was committed.

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
        while time.monotonic() < end or kills < KILLS:
            capture.wait_for_events(running)
            let_pass(random.uniform(0.2, 3))
            next_one = wait_until(partial(kill, capture, running), 30, "something to kill", every=0.05)
            running = stack.enter_context(next_one)
            kills += 1
    return kills


def kill_connector(capture: Capture, running: Command) -> Command | None:
    connector = capture.connector_of(running)
    if connector is None:
        return None
    os.kill(connector, signal.SIGKILL)
    return running


def kill_runtime(capture: Capture, running: Command) -> Command:
    os.kill(running.pid, signal.SIGKILL)
    assert running.wait() == -signal.SIGKILL
    return capture.start()


def read_twice(capture: Capture) -> int:
    """Rows that backfills brought into the change log although an earlier one had: more than chunks in flight never."""
    keys = source_of(capture.database).tables()
    return sum(captured_twice(capture.log, key, table.replace(".", "/")) for table, key in keys.items())


def kill_either(random: Random, capture: Capture, running: Command) -> Command | None:
    return random.choice([kill_connector, kill_runtime])(capture, running)


@pytest.mark.parametrize(
    "each_database", sample(["postgres", "mariadb", "mysql"], ["postgres", "mysql"]), indirect=True
)
def test_connector_and_runtime_killed_again_and_again(
    capture: Capture, record_property: Callable[[str, object], None]
) -> None:
    kill = partial(kill_either, Random(1))
    with Workload(capture.database, seed=1, keys=ROWS, rate=RATE) as workload:
        kills = kill_now_and_then(capture, capture.start(), kill, 1)
        done = workload.stop()
    capture.catch_up()
    assert done["committed"] > SECONDS * 10
    assert capture.differences() == []
    twice = read_twice(capture)
    for name, value in {"kills": kills, "read twice": twice, **done}.items():
        record_property(name, value)  # what a long run found, in the report of --junitxml
    assert twice <= kills * CHUNK_ROWS * READERS


# To the log, MySQL's TRUNCATE is MariaDB's.
@pytest.mark.drawn(5, of="processes that are killed")
@pytest.mark.parametrize("each_database", sample(["postgres", "mariadb"], ["mariadb"]), indirect=True)
def test_truncates_between_the_kills(capture: Capture) -> None:
    kill = partial(kill_either, Random(3))
    with Workload(capture.database, seed=3, keys=ROWS, rate=RATE, truncate=True) as workload:
        kill_now_and_then(capture, capture.start(), kill, 3)
        done = workload.stop()
    with closing(source_of(capture.database).connect(autocommit=True)) as connection:
        connection.cursor().execute("TRUNCATE TABLE entries")
    capture.catch_up()
    assert done["committed"] > SECONDS * 10
    assert capture.differences() == []
