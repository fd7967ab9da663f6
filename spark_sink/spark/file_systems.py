"""How Spark's own readers reach files: in a directory always, in an object store if the session has a connector."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

from tidemark.protocol.errors import SparkError
from tidemark.protocol.store.opening import is_url
from tidemark.spark_sink.spark.failures import spark_exceptions
from tidemark.spark_sink.spark.spark_session import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

DATABRICKS = "spark.databricks.workspaceUrl"
"""A setting of every session on Databricks, which brings its own connectors and its own Delta."""

_CONNECTORS = {"s3": "s3a", "gs": "gs"}
"""What Hadoop's connectors for an object store call it. Azure's has the account in its URLs, which ours lack."""

_told: set[str] = set()
"""The stores of which was said that Spark cannot reach them."""


def spark_url(spark: SparkSession, place: str) -> str | None:
    """A place as Spark's own readers and engines name it; None where the session has no connector for its store.

    A directory has a scheme, too: without one, a cluster would look in its default file system.
    """
    if not is_url(place):
        return f"file:{place}"
    scheme, _, rest = place.partition("://")
    connector = _CONNECTORS.get(scheme)
    if connector is not None and _is_there(spark, connector):
        return f"{connector}://{rest}"
    return None


def native_url(spark: SparkSession, place: str) -> str | None:
    """``spark_url``, for a read that Python workers do where it is None. This is said once."""
    url = spark_url(spark, place)
    scheme = place.partition("://")[0]
    if url is None and scheme not in _told:
        _told.add(scheme)
        logger.warning(
            "the session has no connector for %s:// (%s): Python workers read it, slower than Spark itself",
            scheme,
            _CONNECTORS.get(scheme, "none is known"),
        )
    return url


def engine_url(spark: SparkSession, place: str) -> str:
    """``spark_url``, for an engine of the session, which nothing stands in for.

    Raises:
        SparkError: ``TM-SPK-025`` where the session has no connector.
    """
    url = spark_url(spark, place)
    if url is None:
        raise SparkError("TM-SPK-025", f"the session has no connector for {place}")
    return url


def _is_there(spark: SparkSession, connector: str) -> bool:
    if spark.conf.get(DATABRICKS, None) is not None:
        return True
    if is_connect(spark):  # Only its settings can be asked for.
        return spark.conf.get(f"spark.hadoop.fs.{connector}.impl", None) is not None
    context = spark.sparkContext
    assert context._jvm is not None and context._jsc is not None, "a session that plans has a JVM"
    try:
        context._jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(connector, context._jsc.hadoopConfiguration())
    except spark_exceptions() as error:
        if re.search(r"ClassNotFoundException|UnsupportedFileSystemException", str(error)):
            return False
        raise
    return True
