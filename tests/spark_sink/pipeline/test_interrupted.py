"""A stop that comes while PySpark waits for Java: the call fails, Java does not, and no table is at fault."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark_sink.log_builder import create
from tests.spark_sink.pipeline.kept_lake import KeptLake, errors_of
from tidemark.spark_sink.pipeline.keep import keep

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def break_next_call(session: SparkSession) -> None:
    """This thread cannot hear the answer to its next call of Java, as after an interrupt in one. The JVM goes on."""
    client: Any = session.sparkContext._gateway._gateway_client  # type: ignore[union-attr]
    client.get_thread_connection().stream.close()


def test_a_call_that_a_stop_breaks_sets_no_table_aside(lake: KeptLake) -> None:
    lake.log.commit(create(1), create(2))
    stop = threading.Event()

    def interrupted() -> SparkSession:
        session = lake.session()
        stop.set()
        break_next_call(session)
        return session

    report = keep(lake.settings("current"), interrupted, stop=stop)

    assert errors_of(report) == {}
    (kept,) = report.tables
    assert (kept.events, kept.position, kept.behind) == (0, 0, 2)
    # What is set aside would be left alone until somebody asks for it.
    assert lake.keep_well("current").events == 2
    lake.assert_current()


def test_a_call_that_breaks_without_one_sets_its_table_aside(lake: KeptLake) -> None:
    lake.log.commit(create(1), create(2))

    def broken() -> SparkSession:
        session = lake.session()
        break_next_call(session)
        return session

    assert errors_of(keep(lake.settings("current"), broken)) == {"public.items": "TM-SPK-013"}
    lake.keep_well("current", retry=("public.items",))
    lake.assert_current()
