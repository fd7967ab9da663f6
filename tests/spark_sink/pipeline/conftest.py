"""A warehouse that the session of these tests keeps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark_sink.log_builder import LogBuilder
from tests.spark_sink.pipeline.kept_lake import KeptLake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def lake(spark: SparkSession, log: LogBuilder, tmp_path: Path) -> KeptLake:
    return KeptLake(log, tmp_path / "a lake", lambda: spark)
