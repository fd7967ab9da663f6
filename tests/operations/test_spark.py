"""How far Spark's tables are behind the log is part of the status, and of the metrics of the job that keeps them."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.end_to_end.capture import Capture
from tests.operations.status import status
from tests.operations.test_lag import slot_of
from tests.runtime.metrics.test_metrics import ask, scraped
from tests.warm_jvm import SHARED, warm_jvm
from tests.workload.tables import create_tables
from tidemark.demo.processes import Command
from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.postgres import Database

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.xdist_group("spark")]


@pytest.mark.drawn(4, of="a JVM of its own")
def test_tables_that_are_kept_and_then_not(database: Database, tmp_path: Path) -> None:
    create_tables(database, 20)
    capture = Capture(tmp_path, database, slot_of(database), tables=["public.accounts", "public.entries"])
    capture.catch_up()
    ended = capture.materialize()
    assert ended.status == 0, ended.said
    told = status(capture)
    assert {name: one["behind_seconds"] for name, one in told.report["spark"].items()} == {
        "public.accounts current": 0,
        "public.entries current": 0,
    }
    with database.connect() as connection:
        connection.execute("UPDATE accounts SET name = name || '.'")
    capture.catch_up()
    told = status(capture)
    assert told.report["spark"]["public.accounts current"]["behind_seconds"] > 0
    assert told.report["spark"]["public.entries current"]["behind_seconds"] == 0
    assert "spark public.entries current: has all of the log" in told.text
    assert "behind the log" in told.text


@SHARED
@pytest.mark.drawn(4, of="a JVM of its own")
def test_a_job_that_follows_the_log_serves_its_metrics(database: Database, tmp_path: Path) -> None:
    create_tables(database, 20)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    lake = {"warehouse": str(tmp_path / "lake"), "metrics": {"listen": f"127.0.0.1:{port}"}}
    capture = Capture(tmp_path, database, slot_of(database), tables=["public.accounts"], entries={"spark": lake})
    capture.catch_up()
    accounts = ("current", "public.accounts")

    def rows() -> float:
        try:
            return scraped(port).get("tidemark_spark_events_total", {}).get(accounts, 0.0)
        except ConnectionError:
            return 0.0

    with Command(["materialize", str(capture.file)], capture.output, warm_jvm()) as job:
        wait_until(lambda: rows() == 20 or not job.running, 120, "its rows are kept")
        found = scraped(port)
        assert found["tidemark_materialize_info"]
        for name in ("behind_seconds", "behind_events", "set_aside"):
            assert found[f"tidemark_spark_{name}"] == {accounts: 0}
        assert found["tidemark_spark_folds_total"] == {("current", "public.accounts", "task"): 1}
        for name in ("fold_seconds", "read_bytes", "written_bytes"):
            assert found[f"tidemark_spark_{name}_total"][accounts] > 0
        wait_until(lambda: "tidemark_spark_table_bytes" in scraped(port), 60, "the size is remembered")
        files = [file for file in (tmp_path / "lake").rglob("*.parquet") if "_delta_log" not in file.parts]
        on_disk = sum(file.stat().st_size for file in files)
        assert scraped(port)["tidemark_spark_table_bytes"] == {accounts: on_disk}
        assert ask(port, "/readyz")[0] == ask(port, "/healthz")[0] == 200
        with database.connect() as connection:
            connection.execute("UPDATE accounts SET name = name || '.'")
        capture.catch_up()
        wait_until(lambda: rows() == 40, 120, "the changes are applied, too")
