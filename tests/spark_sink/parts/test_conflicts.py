"""What an engine says where another program has committed meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

from tests.spark_sink.log_builder import LogBuilder
from tidemark.spark_sink.formats.delta_table import PositionedTable
from tidemark.spark_sink.parts.engine_merge import EngineMerge
from tidemark.spark_sink.parts.spark_jobs import SparkJobs
from tidemark.spark_sink.source.followed_log import FollowedLog
from tidemark.spark_sink.tables.store_place import StorePlace


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("[DELTA_CONCURRENT_APPEND.WITH_PARTITION_HINT] ConcurrentAppendException: …", "TM-SPK-010"),
        ("[DELTA_METADATA_CHANGED] MetadataChangedException: … by a concurrent update.", "TM-SPK-010"),
        ("[DELTA_PROTOCOL_CHANGED] ProtocolChangedException: …", "TM-SPK-010"),
        ("[DIVIDE_BY_ZERO] …", "TM-SPK-013"),
    ],
)
def test_a_conflict_is_told_from_another_failure(tmp_path: Path, said: str, code: str) -> None:
    log, table = LogBuilder(tmp_path / "log"), PositionedTable(StorePlace.of(tmp_path / "table"), "log-1", "a current")
    table.create({"id": "bigint"}, "")

    def session() -> Any:
        raise PySparkException(said)

    part: Any = None
    outcome = EngineMerge(SparkJobs(session), FollowedLog(log.root)).apply(part, table)

    assert outcome.error is not None and outcome.error.code == code
