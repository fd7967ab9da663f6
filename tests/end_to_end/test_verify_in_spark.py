"""``tidemark verify`` of tables in Spark, whose rows are digested by a cluster's executors or by the command itself."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.spark_sink.live.kept_base import fold, kept
from tests.spark_sink.log_builder import Event, LogBuilder, create, schema
from tests.warm_process import run_to_its_end
from tidemark.demo.processes import TIDEMARK
from tidemark.protocol.store import Store
from tidemark.protocol.store.local import DirectoryStore
from tidemark.protocol.store.opening import opened
from tidemark.protocol.verification.chunk_files import chunk_bytes, digested
from tidemark.protocol.verification.files import Begun, Ended, begin_path, chunk_path, end_path
from tidemark.spark_sink.tables.column_types import arrow_schema
from tidemark.testing.object_store import S3Server
from tidemark.testing.spark_cluster import SETTINGS, SparkCluster

ITEMS, BROKEN = "public/items", "public/broken"
COLUMNS = {"id": "bigint", "name": "string", "note": "string"}
ROWS = 1000
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def row(id: int, name: str | None = None) -> dict[str, Any]:
    return {"id": id, "name": name or f"name {id}", "note": None if id % 3 else "a note"}


PLANTED = {"0": "missing", "3": "different", "40": "different", "905": "different"}


class Verified:
    """A log, tables in a lake that lack its last events, and what a capture has read of the source for a verification.

    The source has what the log gives. Rows of the lake differ.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.place = str(folder)
        self.store: S3Server | None = None
        self.log = LogBuilder(folder / "log", schema(ITEMS), schema(BROKEN))
        for table in (ITEMS, BROKEN):
            self.log.commit(*(create(**row(id), snapshot=True, table=table) for id in range(ROWS)), rows=200)
        self.kept = self.log.offset
        self.rows = {id: row(id) for id in range(ROWS)}
        self._keep(ITEMS, [row(id, "planted" if id in (3, 40, 905) else None) for id in range(1, ROWS)])
        self._keep(BROKEN, self.rows.values())
        # One that is not in the lake, and one of which it has another state.
        self.log.commit(Event("u", row(7, "newer")), create(ROWS, "new"), Event("d", {"id": 8}))
        self.rows |= {7: row(7, "newer"), ROWS: {"id": ROWS, "name": "new", "note": None}}
        del self.rows[8]

    def _keep(self, collection: str, rows: Iterable[dict[str, Any]]) -> None:
        held = [{**each, "_offset": each["id"], "_commit_ts": None} for each in rows]
        fold(kept(self.log, self.folder / "lake", collection), COLUMNS, ["id"], held, self.kept, rows_a_file=100)

    def damage(self) -> None:
        """Cuts a file of one table in its middle, where only who reads the rows sees it."""
        file = max((self.folder / "lake" / BROKEN / "current").glob("*.parquet"))
        content = bytearray(file.read_bytes())
        content[4:200] = bytes(196)
        file.write_bytes(content)

    def move(self, s3: S3Server) -> None:
        """Puts log and lake into a bucket."""
        self.place, self.store = f"s3://{s3.bucket()}", s3
        for name in ("log", "lake"):
            here, there = DirectoryStore(self.folder / name), opened(f"{self.place}/{name}", s3.settings)
            for entry in here.list(""):
                there.replace(entry.path, here.read(entry.path))

    def verify(
        self, master: str | None = None, environment: dict[str, str] | None = None, *options: str, **conf: str
    ) -> Any:
        """What the command finds, by table."""
        entry = {"warehouse": f"{self.place}/lake", "conf": conf, **({"master": master} if master else {})}
        file, log = self.folder / "capture.yaml", f"{self.place}/log"
        content: dict[str, Any] = {"capture": "test", "connector": {"command": ["x"]}, "log": log, "spark": entry}
        if self.store is not None:
            content["store"] = {**self.store.entry, "secret_access_key": {"env": "KEY_OF_THE_COMMAND"}}
        file.write_text(json.dumps(content))
        store = opened(log, self.store.settings if self.store is not None else None)
        self._read(store, ITEMS, self.rows.values())
        self._read(store, BROKEN, [row(id) for id in range(ROWS)])
        command = [*TIDEMARK, "verify", str(file), "--json", *options]
        ended = run_to_its_end(command, environment={**os.environ, **(environment or {})}, timeout=240)
        line = next((line for line in ended.stdout.splitlines() if line.startswith('{"run"')), None)
        assert line is not None, ended.stdout + ended.stderr
        return json.loads(line)["tables"]

    def _read(self, store: Store, collection: str, rows: Iterable[dict[str, Any]]) -> None:
        """Writes what a capture does that has read all rows after all events."""
        of, end = self.log.schemas[collection], self.log.offset
        found = digested(pa.Table.from_pylist(list(rows), arrow_schema(COLUMNS)), of)
        commit, epoch = self.log.number - 1, self.log.epoch
        ended = Ended(
            run=1, offset=end, chunks=1, rows=len(found), why="", covered=True, commit=commit, epoch=epoch, time=NOW
        )
        store.replace(chunk_path(collection, 1, 1), chunk_bytes(found, end, of))
        begun = Begun(run=1, offset=end, generation=1, time=NOW)
        store.replace(begin_path(collection, 1), begun.model_dump_json().encode())
        store.replace(end_path(collection, 1), ended.model_dump_json().encode())


