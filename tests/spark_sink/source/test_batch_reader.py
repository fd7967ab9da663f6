from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from tests.spark_sink.log_builder import EPOCH, Event, LogBuilder, create, schema
from tidemark import read_changes
from tidemark.protocol.changelog import layout
from tidemark.protocol.changelog.models import META_COLUMNS
from tidemark.protocol.errors import SparkError
from tidemark.spark_sink.spark.failures import tidemark_error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def read(spark: SparkSession, log: LogBuilder, pinned: str = "", **options: Any) -> DataFrame:
    reader = spark.read.format("tidemark").options(**{"path": str(log.root), "table": "public.items", **options})
    return (reader.schema(pinned) if pinned else reader).load()


def offsets(events: DataFrame) -> list[int]:
    return sorted(row["_offset"] for row in events.select("_offset").collect())


def test_events_have_the_tables_columns_and_the_meta_columns(spark: SparkSession, log: LogBuilder) -> None:
    log.commit(create(1, "a", snapshot=True), Event("u", {"id": 1, "name": "b"}, unchanged=("note",)))

    events = read(spark, log)

    assert dict(events.dtypes) == {"id": "bigint", "name": "string", "note": "string", **META_COLUMNS}
    first, second = (row.asDict() for row in events.orderBy("_offset").collect())
    assert (first["_op"], first["_snapshot"], first["_commit_ts"], first["_unchanged"]) == ("c", True, None, None)
    assert second == {
        "id": 1,
        "name": "b",
        "note": None,
        "_op": "u",
        "_offset": 1,
        "_commit_ts": EPOCH.replace(tzinfo=None),
        "_loc": "[1]",
        "_txid": "0",
        "_snapshot": False,
        "_before": None,
        "_unchanged": ["note"],
    }


def test_values_of_every_type_come_through(spark: SparkSession, tmp_path: Path) -> None:
    row = {
        "id": 2**53 + 1,
        "price": Decimal("123456789012345678.1200"),
        "at": datetime(1969, 7, 20, 20, 17, 40, 123456, tzinfo=UTC),
        "local": datetime(9999, 12, 31, 23, 59, 59, 999999),
        "day": datetime(1, 1, 1).date(),
        "raw": b"\x00\xff",
        "flag": True,
        "ratio": 0.1,
        "tags": ["a", None],
        "grid": [[1], []],
        "unit `price`": "x",
    }
    types = ["bigint", "decimal(22,4)", "timestamp", "timestamp_ntz", "date", "binary", "boolean", "double"]
    types += ["array<string>", "array<array<bigint>>", "string"]
    log = LogBuilder(tmp_path / "log", schema(**dict(zip(row, types, strict=True))))
    log.commit(Event("c", row))

    stored = read(spark, log).drop(*META_COLUMNS).collect()[0].asDict()

    assert stored == {**row, "at": datetime(1969, 7, 20, 20, 17, 40, 123456), "raw": bytearray(b"\x00\xff")}


def test_a_range_of_offsets_is_half_open(spark: SparkSession, log: LogBuilder) -> None:
    log.change_schema(schema("public/others"))
    for i in range(4):
        log.commit(create(i), create(i, table="public/others"), create(i))

    assert offsets(read(spark, log)) == [0, 2, 3, 5, 6, 8, 9, 11]
    assert offsets(read(spark, log, startingOffset=2, endingOffset=9)) == [2, 3, 5, 6, 8]
    assert offsets(read(spark, log, startingOffset="2026-01-01T00:00:02Z")) == [6, 8, 9, 11]
    assert offsets(read(spark, log, startingOffset="latest")) == []
    assert offsets(read(spark, log, table="public/others", endingOffset=5)) == [1, 4]


def test_it_is_a_table_in_sql(spark: SparkSession, log: LogBuilder) -> None:
    log.commit(create(1, "a"), create(2, "b"))
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW events USING tidemark "
        f"OPTIONS (path '{log.root}', table 'public.items', startingOffset '1')"
    )

    assert [tuple(row) for row in spark.sql("SELECT id, name, _op FROM events").collect()] == [(2, "b", "c")]


