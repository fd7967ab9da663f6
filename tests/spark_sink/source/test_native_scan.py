from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark_sink.log_builder import EPOCH, Event, LogBuilder, create, schema
from tidemark import read_changes, read_table
from tidemark.protocol.changelog import Segment
from tidemark.protocol.changelog.models import META_COLUMNS
from tidemark.protocol.errors import ChangeLogError, SparkError
from tidemark.spark_sink.source.followed_log import FollowedLog
from tidemark.spark_sink.source.native_scan import ScanLimits, segments_frame
from tidemark.spark_sink.spark.failures import tidemark_error
from tidemark.spark_sink.tables.column_types import Columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

ITEMS = "public/items"
ZONE = "spark.sql.session.timeZone"


def segments(log: LogBuilder, start: int = 0, end: int | None = None) -> list[Segment]:
    return list(FollowedLog(log.root).segments(ITEMS, start, log.offset if end is None else end))


def scan(
    spark: SparkSession, log: LogBuilder, columns: Columns, start: int = 0, end: int | None = None, **more: Any
) -> DataFrame:
    end = log.offset if end is None else end
    chosen = more.pop("segments", segments(log, start, end))
    return segments_frame(spark, FollowedLog(log.root), chosen, columns, start, end, **more)


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


@pytest.mark.parametrize("way", ["changes", "table", "events", "current"])
def test_an_instant_is_one_where_timestamps_are_local_times(spark: SparkSession, tmp_path: Path, way: str) -> None:
    log = LogBuilder(tmp_path / "log", schema(id="bigint", at="timestamp", local="timestamp_ntz"))
    moment = datetime(2026, 7, 1, 12, tzinfo=UTC)
    log.commit(Event("c", {"id": 1, "at": moment, "local": moment.replace(tzinfo=None)}))
    source = spark.read.format("tidemark").options(path=str(log.root), table="public.items")

    with setting(spark, "spark.sql.timestampType", "TIMESTAMP_NTZ"), setting(spark, ZONE, "America/New_York"):
        ways: dict[str, Callable[..., DataFrame]] = {"changes": read_changes, "table": read_table}
        found = ways[way](spark, str(log.root), "public.items") if way in ways else source.option("state", way).load()
        types = dict(found.dtypes)
        equal = found.where("at = timestamp_ltz '2026-07-01 12:00:00+00:00' and hour(local) = 12").count()

    assert (types["at"], types["_commit_ts"], types["local"]) == ("timestamp", "timestamp", "timestamp_ntz")
    assert equal == 1


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


@pytest.mark.drawn(4)
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


def test_planning_runs_no_job(spark: SparkSession, log: LogBuilder) -> None:
    for i in range(40):
        log.commit(create(i))
    tracker = spark.sparkContext.statusTracker()
    spark.sparkContext.setJobGroup("planning", "")

    events = scan(spark, log, {"id": "bigint"}, 0, 40)
    planning = list(tracker.getJobIdsForGroup("planning"))
    count = events.count()
    running = list(tracker.getJobIdsForGroup("planning"))
    spark.sparkContext.setJobGroup("other tests", "")

    assert (planning, count) == ([], 40)
    assert running


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


def test_very_many_files_are_one_scan(spark: SparkSession, log: LogBuilder) -> None:
    limits = ScanLimits(files=2, scans=2)
    for i in range(5):
        log.commit(create(i))

    four, five = (scan(spark, log, {"id": "bigint"}, end=end, limits=limits) for end in (4, 5))

    assert [plan(events).count("FileScan parquet") for events in (four, five)] == [2, 1]
    assert (rows(four), rows(five)) == ([(i,) for i in range(4)], [(i,) for i in range(5)])


TWO_ARE_MANY = ScanLimits(small_rows=3, many_small=2)


def plan(events: DataFrame) -> str:
    return str(events._jdf.queryExecution().toString())


