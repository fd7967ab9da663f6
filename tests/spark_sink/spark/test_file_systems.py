from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidemark.protocol.errors import SparkError
from tidemark.spark_sink.spark import file_systems
from tidemark.spark_sink.spark.file_systems import engine_url, native_url, spark_url

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

LAKE = "s3://bucket/a lake"


def test_a_session_without_a_connector_leaves_a_bucket_to_python_and_says_so_once(
    spark: SparkSession, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_systems, "_told", set())
    assert spark_url(spark, "/data/a lake") == "file:/data/a lake"
    assert [native_url(spark, place) for place in (LAKE, LAKE, "az://container/lake")] == [None, None, None]
    assert [record.getMessage()[:44] for record in caplog.records] == [
        "the session has no connector for s3:// (s3a)",
        "the session has no connector for az:// (none",
    ]
    with pytest.raises(SparkError, match=f"TM-SPK-025: the session has no connector for {LAKE}"):
        engine_url(spark, LAKE)


def test_a_connector_reads_a_bucket(spark: SparkSession) -> None:
    context = spark.sparkContext
    assert context._jsc is not None
    settings = context._jsc.hadoopConfiguration()
    before = settings.get("fs.s3a.impl")
    settings.set("fs.s3a.impl", "org.apache.hadoop.fs.RawLocalFileSystem")  # Any that is there.
    try:
        assert engine_url(spark, LAKE) == native_url(spark, LAKE) == "s3a://bucket/a lake"
    finally:
        settings.set("fs.s3a.impl", before)
