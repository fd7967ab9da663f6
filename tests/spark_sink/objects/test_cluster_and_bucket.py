"""A cluster that shares a bucket with its driver, and nothing else; and where the key to the bucket is seen."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark_sink.lake import ITEMS
from tests.spark_sink.log_builder import Event, LogBuilder, create
from tests.spark_sink.objects.bucket_lake import BucketLake, capture_file, publish
from tests.spark_sink.submitting import DEADLINE
from tidemark import read_changes, read_table
from tidemark.spark_sink.tables.store_place import StorePlace
from tidemark.testing.object_store import S3Server
from tidemark.testing.spark_cluster import SETTINGS, SparkCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def no_session() -> SparkSession:
    raise AssertionError("the command has a session of its own")


@pytest.mark.slow
@pytest.mark.drawn(1, of="a cluster of Spark's")
def test_workers_that_share_only_a_bucket_keep_its_tables(
    spark_cluster: SparkCluster, log: LogBuilder, bucket: StorePlace, s3: S3Server, tmp_path: Path
) -> None:
    lake = BucketLake(log, bucket, no_session)
    log.commit(*(create(id, f"name {id}", snapshot=True) for id in range(200)), rows=50)
    log.commit(*(Event("u", {"id": id, "name": "new"}, ("note",)) for id in range(0, 200, 3)), Event("d", {"id": 7}))
    publish(log.root, lake.log_place.store)
    driver, events = tmp_path / "driver", tmp_path / "events"
    driver.mkdir()
    events.mkdir()
    file = capture_file(driver, lake, s3, secret_access_key={"env": "KEY_OF_THE_DRIVER"})
    settings = {**SETTINGS, "spark.eventLog.dir": events.as_uri()}
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tidemark.spark_sink", str(file), "--available-now", "--json"),
            *("--master", spark_cluster.url, "--way", "rewrite"),
            *(part for name, value in settings.items() for part in ("--conf", f"{name}={value}")),
        ],
        env=spark_cluster.environment(
            TMPDIR=str(driver), KEY_OF_THE_DRIVER=s3.secret, PYTHONPATH=str(Path(__file__).resolve().parents[3])
        ),
        cwd=driver,
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert json.loads(done.stdout.splitlines()[-1])["executors"], "none of it was the driver's work"
    lake.assert_true(ITEMS)
    store = bucket.store
    said = [done.stdout, done.stderr, *(path.read_text() for path in events.iterdir())]
    assert not any(s3.secret in text for text in said)
    assert not any(s3.secret.encode() in store.read(entry.path) for entry in store.list(""))


def test_the_source_reads_a_bucket_and_shows_no_key(
    spark: SparkSession,
    log: LogBuilder,
    bucket: StorePlace,
    s3: S3Server,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    lake = BucketLake(log, bucket, lambda: spark)
    log.commit(create(1), create(2))
    lake.keep_well("current")
    log.commit(create(3))
    publish(log.root, lake.log_place.store)
    file = capture_file(tmp_path, lake, s3)
    options = {"path": str(file), "table": "public.items"}
    checkpoint = tmp_path / "checkpoint"
    batch = spark.read.format("tidemark").options(**options)
    frames = {
        "source": batch.load(),
        "state": batch.option("state", "current").load(),
        "natively": read_changes(spark, file, "public.items"),
        "live view": read_table(spark, file, "public.items"),
    }
    for name, frame in frames.items():
        assert sorted(row["id"] for row in frame.select("id").collect()) == [1, 2, 3], name
        frame.explain("extended")
    stream = spark.readStream.format("tidemark").options(**options).load()
    query = (
        stream.writeStream.format("memory")
        .queryName("of_a_bucket")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(300)
    query.explain()
    assert [row["id"] for row in spark.table("of_a_bucket").orderBy("_offset").collect()] == [1, 2, 3]
    assert query.lastProgress is not None
    seen = [
        *capfd.readouterr(),
        query.lastProgress.json,
        str(dict(spark.sparkContext.getConf().getAll())),
        *(path.read_text(errors="replace") for path in checkpoint.rglob("*") if path.is_file()),
        repr(lake.settings()),
    ]
    assert "tidemark" in seen[0]
    assert not any(s3.secret in text for text in seen)
    assert s3.secret not in str(os.environ)
