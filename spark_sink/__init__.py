"""Change logs in Spark: the ``tidemark`` data source, and tables kept from a log.

Importing this imports neither Spark nor Arrow.

::

    from tidemark.spark_sink import read_changes, read_table, register

    register(spark)
    spark.readStream.format("tidemark").option("path", "shop.log").option("table", "public.orders").load()
    read_changes(spark, "shop.log", "public.orders")
    read_table(spark, "shop.yaml", "public.orders")
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidemark.spark_sink.job import materialize
    from tidemark.spark_sink.live.read_table import read_table, read_tables
    from tidemark.spark_sink.source.native_scan import read_changes

__all__ = ["materialize", "read_changes", "read_table", "read_tables", "register"]

_ROOMS = {
    "materialize": "tidemark.spark_sink.job",
    "read_changes": "tidemark.spark_sink.source.native_scan",
    "read_table": "tidemark.spark_sink.live.read_table",
    "read_tables": "tidemark.spark_sink.live.read_table",
}
"""Where the other names are. Each is imported when it is asked for: this package is imported by every Spark application
that looks for sources."""


def __getattr__(name: str) -> Any:
    if name not in _ROOMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_ROOMS[name]), name)


def register(spark: SparkSession) -> None:
    """Makes ``.format("tidemark")`` known to a session, classic or Connect.

    Needed only where ``pyspark_tidemark`` is not found by itself, as with ``--py-files``; harmless elsewhere.
    """
    from pyspark.errors import AnalysisException

    from tidemark.spark_sink.source.data_source import TidemarkSource

    try:
        spark.dataSource.register(TidemarkSource)
    except AnalysisException as error:
        # PySpark 4.0 and 4.1 refuse to replace what they found by themselves, which is the same.
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
