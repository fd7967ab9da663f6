"""Spark killed in the middle of ``materialize``: the tables end up equal to the source all the same."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from random import Random

import pytest

from tests.end_to_end.capture import SECONDS, Capture
from tests.workload.tables import create_tables
from tests.workload.writers import Workload
from tidemark.demo.processes import Command
from tidemark.testing.deadline import let_pass, wait_until
from tidemark.testing.servers.postgres import Database

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(SECONDS + 900)]


def lake_commits(capture: Capture) -> int:
    return len(list(capture.lake.glob("**/_delta_log/*.json")))


def begun(capture: Capture, commits: int, spark: Command) -> bool:
    return lake_commits(capture) > commits or not spark.running


@pytest.mark.drawn(5, of="processes that are killed")
def test_spark_killed_in_the_middle_of_materialize(database: Database, tmp_path: Path) -> None:
    create_tables(database, 5000)
    capture = Capture(tmp_path, database)
    random = Random(4)
    end = time.monotonic() + SECONDS
    kills = 0
    while kills < 2 or time.monotonic() < end:
        with Workload(database, seed=kills, keys=5000, transactions=150):
            capture.catch_up()
        capture.catch_up()
        commits = lake_commits(capture)
        with capture.start("materialize", "--available-now") as spark:
            # Once some tables have a new version and others may not have one.
            wait_until(partial(begun, capture, commits, spark), 120, "a table's new version")
            let_pass(random.choice([0.0, 0.0, 0.1, 0.5]))
            kills += spark.running
            spark.kill()
    ended = capture.run("materialize", "--available-now")
    assert ended.status == 0, ended.said
    assert capture.lake_differences() == []
