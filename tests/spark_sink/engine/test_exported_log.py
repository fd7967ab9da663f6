"""Delta Lake for Spark reads a change log's segments as a table, and refuses to write it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.spark_sink.lake import ITEMS
from tests.spark_sink.log_builder import Event, LogBuilder, create, schema
from tidemark.protocol.changelog import ChangeLog
from tidemark.spark_sink.formats.log_export import export
from tidemark.spark_sink.tables.store_place import StorePlace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_its_events_are_read_and_cannot_be_written(spark: SparkSession, log: LogBuilder) -> None:
    log.change_schema(schema(ITEMS, id="bigint", at="timestamp_ntz", name="string"))
    log.commit(*(Event("c", {"id": id}) for id in range(20)), rows=6)
    for _ in range(4):
        log.commit(Event("u", {"id": 3, "name": "new"}, ("at",)), create(7))
    log.commit(Event("t"))
    assert log.compact() > 2
    (one,) = export(ChangeLog(log.root), StorePlace.of(log.root), [ITEMS])
    rows = spark.read.format("delta").load(str(one.place)).orderBy("_offset").select("_offset", "_op", "id").collect()
    assert [tuple(row) for row in rows] == [(offset, event.op, event.row.get("id")) for offset, event in log.events]
    files = {path for path in log.root.rglob("*") if path.is_file()}
    name = f"delta.`file:{one.place}`"
    for harm in (f"VACUUM {name} RETAIN 200 HOURS", f"DELETE FROM {name}", f"OPTIMIZE {name}"):
        with pytest.raises(Exception, match="tidemarkReadOnly"):
            spark.sql(harm)
    assert all(path.is_file() for path in files)
    assert len([*(one.place.directory or log.root).glob("_delta_log/*.json")]) == 1
