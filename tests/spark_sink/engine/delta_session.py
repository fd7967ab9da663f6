"""A session with Delta Lake for Spark, in an environment of its own: there is none for every PySpark.

``python -m tests.spark_sink.engine.delta_session`` fetches what it needs.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING

from tests.examples import ALL
from tidemark.spark_sink.spark.spark_session import open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGES = {"4.2": "io.delta:delta-spark_4.2_2.13:4.4.0"}
"""By PySpark's version."""

CONF = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # Of a table of ten commits Delta makes fifty tasks otherwise.
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.shuffle.partitions": "2",
    # Java code for each query of a few rows costs a seventh of the processor time. `make soak` has it compiled.
    **({} if ALL else {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}),
}


def why_not() -> str | None:
    """Why there can be no such session here; None where there can be."""
    installed = ".".join(version("pyspark").split(".")[:2])
    if installed in PACKAGES:
        return None
    return f"Delta Lake comes for PySpark {', '.join(PACKAGES)}, not {installed}: test_delta_lake runs this there"


def open_delta_session() -> SparkSession:
    installed = ".".join(version("pyspark").split(".")[:2])
    return open_session("local[2]", {**CONF, "spark.jars.packages": PACKAGES[installed]})[0]


if __name__ == "__main__":
    open_delta_session().stop()
