from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from protocol.changelog import Segment
from protocol.changelog.models import META_COLUMNS
from protocol.errors import ChangeLogError, SparkError
from spark_sink.source.followed_log import FollowedLog
from spark_sink.source.native_scan import segments_frame
from spark_sink.spark_failures import tidemark_error
from spark_sink.tables.column_types import Columns
from tests.spark_sink.log_builder import EPOCH, Event, LogBuilder, create, schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

ITEMS = "public/items"


def segments(log: LogBuilder, start: int = 0, end: int | None = None) -> list[Segment]:
    return list(FollowedLog(log.root).segments(ITEMS, start, log.offset if end is None else end))


def scan(
    spark: SparkSession, log: LogBuilder, columns: Columns, start: int = 0, end: int | None = None, **more: Any
) -> DataFrame:
    end = log.offset if end is None else end
    chosen = more.pop("segments", segments(log, start, end))
    return segments_frame(spark, FollowedLog(log.root), chosen, columns, start, end)


def rows(events: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in events.collect()), key=repr)


@contextmanager
def setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    before = spark.conf.get(name)
    spark.conf.set(name, value)
    yield
    spark.conf.set(name, str(before))


def test_it_has_exactly_the_columns_asked_for(spark: SparkSession, log: LogBuilder) -> None:
    log.commit(create(1, "a", snapshot=True), create(2, "b"))

    events = scan(spark, log, {"_snapshot": "boolean", "name": "string", "_offset": "bigint", "id": "decimal(20,0)"})

    assert dict(events.dtypes) == {
        "_snapshot": "boolean",
        "name": "string",
        "_offset": "bigint",
        "id": "decimal(20,0)",
    }
    assert rows(events) == [(False, "b", 1, Decimal(2)), (True, "a", 0, Decimal(1))]


def test_a_range_is_half_open_and_may_cut_segments(spark: SparkSession, log: LogBuilder) -> None:
    for i in range(4):
        log.commit(*(create(3 * i + j) for j in range(3)))

    for start, end in ((0, 12), (1, 11), (3, 9), (4, 5), (5, 7)):
        assert rows(scan(spark, log, {"id": "bigint"}, start, end)) == sorted(
            ((i,) for i in range(start, end)), key=repr
        )


def test_only_the_given_segments_are_read(spark: SparkSession, log: LogBuilder) -> None:
    for i in range(4):
        log.commit(create(i))

    assert rows(scan(spark, log, {"id": "bigint"}, segments=segments(log)[1:3])) == [(1,), (2,)]
    assert rows(scan(spark, log, {"id": "bigint"}, segments=[])) == []


def test_without_columns_rows_can_be_counted(spark: SparkSession, log: LogBuilder) -> None:
    log.commit(create(1), create(2), create(3))

    assert scan(spark, log, {}).count() == 3
    assert scan(spark, log, {}, 1).count() == 2


def test_segments_of_several_schemas_are_read_as_the_columns(spark: SparkSession, tmp_path: Path) -> None:
    log = LogBuilder(tmp_path / "log", schema(id="bigint", code="bigint", price="decimal(6,2)", old="string"))
    log.commit(Event("c", {"id": 1, "code": 7, "price": Decimal("1.50"), "old": "x"}))
    log.change_schema(schema(id="bigint", code="string", price="string", new="array<date>"))
    log.commit(Event("c", {"id": 2, "code": "A8", "price": "-0.1", "new": [date(2026, 1, 1), None]}))

    events = scan(
        spark, log, {"id": "bigint", "code": "string", "price": "string", "old": "string", "new": "array<date>"}
    )

    assert rows(events) == [(1, "7", "1.50", "x", None), (2, "A8", "-0.1", None, [date(2026, 1, 1), None])]


def test_a_type_that_values_cannot_be_cast_to_is_an_error(spark: SparkSession, log: LogBuilder) -> None:
    log.commit(create(1))

    with pytest.raises(SparkError, match=r"TM-SPK-005: column name of public\.items is stored as string"):
        scan(spark, log, {"name": "bigint"})
    with pytest.raises(SparkError, match="TM-SPK-003"):
        scan(spark, log, {"id": "int"})


