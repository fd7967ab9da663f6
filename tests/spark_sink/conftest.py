"""One Spark session for the room's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.examples import ALL
from tests.spark_python import preload
from tests.spark_sink.log_builder import LogBuilder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_UNCOMPILED = {} if ALL else {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Java code for each query of a few rows is a quarter of what it costs. Commands and `make soak` have it compiled."""


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from tidemark import register
    from tidemark.spark_sink.spark.spark_session import open_session

    with pytest.MonkeyPatch.context() as environment:
        preload(environment)
        session, _ = open_session(None, {"spark.app.name": "tidemark tests", **_UNCOMPILED})
    register(session)
    yield session
    session.stop()


@pytest.fixture
def log(tmp_path: Path) -> LogBuilder:
    """An empty change log of ``public/items``."""
    return LogBuilder(tmp_path / "a log")