def test_the_newest_schema_reads_older_events(spark: SparkSession, tmp_path: Path) -> None:
    log = LogBuilder(tmp_path / "log", schema(id="bigint", code="bigint", old="string"))
    log.commit(Event("c", {"id": 1, "code": 7, "old": "x"}))
    log.change_schema(schema(id="bigint", code="string", new="double"))
    log.commit(Event("c", {"id": 2, "code": "A8", "new": 0.5}))

    assert [tuple(r) for r in read(spark, log).select("id", "code", "new").orderBy("id").collect()] == [
        (1, "7", None),
        (2, "A8", 0.5),
    ]
    before = read(spark, log, endingOffset=1)
    assert before.columns[:3] == ["id", "code", "old"]
    assert before.select("code").collect()[0][0] == 7


def test_a_given_schema_pins_and_prunes(spark: SparkSession, log: LogBuilder) -> None:
    log.commit(create(1, "a", "x"))

    events = read(spark, log, "name string, id decimal(20,0), missing date")

    assert [tuple(row) for row in events.collect()] == [("a", Decimal(1), None)]


def failure(spark: SparkSession, log: LogBuilder, pinned: str = "", **options: Any) -> str:
    with pytest.raises(PySparkException) as caught:
        read(spark, log, pinned, **options).collect()
    return str(tidemark_error(caught.value))


def test_what_cannot_be_read_is_an_error_with_a_code(spark: SparkSession, log: LogBuilder, tmp_path: Path) -> None:
    log.commit(create(1))
    log.commit(create(2))

    assert failure(spark, log, path=str(tmp_path / "nowhere")).startswith("TM-LOG-001")
    unknown = failure(spark, log, table="public.item")
    assert unknown.startswith("TM-SPK-004")
    assert "did you mean public.items" in unknown
    assert failure(spark, log, startingOffset=3).startswith("TM-SPK-006")
    assert failure(spark, log, startingOffset=2, endingOffset=1).startswith("TM-SPK-003")
    assert failure(spark, log, "id date").startswith("TM-SPK-005: column id of public.items")
    assert failure(spark, log, "id int").startswith("TM-SPK-003")
    assert failure(spark, log, "id bigint, _offset string").startswith("TM-SPK-003")


def test_a_name_in_another_case_is_an_error_and_not_null(spark: SparkSession, log: LogBuilder) -> None:
    log.commit(create(1))
    wrong = "TM-SPK-003: the reader's schema has {}, which is called {} in public.items"

    assert failure(spark, log, "ID bigint").startswith(wrong.format("ID", "id"))
    assert failure(spark, log, "id bigint, _OP string").startswith(wrong.format("_OP", "_op"))
    assert failure(spark, log, "id bigint, Name string", state="current").startswith(wrong.format("Name", "name"))
    with pytest.raises(SparkError, match="the reader's schema has ID, which is called id"):
        read_changes(spark, str(log.root), "public.items", schema="ID bigint")
    assert read(spark, log, "id bigint, ident string").collect()[0][:] == (1, None)


def test_a_column_of_another_type_is_an_error_that_names_it(spark: SparkSession, tmp_path: Path) -> None:
    log = LogBuilder(tmp_path / "log", schema(id="bigint", code="string"))
    log.commit(Event("c", {"id": 1, "code": "x"}))
    log.change_schema(schema(id="bigint", code="bigint"))
    log.commit(Event("c", {"id": 2, "code": 7}))

    assert failure(spark, log).startswith("TM-SPK-005: column code of public.items is stored as string")


@pytest.mark.parametrize("harm", ["remove", "cut", "flip", "swap"])
def test_a_harmed_segment_is_an_error_that_names_it(spark: SparkSession, log: LogBuilder, harm: str) -> None:
    log.commit(create(1, "name of the first"))
    segment = log.root / log.commit(create(2), create(3)).segments[0].path
    match harm:
        case "remove":
            segment.unlink()
        case "cut":
            segment.write_bytes(segment.read_bytes()[:-20])
        case "flip":
            content = bytearray(segment.read_bytes())
            content[40] ^= 0xFF
            segment.write_bytes(content)
        case "swap":
            segment.write_bytes((log.root / layout.segment_path("public/items", 0, 1, 0)).read_bytes())

    said = failure(spark, log)

    assert said.startswith("TM-LOG-009")
    assert segment.name in said


def test_a_column_that_came_after_the_schema_was_taken_is_not_left_out(spark: SparkSession, log: LogBuilder) -> None:
    log.commit(create(1))
    events = read(spark, log)
    log.change_schema(schema(id="bigint", new="date"))
    log.commit(Event("c", {"id": 2}))

    with pytest.raises(PySparkException, match=r"TM-SPK-019: from offset 1 on, public\.items has the new column new"):
        events.collect()
