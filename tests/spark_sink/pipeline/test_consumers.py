"""What keeps tables, and streams with a name, say how far they are: never further than what they have committed."""

from __future__ import annotations

import logging
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark_sink.log_builder import LogBuilder, create, schema
from tests.spark_sink.pipeline.kept_lake import KeptLake, errors_of, named
from tidemark.protocol.changelog import layout
from tidemark.protocol.changelog.consumers import consumers
from tidemark.protocol.errors import SparkError
from tidemark.protocol.store.local import DirectoryStore
from tidemark.spark_sink.job import keep_settings
from tidemark.spark_sink.pipeline.keep import keep
from tidemark.spark_sink.source.options import SourceOptions
from tidemark.spark_sink.tables.kept_tables import KeepRules

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def known(log: LogBuilder) -> dict[str, int]:
    return {one.name: one.position for one in consumers(DirectoryStore(log.root))}


def test_a_run_registers_itself(lake: KeptLake) -> None:
    lake.log.change_schema(schema("public/others"))
    lake.log.commit(create(1), create(1, table="public/others"))
    lake.keep_well(consumer="lake")
    assert known(lake.log) == {"lake": 2}
    lake.log.commit(create(2))
    lake.log.commit(create(3), create(4))
    lake.keep_well(consumer="lake", only=("public.items",))
    assert known(lake.log) == {"lake": 2}, "a run for some tables does not know what the others lack"
    lake.keep_well(consumer="lake")
    assert known(lake.log) == {"lake": 5}
    lake.keep_well()
    assert known(lake.log) == {"lake": 5}


def test_a_table_that_is_set_aside_needs_what_it_lacks(lake: KeptLake) -> None:
    lake.log.change_schema(schema("public/others"))
    lake.log.commit(create(1), create(1, table="public/others"))
    lake.keep_well("current", consumer="lake")
    lake.log.commit(create(2))
    path = lake.log.commit(create(3), create(2, table="public/others")).segments[1].path
    lake.log.commit(create(4))
    kept = (lake.log.root / path).read_bytes()
    (lake.log.root / path).write_bytes(b"PAR1")
    report = lake.keep("current", consumer="lake")
    assert list(errors_of(report)) in (["public.others"], ["public.items"])
    aside = next(iter(errors_of(report)))
    assert known(lake.log) == {"lake": named(report, aside).position} == {"lake": 2}
    (lake.log.root / path).write_bytes(kept)
    lake.keep_well("current", consumer="lake", retry=(aside,))
    assert known(lake.log) == {"lake": lake.log.offset}


def test_what_a_run_needs_stays(lake: KeptLake) -> None:
    for id in range(6):
        lake.log.commit(create(id))
    lake.keep_well("history", consumer="lake")
    for id in range(6, 12):
        lake.log.commit(create(id))
    assert lake.log.trim() <= 6, "nothing is captured, and the history lacks the rest"
    lake.keep_well("history", consumer="lake")
    assert [row["_offset"] for row in lake.rows("history")] == list(range(12))
    assert lake.log.trim() > 6


def test_a_table_without_a_key_needs_nothing(lake: KeptLake) -> None:
    lake.log.change_schema(schema("public/others", key=()))
    lake.log.commit(create(1), create(1, table="public/others"))
    rules = KeepRules({"*": ["current"], "public.others": ["current"]})
    report = keep(replace(lake.settings(consumer="lake"), rules=rules), lake.session)
    assert errors_of(report) == {"public.others": "TM-SPK-007"}
    assert known(lake.log) == {"lake": 2}


def test_a_log_that_cannot_be_written(lake: KeptLake, caplog: pytest.LogCaptureFixture) -> None:
    lake.log.commit(create(1))
    (lake.log.root / layout.CONSUMERS).write_text("")
    with caplog.at_level(logging.WARNING):
        lake.keep_well("current", consumer="lake")
    assert sum("the log may not keep what this run has not read" in message for message in caplog.messages) == 1
    lake.assert_current()


def test_streams(spark: SparkSession, lake: KeptLake, tmp_path: Path) -> None:
    seen: list[int] = []

    def note(batch: DataFrame, _: int) -> None:
        rows = [row["_offset"] for row in batch.select("_offset").collect()]
        assert known(lake.log)["audit"] <= min(rows), "what a batch needs is kept until it is committed"
        seen.extend(rows)

    def stream() -> None:
        found = spark.readStream.format("tidemark").options(
            path=str(lake.log.root), table="public.items", maxEventsPerBatch="3", consumer="audit"
        )
        writer = found.load().writeStream.foreachBatch(note).option("checkpointLocation", str(tmp_path / "at"))
        writer.trigger(availableNow=True).start().awaitTermination()

    for _ in range(2):
        for id in range(4):
            lake.log.commit(create(id), create(id + 1))
        stream()
        assert len(seen) == lake.log.offset
        assert known(lake.log) == {"audit": len(seen)}
    lake.log.commit(create(9))
    shutil.rmtree(lake.log.root / layout.CONSUMERS)
    (lake.log.root / layout.CONSUMERS).write_text("")
    with pytest.raises(Exception, match="TM-LOG-019"):
        stream()


def test_where_a_consumer_has_no_sense() -> None:
    with pytest.raises(SparkError, match="consumer is only for"):
        SourceOptions.of({"path": "log", "table": "a.b", "state": "current", "consumer": "x"})


def test_two_warehouses_have_two_names(tmp_path: Path) -> None:
    from tidemark.protocol.capture_file import read_capture_file

    names = []
    for place in ("lake", "other/lake", "s3://bucket/lake"):
        file = tmp_path / "shop.yaml"
        file.write_text(f"capture: shop\nconnector: {{command: [x]}}\nlog: ./log\nspark: {{warehouse: {place}}}\n")
        read = read_capture_file(file)
        assert read.spark is not None
        names.append(keep_settings(read, read.spark, True, (), None, (), ()).consumer)
    assert len(set(names)) == 3
    assert all(name.startswith("materialize-lake-") for name in names)
