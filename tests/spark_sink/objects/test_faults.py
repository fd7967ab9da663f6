"""A store that fails now and then, as Spark meets it: tables become what the log says, and no row is there twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark_sink.lake import ITEMS
from tests.spark_sink.log_builder import Event, LogBuilder, create
from tests.spark_sink.objects.bucket_lake import BucketLake, capture_file, publish
from tidemark import read_table
from tidemark.spark_sink.run.settings import KeepSettings
from tidemark.spark_sink.tables.store_place import StorePlace
from tidemark.testing.http_faults import Fault, FaultyProcess, faulty_process
from tidemark.testing.object_store import S3Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ATTEMPTS = 10
"""Runs after which a table is well, each of which tries every request again for a minute."""


class FaultyLake(BucketLake):
    """A lake that is kept by way of a proxy with faults, and looked at without."""

    proxy: FaultyProcess

    def settings(self, *kinds: str, **more: Any) -> KeepSettings:
        found = super().settings(*kinds, **more)
        return replace(found, log=self.faulty(found.log), warehouse=self.faulty(found.warehouse))

    def faulty(self, place: StorePlace) -> StorePlace:
        """The place, by way of the proxy."""
        assert place.settings is not None
        return StorePlace(place.text, replace(place.settings, endpoint=self.proxy.address))

    def keep_at_last(self, *kinds: str, **more: Any) -> Counter[str]:
        """Keeps the tables until nothing goes wrong. Returns the codes of what did."""
        said: Counter[str] = Counter()
        for _ in range(ATTEMPTS):
            errors = [table.error for table in self.keep(*kinds, **more).tables if table.error]
            said.update(error.split(":")[0] for error in errors)
            if not errors:
                return said
        pytest.fail(f"after {ATTEMPTS} runs there are errors: {said}")


@contextmanager
def faults(
    log: LogBuilder, bucket: StorePlace, s3: S3Server, spark: SparkSession, often: float, *kinds: Fault
) -> Iterator[FaultyLake]:
    """A lake whose requests fail so often, in one of these ways."""
    lake = FaultyLake(log, bucket, lambda: spark)
    with faulty_process(s3.endpoint, often, *kinds) as proxy:
        lake.proxy = proxy
        yield lake


def all_that_happens(log: LogBuilder) -> Iterator[None]:
    """Events by the part."""
    log.commit(*(create(id, snapshot=True) for id in range(30)), rows=10)
    yield
    log.commit(*(Event("u", {"id": id, "name": "new"}, ("note",)) for id in range(0, 30, 3)), Event("d", {"id": 2}))
    yield
    log.commit(Event("t"), *(create(id) for id in range(100, 120)))
    log.commit(Event("d", {"id": 100}))
    yield


@pytest.mark.drawn(1)
@pytest.mark.parametrize("fault", [fault for fault in Fault if fault is not Fault.NONE], ids=lambda fault: fault.name)
def test_every_fifth_request_fails(
    fault: Fault, log: LogBuilder, bucket: StorePlace, s3: S3Server, spark: SparkSession
) -> None:
    with faults(log, bucket, s3, spark, 0.2, fault) as lake:
        for number, _ in enumerate(all_that_happens(log)):
            said = lake.keep_at_last(way="rewrite" if number == 1 else None)
            assert said.keys() <= {"TM-SPK-026"}, "what passes by itself"
            lake.assert_true()
    assert lake.proxy.done[fault] > 10


def test_readers_and_streams_meet_all_faults(
    log: LogBuilder, bucket: StorePlace, s3: S3Server, spark: SparkSession, tmp_path: Path
) -> None:
    with faults(log, bucket, s3, spark, 0.2, *Fault) as lake:
        for number, _ in enumerate(all_that_happens(log)):
            if number == 1:
                lake.keep_at_last("current")
        publish(log.root, lake.log_place.store)
        file = capture_file(tmp_path, lake, s3, endpoint=lake.proxy.address)
        options = {"path": str(file), "table": "public.items"}
        query = (
            spark.readStream.format("tidemark")
            .options(**options, maxEventsPerBatch="20")
            .load()
            .writeStream.format("memory")
            .queryName("of_a_faulty_bucket")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(600)
        offsets = [offset for offset, event in log.events if event.table == ITEMS]
        streamed = spark.table("of_a_faulty_bucket").select("_offset").collect()
        assert sorted(row["_offset"] for row in streamed) == offsets
        read = spark.read.format("tidemark").options(**options).load().select("_offset").collect()
        assert sorted(row["_offset"] for row in read) == offsets
        live = read_table(spark, file, "public.items").select("id").collect()
        assert sorted(row["id"] for row in live) == list(range(101, 120))
    assert all(lake.proxy.done[fault] for fault in Fault)
