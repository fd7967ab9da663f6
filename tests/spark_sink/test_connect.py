"""All of it on a session of Spark Connect, whose client has no JVM."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.spark_sink.lake import Lake
from tests.spark_sink.log_builder import Event, LogBuilder, create
from tests.spark_sink.submitting import python
from tidemark.testing.spark_connect import SparkConnect

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.mark.drawn(5, of="a JVM of its own")
def test_a_connect_session_reads_streams_and_keeps_tables(log: LogBuilder, tmp_path: Path) -> None:
    log.commit(*(create(id, snapshot=True) for id in range(1, 40)), rows=20)
    log.commit(Event("u", {"id": 5, "name": "new"}, ("note",)), Event("d", {"id": 7}), create(100))
    file = tmp_path / "shop.yaml"
    file.write_text(
        f"capture: test\nconnector: {{command: [x]}}\nlog: {json.dumps(str(log.root))}\n"
        'spark: {warehouse: lake, tables: {"*": [current, history]}}\n'
    )
    events = sorted(event.row["id"] for _, event in log.events)
    rows = [id for id in (*range(1, 40), 100) if id != 7]
    with SparkConnect() as server:
        remote = {"SPARK_REMOTE": server.url}
        done = python("-m", "tests.spark_sink.connect_client", file, environment=remote)
        assert done.returncode == 0, done.stderr[-4000:]
        said = json.loads(done.stdout)
        assert said.pop("session").startswith("pyspark.sql.connect.")
        assert said == {
            "batch": events,
            "stream": events,
            "changes": events,
            "live from the log": rows,
            "rewrite": [["current", "rewrite", 39, None], ["history", "rewrite", 42, None]],
            "task": [["current", "task", 39, None], ["history", "task", 42, None]],
            "live": rows,
        }
        Lake(log, tmp_path / "lake").assert_true()

        log.commit(create(101), Event("d", {"id": 1}))
        done = python("-m", "tidemark.spark_sink", file, "--available-now", "--json", "--master", server.url)
        assert done.returncode == 0, done.stderr[-4000:]
        report = json.loads(done.stdout)
        assert {(kept["kind"], kept["events"]) for kept in report["tables"]} == {("current", 2), ("history", 2)}
        Lake(log, tmp_path / "lake").assert_true()
