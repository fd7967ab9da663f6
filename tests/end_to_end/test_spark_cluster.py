"""A live database, captured, and kept by the executors of a standalone cluster."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.capture import Capture
from tests.workload.tables import create_tables
from tests.workload.writers import Workload
from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.postgres import Database
from tidemark.testing.spark_cluster import SETTINGS, SparkCluster

pytestmark = [pytest.mark.slow, pytest.mark.spark]

ROWS = 5000
"""Of each table."""


def materialize(capture: Capture, cluster: SparkCluster, events: Path, *options: str) -> dict[str, Any]:
    settings = {
        **SETTINGS,
        "spark.eventLog.dir": events.as_uri(),
        "spark.pyspark.python": cluster.environment()["PYSPARK_PYTHON"],
    }
    given = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    ended = capture.run("materialize", "--available-now", "--json", "--master", cluster.url, *given, *options)
    assert ended.status == 0, ended.said
    report: dict[str, Any] = next(body for line in ended.said.splitlines() if "tables" in (body := json.loads(line)))
    return report


def tasks_by_executor(events: Path) -> Counter[str]:
    """Tasks that ended well, by Spark's event logs."""
    lines = (json.loads(line) for log in events.iterdir() for line in log.read_text().splitlines())
    ended = [line for line in lines if line["Event"] == "SparkListenerTaskEnd"]
    return Counter(line["Task Info"]["Executor ID"] for line in ended if line["Task End Reason"]["Reason"] == "Success")


@pytest.mark.drawn(1, of="a cluster of Spark's")
def test_a_live_database_is_kept_by_the_executors_of_a_cluster(
    database: Database, spark_cluster: SparkCluster, tmp_path: Path
) -> None:
    create_tables(database, ROWS)
    capture = Capture(tmp_path, database)
    events = tmp_path / "events"
    events.mkdir()
    with Workload(database, seed=1, keys=ROWS, transactions=150), capture.start():
        wait_until(lambda: capture.snapshot_rows() >= ROWS, 90, "some backfilled rows")
        first = materialize(capture, spark_cluster, events, "--way", "rewrite")
        assert first["events"] >= ROWS
    capture.catch_up()
    second = materialize(capture, spark_cluster, events)
    assert capture.lake_differences() == []
    # Each event was read by an executor; rows of a run that two ranges of keys share are read by both.
    for report in (first, second):
        assert report["events"] <= sum(report["executors"].values()) < 1.2 * report["events"] + 100
    assert set(tasks_by_executor(events)) == {"0", "1"}
