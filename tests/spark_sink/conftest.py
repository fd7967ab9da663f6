"""One Spark session for the room's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark_sink.log_builder import LogBuilder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from tidemark import register
    from tidemark.spark_sink.spark.session import open_session

    session, _ = open_session(None, {"spark.app.name": "tidemark tests"})
    register(session)
    yield session
    session.stop()


@pytest.fixture
def log(tmp_path: Path) -> LogBuilder:
    """An empty change log of ``public/items``."""
    return LogBuilder(tmp_path / "a log")
