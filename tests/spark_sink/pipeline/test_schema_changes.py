"""What a kept table does where its columns or its key change at the source: ``on_schema_change`` and ``show``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from tests.spark_sink.log_builder import Event, LogBuilder, create, schema
from tests.spark_sink.pipeline.kept_lake import KeptLake, named
from tidemark.protocol.changelog import Column, TableSchema
from tidemark.spark_sink.live.read_table import read_table
from tidemark.spark_sink.pipeline.keep import keep
from tidemark.spark_sink.run.report import KeptTable
from tidemark.spark_sink.tables.kept_tables import KeepOptions, KeepRules

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

STOP, VERSION = KeepOptions(on_schema_change="stop"), KeepOptions(on_schema_change="version")
AT_ONCE = KeepOptions(show="at_once")
NOTE = Column(name="note", type="string")
MORE = schema(id="bigint", name="string", note="string", more="date")
LESS = schema(id="bigint", name="string")
WIDER = schema(id="string", name="string", note="string")
OTHER_TYPE = TableSchema(
    collection="public/items",
    columns=[Column(name="id", type="bigint"), Column(name="name", type="bigint", spanning="name__2"), NOTE],
    key=["id"],
)
OTHER_KEY = schema(key=["name"], id="bigint", name="string", note="string")


@pytest.fixture
def lake(tmp_path: Path, spark: SparkSession) -> KeptLake:
    made = KeptLake(LogBuilder(tmp_path / "log"), tmp_path / "lake", lambda: spark)
    made.log.commit(create(1, "7"), create(2, "x"))
    return made


def kept(lake: KeptLake, options: KeepOptions, kind: str = "current", **more: Any) -> KeptTable:
    settings = lake.settings(kind, **more)
    rules = KeepRules({"*": {kind: options}})
    return named(keep(type(settings)(**{**vars_of(settings), "rules": rules}), lake.session), kind=kind)


def vars_of(settings: Any) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in settings.__dataclass_fields__}


def ids(path: Path | str) -> list[int]:
    found: list[Any] = DeltaTable(str(path)).to_pyarrow_table().column("id").to_pylist()
    return sorted(found)


def read_again(log: LogBuilder, new: TableSchema, *rows: Event) -> None:
    """The table has other columns, and is read again from the start."""
    log.change_schema(new)
    log.begin()
    log.commit(Event("t"), *rows)
    log.complete()
    log.commit()


@pytest.mark.parametrize("kind", ["current", "history"])
@pytest.mark.parametrize(
    ("new", "says"),
    [
        (LESS, "column note is gone"),
        (OTHER_TYPE, "column name was string and is bigint"),
        (OTHER_KEY, "the key was (id) and is (name)"),
        (WIDER, "column id was bigint and is string"),
    ],
)
def test_stop_sets_a_table_aside_at_a_change(lake: KeptLake, kind: str, new: TableSchema, says: str) -> None:
    assert kept(lake, STOP, kind).error is None
    lake.log.change_schema(new)
    lake.log.detach()
    lake.log.commit(Event("c", {"id": "3" if new is WIDER else 3}))
    stopped = kept(lake, STOP, kind)
    assert stopped.error is not None
    assert stopped.error.startswith(f"TM-SPK-024: public.items: {says}")
    assert stopped.rows == 2
    assert "TM-SPK-024" in (kept(lake, STOP, kind, retry=("public.items",)).error or "")
    assert kept(lake, STOP, kind, rebuild=("public.items",)).error is None


def test_stop_follows_added_columns(lake: KeptLake) -> None:
    assert kept(lake, STOP).error is None
    lake.log.change_schema(MORE)
    lake.log.commit(create(3))
    assert kept(lake, STOP).rows == 3
    lake.log.commit(create(4))
    assert kept(lake, STOP).rows == 4


def test_a_version_keeps_the_rows_of_before_beside_those_that_are_read_again(
    lake: KeptLake, spark: SparkSession
) -> None:
    first = kept(lake, VERSION)
    read_again(lake.log, OTHER_KEY, Event("c", {"id": 5, "name": "a"}), Event("c", {"id": 5, "name": "b"}))
    second = kept(lake, VERSION)
    assert second.path == Path(first.path).with_name("current__v2")
    assert (ids(first.path), ids(second.path)) == ([1, 2], [5, 5])
    lake.log.commit(Event("c", {"id": 6, "name": "c"}))
    assert kept(lake, VERSION).path == second.path
    assert (ids(first.path), ids(second.path)) == ([1, 2], [5, 5, 6])
    assert kept(lake, VERSION, rebuild=("public.items",)).path == second.path
    assert (ids(first.path), ids(second.path)) == ([1, 2], [5, 5, 6])
    live = read_table(spark, lake.log.root, "public.items", warehouse=lake.warehouse)
    assert sorted(row["id"] for row in live.collect()) == [5, 5, 6]
    before = read_table(spark, lake.log.root, "public.items", as_of=2, warehouse=lake.warehouse)
    assert sorted(row["id"] for row in before.collect()) == [1, 2]
    read_again(lake.log, OTHER_TYPE, Event("c", {"id": 9, "name": 1}))
    assert kept(lake, VERSION).path == Path(first.path).with_name("current__v3")


def test_a_version_follows_what_the_table_can_hold(lake: KeptLake) -> None:
    first = kept(lake, VERSION)
    read_again(lake.log, MORE, create(3), create(4))
    assert kept(lake, VERSION).path == first.path
    assert ids(first.path) == [3, 4]


def test_at_once_shows_rows_as_they_come(lake: KeptLake) -> None:
    kept(lake, AT_ONCE)
    lake.log.change_schema(OTHER_TYPE)
    lake.log.begin()
    lake.log.commit(Event("t"), Event("c", {"id": 5, "name": 1}, snapshot=True))
    shown = kept(lake, AT_ONCE)
    assert (shown.generation, shown.waits, ids(shown.path)) == (2, "", [5])
    lake.log.commit(Event("c", {"id": 6, "name": 2}, snapshot=True))
    lake.log.complete()
    assert ids(kept(lake, AT_ONCE).path) == [5, 6]
