"""A session that has an engine of its own for tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark_sink.engine.delta_session import open_delta_session, why_not
from tests.spark_sink.log_builder import LogBuilder
from tests.spark_sink.pipeline.kept_lake import KeptLake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    if reason := why_not():
        pytest.skip(reason)
    session = open_delta_session()
    yield session
    session.stop()


@pytest.fixture
def lake(spark: SparkSession, log: LogBuilder, tmp_path: Path) -> KeptLake:
    return KeptLake(log, tmp_path / "a lake", lambda: spark)
