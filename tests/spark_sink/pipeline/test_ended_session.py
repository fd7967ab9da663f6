"""A session that has ended is the run's error, not that of each table in turn."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.spark_sink.log_builder import LogBuilder, create

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PROGRAM = """
import sys, pathlib
from tidemark.spark_sink.tables.store_place import StorePlace
from tidemark.protocol.errors import SparkError
from tidemark.spark_sink.pipeline.keep import keep
from tidemark.spark_sink.run.settings import KeepSettings
from tidemark.spark_sink.spark.spark_session import open_session
from tidemark.spark_sink.tables.kept_tables import KeepRules

session, _ = open_session("local[1]", {})
session.stop()
log, lake = map(pathlib.Path, sys.argv[1:])
try:
    settings = KeepSettings(StorePlace.of(log), StorePlace.of(lake), KeepRules({"*": "current"}))
    keep(settings, lambda: session)
except SparkError as error:
    print(error.code)
"""


def test_a_session_that_has_ended_ends_the_run(log: LogBuilder) -> None:
    log.commit(create(1))

    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, log.root, log.root.parent / "lake"], capture_output=True, text=True, check=True
    )

    assert ended.stdout.split() == ["TM-SPK-013"]