def test_many_small_segments_are_read_in_python(spark: SparkSession, tmp_path: Path) -> None:
    log = LogBuilder(tmp_path / "log", schema(id="bigint", at="timestamp", tags="array<string>"))
    at = datetime(2026, 7, 1, tzinfo=UTC)
    for i in range(0, 12, 2):
        log.commit(Event("c", {"id": i, "at": at, "tags": ["a"]}), Event("d", {"id": i + 1}))
    large = log.commit(*(Event("c", {"id": i}) for i in range(12, 15)))
    columns = {"tags": "array<string>", "at": "timestamp", "id": "string", "none": "date", "_op": "string"}

    with setting(spark, "spark.sql.session.timeZone", "America/New_York"):
        events = scan(spark, log, columns, 1, 14, limits=TWO_ARE_MANY)
        clock = events.where("id = 2").selectExpr("cast(at as string)").collect()

    assert (plan(events).count("MapInArrow"), plan(events).count("FileScan parquet")) == (4, 1)
    assert dict(events.dtypes) == columns
    assert sorted(row["id"] for row in events.collect()) == sorted(map(str, range(1, 14)))
    assert clock[0][0] == "2026-06-30 20:00:00"
    assert scan(spark, log, {}, 1, 14, limits=TWO_ARE_MANY).count() == 13
    assert plan(scan(spark, log, columns, 12, segments=large.segments, limits=TWO_ARE_MANY)).count("MapInArrow") == 0


def test_a_small_segment_that_is_harmed_later_is_an_error(spark: SparkSession, log: LogBuilder) -> None:
    segment = log.root / log.commit(create(1, "name of the first")).segments[0].path
    log.commit(create(2))
    events = scan(spark, log, {"id": "bigint"}, limits=TWO_ARE_MANY)
    content = bytearray(segment.read_bytes())
    content[40] ^= 0xFF
    segment.write_bytes(content)

    with pytest.raises(Exception, match="TM-LOG-009") as caught:
        events.collect()

    assert segment.name in str(tidemark_error(caught.value))


def test_names_may_differ_by_case_alone(spark: SparkSession, tmp_path: Path) -> None:
    log = LogBuilder(tmp_path / "log", schema(id="bigint", name="string", Name="string"))
    log.commit(Event("c", {"id": 1, "name": "a", "Name": "b"}))

    assert rows(scan(spark, log, {"Name": "string", "id": "bigint", "name": "string"})) == [("b", 1, "a")]


def test_changes_have_the_newest_columns_and_the_meta_columns(spark: SparkSession, tmp_path: Path) -> None:
    log = LogBuilder(tmp_path / "log", schema(id="bigint", old="string"), schema("public/others"))
    log.commit(Event("c", {"id": 1, "old": "x"}), create(7, table="public/others"))
    log.change_schema(schema(id="bigint", new="double"))
    log.commit(Event("c", {"id": 2, "new": 0.5}))

    events = read_changes(spark, log.root, "public.items")

    assert dict(events.dtypes) == {"id": "bigint", "new": "double", **META_COLUMNS}
    assert rows(events.select("id", "new", "_offset")) == [(1, None, 0), (2, 0.5, 2)]
    before = read_changes(spark, f"file://{log.root}", "public/items", end=2)
    assert before.columns[:2] == ["id", "old"]


@pytest.mark.drawn(3)
@pytest.mark.parametrize(
    ("start", "end", "ids"),
    [
        (None, None, [0, 1, 2, 3]),
        (1, 3, [1, 2]),
        ("earliest", "latest", [0, 1, 2, 3]),
        (EPOCH + timedelta(seconds=2), None, [2, 3]),
        (None, (EPOCH + timedelta(seconds=2)).replace(tzinfo=None), [0, 1]),
        ("2026-01-01T00:00:03Z", 4, [3]),
        ("latest", None, []),
    ],
)
def test_changes_have_a_start_and_an_end(
    spark: SparkSession, log: LogBuilder, start: Any, end: Any, ids: list[int]
) -> None:
    for i in range(4):
        log.commit(create(i))

    assert [id for (id,) in rows(read_changes(spark, log.root, "public.items", start, end).select("id"))] == ids


def test_changes_that_cannot_be_read_are_an_error(spark: SparkSession, log: LogBuilder, tmp_path: Path) -> None:
    log.commit(create(1), create(2))

    for arguments, says in {
        ("public.item",): "TM-SPK-004.*did you mean public.items",
        ("PUBLIC.ITEMS",): "TM-SPK-004.*did you mean public.items",
        ("public.items", 2, 1): "TM-SPK-003: start is 2, after end, which is 1",
        ("public.items", 3): "TM-SPK-006: option start is 3",
        ("public.items", None, "yesterday"): "TM-SPK-003: option end",
    }.items():
        with pytest.raises(SparkError, match=says):
            read_changes(spark, log.root, *arguments)  # type: ignore[arg-type]
    with pytest.raises(ChangeLogError, match="TM-LOG-001"):
        read_changes(spark, tmp_path / "nowhere", "public.items")