@pytest.fixture
def verified(tmp_path: Path) -> Verified:
    return Verified(tmp_path)


def check(found: Any) -> None:
    for table in found.values():
        assert (table["different"], table["why"]) == ({}, None)
    items = found["public.items"]["spark"]
    assert items["why"] is None
    assert {each["key"]: each["kind"] for each in items["keys"]} == PLANTED
    assert items["rows"] == items["compared"] == ROWS
    damaged = found["public.broken"]["spark"]["why"]
    assert damaged.startswith("TM-SPK-015: ") and ".parquet is damaged" in damaged


@pytest.mark.slow
@pytest.mark.drawn(1, of="a cluster of Spark's")
def test_executors_read_and_digest_the_rows(verified: Verified, spark_cluster: SparkCluster, tmp_path: Path) -> None:
    verified.damage()
    events = tmp_path / "events"
    events.mkdir()
    conf = {
        **SETTINGS,
        "spark.eventLog.dir": events.as_uri(),
        "spark.pyspark.python": spark_cluster.environment()["PYSPARK_PYTHON"],
        "spark.task.maxFailures": "1",
    }
    found = verified.verify(spark_cluster.url, spark_cluster.environment(), **conf)
    check(found)
    ended = Counter(
        (event["Task Info"]["Executor ID"] != "driver", event["Task End Reason"]["Reason"] == "Success")
        for log in events.iterdir()
        for line in log.read_text().splitlines()
        if (event := json.loads(line))["Event"] == "SparkListenerTaskEnd"
    )
    # Those of the check, and of the files without a change, of those with one, and of the log's tail; then the damaged.
    assert ended == {(True, True): 2 + 3, (True, False): 1}


@pytest.mark.slow
@pytest.mark.drawn(1, of="a cluster of Spark's")
def test_executors_that_share_only_a_bucket_with_the_command(
    verified: Verified, spark_cluster: SparkCluster, s3: S3Server
) -> None:
    verified.damage()
    verified.move(s3)
    of_executors = {**SETTINGS, "spark.eventLog.enabled": "false", "spark.task.maxFailures": "1"}
    check(verified.verify(spark_cluster.url, spark_cluster.environment(KEY_OF_THE_COMMAND=s3.secret), **of_executors))


def test_without_a_cluster_the_command_does_it(verified: Verified) -> None:
    verified.damage()
    check(verified.verify("local[4]"))


def test_a_cluster_that_cannot_be_reached_is_said(verified: Verified) -> None:
    found = verified.verify("spark://127.0.0.1:1", {"JAVA_HOME": "/nowhere"})
    for table in found.values():
        assert (table["different"], table["why"]) == ({}, None)
        assert table["spark"]["why"] == "TM-SPK-001: /nowhere/bin/java cannot be run"


def test_a_cluster_may_be_reached_first(verified: Verified) -> None:
    found = verified.verify("spark://127.0.0.1:1", {"JAVA_HOME": "/nowhere"}, "--spark-first")
    for table in found.values():
        assert table["why"] == "its rows were not read, since the table in Spark could not be compared"
        assert table["spark"]["why"] == "TM-SPK-001: /nowhere/bin/java cannot be run"
