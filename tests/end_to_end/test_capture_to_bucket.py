"""A capture whose log is in a bucket: killed and resumed, asked and told what to do from another machine."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from tests.end_to_end.capture import Capture
from tests.end_to_end.test_compaction import compact
from tests.examples import sample
from tests.operations.status import report
from tests.spark_sink.submitting import DEADLINE
from tests.workload.tables import create_tables
from tests.workload.writers import Workload
from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.errors import ChangeLogError
from tidemark.protocol.store import Store
from tidemark.protocol.store.opening import opened
from tidemark.runtime.upkeep.log_check import LogCheck
from tidemark.testing.deadline import wait_until
from tidemark.testing.object_store import S3Server
from tidemark.testing.servers.postgres import Database
from tidemark.testing.spark_cluster import SETTINGS, SparkCluster


@pytest.fixture
def log(s3: S3Server) -> Store:
    return opened(f"s3://{s3.bucket()}/shop.log", s3.settings)


def capture_to(log: Store, s3: S3Server, folder: Path, database: Database, **entries: object) -> Capture:
    folder.mkdir()
    return Capture(folder, database, entries={"log": log.place, "store": s3.entry, **entries})


def events(log: Store) -> int:
    try:
        return ChangeLog(log).end()
    except ChangeLogError as error:
        assert error.code == "TM-LOG-001"
        return 0


def has_more_events(log: Store, than: int) -> bool:
    return events(log) > than


def download(store: Store, folder: Path) -> None:
    """Copies a log or a lake to where a capture's directory is, so that it is compared with the source."""
    for entry in store.list(""):
        (path := folder / entry.path).parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(store.read(entry.path))


@pytest.mark.drawn(1, of="a cluster of Spark's")
def test_killed_resumed_and_kept_by_a_cluster(
    log: Store, s3: S3Server, database: Database, spark_cluster: SparkCluster, tmp_path: Path
) -> None:
    """The workers share the bucket with the driver, and nothing else."""
    create_tables(database, 200)
    lake = opened(f"s3://{s3.bucket()}/lake", s3.settings)
    spark = {"warehouse": lake.place, "tables": {"*": "current"}}
    capture = capture_to(log, s3, tmp_path / "here", database, spark=spark)
    with Workload(database, writers=2, seed=1, rate=50) as workload:
        end = time.monotonic() + sample(60, 0)
        for kills in itertools.count():
            if kills >= 2 and time.monotonic() > end:
                break
            with capture.start() as running:
                wait_until(partial(has_more_events, log, events(log) + 100), 60, "events are in the log")
                os.kill(running.pid, signal.SIGKILL)
                assert running.wait() == -signal.SIGKILL
        workload.stop()
    capture.catch_up()
    download(log, capture.log)
    assert capture.differences() == []
    assert list(LogCheck(ChangeLog(log)).damages()) == []
    conf = {name: value for name, value in SETTINGS.items() if "eventLog" not in name}
    kept = subprocess.run(
        [
            *(sys.executable, "-m", "tidemark.spark_sink", str(capture.file), "--available-now"),
            *("--master", spark_cluster.url, *(f"--conf={name}={value}" for name, value in conf.items())),
        ],
        env=spark_cluster.environment(PYTHONPATH=str(Path(__file__).parents[2])),
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE,
    )
    assert kept.returncode == 0, kept.stderr[-4000:]
    download(lake, capture.lake)
    assert capture.lake_differences() == []
    assert "caught up" in capture.run("status").said


def test_another_machine_asks_and_tells(log: Store, s3: S3Server, database: Database, tmp_path: Path) -> None:
    create_tables(database, 50)
    here = capture_to(log, s3, tmp_path / "here", database)
    there = capture_to(log, s3, tmp_path / "there", database)
    with here.start():
        wait_until(lambda: bool(report(here).get("caught_up")), 60, "it is caught up")
        wait_until(lambda: bool(report(there).get("caught_up")), 60, "another machine sees it")
        refused = there.run("capture", "--until-caught-up")
        assert refused.status == 3 and "TM-LOG-015" in refused.said
        rows = events(log)
        done = there.run("backfill", "--table", "public.accounts")
        assert "accepted by the connector" in done.said
        wait_until(lambda: events(log) >= rows + 50, 60, "the rows are read again")
        assert f"{log.place} has " in compact(there)  # The capture was asked, and has done what there was to do.
    shutil.rmtree(tmp_path / "here")
    there.catch_up()
