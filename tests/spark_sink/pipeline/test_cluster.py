"""A standalone cluster keeps tables: its executors read and write, and one of them may die."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.spark_sink.lake import Lake
from tests.spark_sink.log_builder import Event, LogBuilder, create, schema
from tests.spark_sink.replay import random_events
from tidemark.testing.deadline import wait_until
from tidemark.testing.spark_cluster import SparkCluster

pytestmark = [pytest.mark.spark, pytest.mark.slow]

DEADLINE = 180
ORDERED, RANDOM = "public/ordered", "public/random"


@pytest.mark.drawn(1, of="a cluster of Spark's")
def test_executors_do_all_the_work_and_one_of_them_may_be_killed(spark_cluster: SparkCluster, tmp_path: Path) -> None:
    log = LogBuilder(tmp_path / "log", schema(ORDERED), schema(RANDOM))
    chance = random.Random(3)
    log.commit(*(create(id, f"{chance.random()}", snapshot=True, table=ORDERED) for id in range(2000)), rows=500)
    log.commit(*random_events(chance, 1500, keys=400, table=RANDOM))
    lake = Lake(log, tmp_path / "lake")
    events = tmp_path / "events"
    events.mkdir()
    command = [sys.executable, "-m", "tests.spark_sink.pipeline.cluster_process", spark_cluster.url, str(events)]
    driver = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=spark_cluster.environment()
    )
    try:
        port = answer(driver)
        begin(driver, lake)
        applied, executors, errors = answer(driver)
        assert (applied, errors) == (2 * log.offset, [])
        assert len(executors) == 2
        # Every event once for each table; and again the rows of a run that two ranges of keys share.
        assert 2 * log.offset <= sum(executors.values()) < 2.1 * log.offset
        lake.assert_true(ORDERED)
        lake.assert_true(RANDOM)
        assert ends_by_executor(events).keys() == {"0", "1"}

        changes = [Event("u", {"id": id, "name": f"{chance.random()}"}, ("note",), table=ORDERED) for id in range(2000)]
        log.commit(*chance.sample(changes, 2000), *random_events(chance, 1500, keys=400, table=RANDOM))
        before = files(lake)
        begin(driver, lake)
        wait_until(lambda: files(lake) - before, DEADLINE, "a task that writes", every=0.002)
        os.kill(executors_of(port)[0], signal.SIGKILL)
        _, _, errors = answer(driver)
        assert errors == []
        lake.assert_true(ORDERED)
        lake.assert_true(RANDOM)
        assert "ExecutorLostFailure" in {end for ends in ends_by_executor(events).values() for end in ends}
    finally:
        driver.kill()
        driver.communicate()


def begin(driver: subprocess.Popen[str], lake: Lake) -> None:
    assert driver.stdin
    driver.stdin.write(json.dumps([str(lake.log.root), str(lake.warehouse)]) + "\n")
    driver.stdin.flush()


def answer(driver: subprocess.Popen[str]) -> Any:
    assert driver.stdout
    return json.loads(driver.stdout.readline())


def files(lake: Lake) -> set[Path]:
    return set(lake.warehouse.rglob("*.parquet"))


def executors_of(port: str) -> list[int]:
    """The processes that work for the driver which listens there."""
    url = f"spark://CoarseGrainedScheduler@127.0.0.1:{port}".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue  # It has ended.
        # The JVM itself, not the shell that may have started it.
        if url in arguments and arguments[0].endswith(b"java"):
            found.append(int(process.name))
    return found


def ends_by_executor(events: Path) -> dict[str, list[str]]:
    """How the tasks of each executor ended, by the event log."""
    ends: dict[str, list[str]] = {}
    (log,) = events.iterdir()
    for line in log.read_text().splitlines():
        event = json.loads(line)
        if event["Event"] == "SparkListenerTaskEnd":
            ends.setdefault(event["Task Info"]["Executor ID"], []).append(event["Task End Reason"]["Reason"])
    return ends
