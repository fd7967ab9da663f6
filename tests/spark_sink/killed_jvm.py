"""``killed_jvm LOG LAKE``: a run whose JVM is killed once its session is open, and what is said of it."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from tidemark.protocol.errors import TidemarkError
from tidemark.spark_sink.pipeline.keep import keep
from tidemark.spark_sink.run.settings import KeepSettings
from tidemark.spark_sink.spark.opening import OpeningSession
from tidemark.spark_sink.spark.spark_session import open_session
from tidemark.spark_sink.tables.kept_tables import KeepRules
from tidemark.spark_sink.tables.store_place import StorePlace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def opened() -> tuple[SparkSession, bool]:
    session, ours = open_session("local[1]", {})
    for child in psutil.Process().children(recursive=True):
        if child.name() == "java":
            child.kill()
            child.wait()
    return session, ours


if __name__ == "__main__":
    logging.disable()  # What py4j tells is not looked at here.
    log, lake = map(Path, sys.argv[1:])
    try:
        with OpeningSession(opened) as opening:
            keep(KeepSettings(StorePlace.of(log), StorePlace.of(lake), KeepRules({"*": "current"})), opening.session)
    except TidemarkError as error:
        sys.stdout.write(f"{error}\n")