def test_values_of_every_type_in_any_time_zone(spark: SparkSession, tmp_path: Path) -> None:
    row = {
        "id": 2**53 + 1,
        "price": Decimal("123456789012345678.1200"),
        "at": datetime(1969, 7, 20, 20, 17, 40, 123456, tzinfo=UTC),
        "local": datetime(9999, 12, 31, 23, 59, 59, 999999),
        "day": date(1, 1, 1),
        "raw": b"\x00\xff",
        "flag": True,
        "ratio": 0.1,
        "tags": ["a", None],
        "grid": [[1], []],
        "times": [datetime(2026, 7, 1, tzinfo=UTC)],
        "a dot.and `ticks` and 'a quote'": "x",
        "_metadata": "y",
        "ключ": "z",
    }
    types = ["bigint", "decimal(22,4)", "timestamp", "timestamp_ntz", "date", "binary", "boolean", "double"]
    types += ["array<string>", "array<array<bigint>>", "array<timestamp>", *["string"] * 3]
    own = dict(zip(row, types, strict=True))
    log = LogBuilder(tmp_path / "log", schema(**own))
    log.commit(Event("c", row), Event("d", {"id": 1}))

    with setting(spark, "spark.sql.session.timeZone", "America/New_York"):
        stored = scan(spark, log, {**own, **META_COLUMNS}, 0, 1).collect()[0].asDict()
        clock = scan(spark, log, {"at": "timestamp"}, 0, 1).selectExpr("cast(at as string)").collect()

    # PySpark shows an instant as a naive time of the process's own zone, whatever the session's is.
    assert {name: stored[name] for name in row} == {
        **row,
        "at": datetime(1969, 7, 20, 20, 17, 40, 123456),
        "raw": bytearray(b"\x00\xff"),
        "times": [datetime(2026, 7, 1)],
    }
    assert stored["_commit_ts"] == EPOCH.replace(tzinfo=None)
    assert clock[0][0] == "1969-07-20 16:17:40.123456"


@pytest.mark.parametrize(
    "folder", ["a log", "100%25 %41", "year=2026", "x[1-2]{a,b}*?", "_hidden", ".hidden", "a:b", "back\\slash", "ü#?&,"]
)
def test_a_log_may_lie_in_a_folder_of_any_name(spark: SparkSession, tmp_path: Path, folder: str) -> None:
    table = "_public/k=1 [*]"
    log = LogBuilder(tmp_path / folder / "k=1", schema(table))
    for i in range(2):
        log.commit(create(i, table=table))
    followed = FollowedLog(log.root)

    events = segments_frame(
        spark, followed, list(followed.segments(table, 0, 2)), {"id": "bigint", "k": "string"}, 0, 2
    )

    assert rows(events) == [(0, None), (1, None)]


@pytest.mark.parametrize("harm", ["remove", "cut", "swap"])
def test_a_segment_that_is_not_as_the_log_says_is_found_in_planning(
    spark: SparkSession, log: LogBuilder, harm: str
) -> None:
    first = log.root / log.commit(create(1, "name of the first")).segments[0].path
    segment = log.root / log.commit(create(2), create(3)).segments[0].path
    match harm:
        case "remove":
            segment.unlink()
        case "cut":
            segment.write_bytes(segment.read_bytes()[:-20])
        case "swap":
            segment.write_bytes(first.read_bytes())

    with pytest.raises(ChangeLogError, match=f"TM-LOG-009.*{segment.name}"):
        scan(spark, log, {"id": "bigint"})


@pytest.mark.parametrize("harm", ["remove", "flip"])
def test_a_segment_that_is_harmed_later_is_an_error_whatever_the_session_forgives(
    spark: SparkSession, log: LogBuilder, harm: str
) -> None:
    log.commit(create(1, "name of the first"))
    segment = log.root / log.commit(create(2), create(3)).segments[0].path
    with (
        setting(spark, "spark.sql.files.ignoreMissingFiles", "true"),
        setting(spark, "spark.sql.files.ignoreCorruptFiles", "true"),
    ):
        events = scan(spark, log, {"id": "bigint"})
        if harm == "remove":
            segment.unlink()
        else:
            content = bytearray(segment.read_bytes())
            content[20] ^= 0xFF
            segment.write_bytes(content)
        with pytest.raises(Exception, match="FAILED_READ_FILE") as caught:
            events.collect()

    said = str(tidemark_error(caught.value))
    assert said.startswith("TM-LOG-009")
    assert segment.name in said
