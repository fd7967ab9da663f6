"""A log's segments as Delta tables: what other programs read is what the log has, and none of them can do it harm."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.runtime.changelog.shop import ORDER_SCHEMA, ORDERS, order
from tests.spark_sink.lake import ITEMS
from tests.spark_sink.log_builder import Event, LogBuilder, create, schema
from tests.spark_sink.objects.bucket_lake import publish
from tidemark.protocol.changelog import ChangeLog, Column, TableSchema
from tidemark.protocol.errors import SparkError
from tidemark.runtime.changelog.writer import LogWriter
from tidemark.runtime.upkeep.log_check import LogCheck
from tidemark.spark_sink.formats.delta_storage import delta_storage
from tidemark.spark_sink.formats.log_export import Exported, export
from tidemark.spark_sink.tables.store_place import StorePlace
from tidemark.testing.missing import OTHER_READERS
from tidemark.testing.object_store import S3Server

MORE = "public/more"


@pytest.fixture
def log(tmp_path: Path) -> LogBuilder:
    return LogBuilder(
        tmp_path / "shop.log", schema(), schema(MORE, id="bigint", at="timestamp_ntz", sizes="array<double>")
    )


def exported(log: LogBuilder, *collections: str) -> dict[str, Exported]:
    place = StorePlace.of(log.root)
    return {one.collection: one for one in export(ChangeLog(place.store), place, collections or tuple(log.schemas))}


def well(log: LogBuilder, *collections: str) -> dict[str, Exported]:
    found = exported(log, *collections)
    assert [one.error for one in found.values()] == [None] * len(found)
    return found


def polars(place: StorePlace) -> list[dict[str, Any]]:
    polars = pytest.importorskip("polars", reason=OTHER_READERS)
    rows: list[dict[str, Any]] = (
        polars.scan_delta(place.text, storage_options=delta_storage(place)).collect().to_dicts()
    )
    return rows


def duckdb(place: StorePlace) -> list[dict[str, Any]]:
    duckdb = pytest.importorskip("duckdb", reason=OTHER_READERS)
    events = opened(place).to_pyarrow_dataset()
    with duckdb.connect() as connection:
        found: pa.Table = connection.register("events", events).sql("SELECT * FROM events").to_arrow_table()
        return found.to_pylist()


def pandas(place: StorePlace) -> list[dict[str, Any]]:
    frame = opened(place).to_pandas()
    return pa.Table.from_pandas(frame, preserve_index=False).to_pylist()


def delta_rs(place: StorePlace) -> list[dict[str, Any]]:
    return opened(place).to_pyarrow_table().to_pylist()


def opened(place: StorePlace) -> DeltaTable:
    return DeltaTable(place.text, storage_options=delta_storage(place))


READERS: dict[str, Callable[[StorePlace], list[dict[str, Any]]]] = {
    "delta-rs": delta_rs,
    "polars": polars,
    "duckdb": duckdb,
    "pandas": pandas,
}


def read(place: StorePlace, reader: str = "delta-rs") -> list[tuple[int, str, Any]]:
    return sorted((row["_offset"], row["_op"], row["id"]) for row in READERS[reader](place))


def events(log: LogBuilder, collection: str = ITEMS, first: int = 0) -> list[tuple[int, str, Any]]:
    return [
        (offset, event.op, event.row.get("id"))
        for offset, event in log.events
        if event.table == collection and offset >= first
    ]


@pytest.mark.parametrize("reader", READERS)
def test_others_read_what_the_log_has(log: LogBuilder, reader: str) -> None:
    log.commit(*(create(id, snapshot=True) for id in range(50)), rows=20)
    log.commit(create(50), create(1, table=MORE), Event("u", {"id": 3}, ("name", "note")), Event("d", {"id": 4}))
    log.commit(Event("t"), create(60), Event("t", table=MORE))
    found = well(log)
    for name in log.schemas:
        assert read(found[name].place, reader) == events(log, name)
    for _ in range(6):
        log.commit(create(log.offset), create(log.offset, table=MORE))
    well(log)
    assert log.compact() > 3
    found = well(log)
    assert found[ITEMS].removed >= 3
    for name in log.schemas:
        assert read(found[name].place, reader) == events(log, name)


def test_it_is_brought_up_to_date(log: LogBuilder) -> None:
    log.commit(create(1))
    place = well(log, ITEMS)[ITEMS].place
    assert DeltaTable(place.text).version() == 0
    assert well(log, ITEMS)[ITEMS] == Exported(ITEMS, place, files=1)
    assert DeltaTable(place.text).version() == 0, "nothing has come"
    log.commit(create(2), create(3))
    assert well(log, ITEMS)[ITEMS] == Exported(ITEMS, place, files=2, added=1)
    (info, *_) = DeltaTable(place.text).history(1)
    assert (info["version"], info["nextOffset"]) == (1, 3)
    assert read(place) == events(log)


def test_many_versions_are_opened_by_a_checkpoint(log: LogBuilder) -> None:
    for id in range(103):
        log.commit(create(id))
        place = well(log, ITEMS)[ITEMS].place
    assert place.store.exists(f"_delta_log/{100:020d}.checkpoint.parquet")
    for version in range(100):
        place.store.delete(f"_delta_log/{version:020d}.json")
    assert read(place) == events(log)
    assert well(log, ITEMS)[ITEMS].files == 103


def test_a_filter_on_offsets_opens_only_files_that_have_some(log: LogBuilder) -> None:
    for id in range(5):
        log.commit(create(id))
    table = DeltaTable(well(log, ITEMS)[ITEMS].place.text)
    dataset = table.to_pyarrow_dataset()
    assert len(list(dataset.get_fragments(pa.compute.field("_offset") >= 3))) == 2


def test_columns_that_come_and_go(log: LogBuilder) -> None:
    log.commit(create(1, note="old"))
    log.change_schema(schema(ITEMS, id="bigint", name="string", size="double"))
    log.commit(Event("c", {"id": 2, "name": "new", "size": 1.5}))
    table = DeltaTable(well(log, ITEMS)[ITEMS].place.text)
    rows = {row["id"]: row for row in table.to_pyarrow_table().to_pylist()}
    assert (rows[1]["size"], rows[2]["size"]) == (None, 1.5)
    assert "note" not in rows[1]


def columns(*given: Column) -> TableSchema:
    return TableSchema(collection=ITEMS, columns=[Column(name="id", type="bigint", id="1"), *given], key=["id"])


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ([Column(name="n", type="bigint")], [Column(name="n", type="decimal(20,0)")], "n was bigint and is decimal"),
        ([Column(name="a", type="string", id="2")], [Column(name="b", type="string", id="2")], "b was named a"),
        ([Column(name="a", type="string", id="2")], [Column(name="a", type="string", id="3")], "a was another column"),
        ([], [Column(name="a", type="bigint", id="2", fill="7")], "rows from before column a was added have a value"),
    ],
)
def test_a_table_that_cannot_be_one_without_a_copy_is_told_and_others_go_on(
    log: LogBuilder, before: list[Column], after: list[Column], why: str
) -> None:
    log.change_schema(columns(*before))
    log.commit(Event("c", {"id": 1}), create(1, table=MORE))
    log.change_schema(columns(*after))
    log.commit(Event("c", {"id": 2}))
    found = exported(log)
    error = found[ITEMS].error
    assert error is not None and error.code == "TM-SPK-027"
    assert error.message.startswith("public.items: ") and why in error.message
    assert read(found[MORE].place) == events(log, MORE)
    log.begin()
    log.commit(Event("t"), Event("c", {"id": 3}))
    assert exported(log, ITEMS)[ITEMS].error, "the new generation is not whole"
    log.complete()
    log.commit(create(2, table=MORE))
    assert read(well(log, ITEMS)[ITEMS].place) == events(log, first=3)


def test_a_table_that_was_read_again_takes_the_place_of_the_old_one(log: LogBuilder) -> None:
    log.commit(create(1), create(2))
    place = well(log, ITEMS)[ITEMS].place
    log.begin()
    log.commit(Event("t"), create(3))
    assert well(log, ITEMS)[ITEMS].added == 0
    assert read(place) == events(log)[:2]
    log.complete()
    log.commit(create(4))
    assert well(log, ITEMS)[ITEMS] == Exported(ITEMS, place, files=2, added=2, removed=1)
    assert read(place) == events(log, first=2)


def harms(table: DeltaTable) -> Iterator[Callable[[], object]]:
    yield partial(
        table.vacuum,
        retention_hours=0,
        dry_run=False,
        enforce_retention_duration=False,
        full=True,
    )
    yield table.delete
    yield partial(table.update, updates={"id": "7"})
    yield table.optimize.compact
    yield partial(write_deltalake, table, table.to_pyarrow_table(), mode="append")
    yield partial(write_deltalake, table, table.to_pyarrow_table(), mode="overwrite")


def test_nobody_can_write_it(log: LogBuilder) -> None:
    for id in range(6):
        log.commit(create(id))
    log.begin()
    log.commit(Event("t"), create(3))
    place = well(log, ITEMS)[ITEMS].place
    files = {path for path in log.root.rglob("*") if path.is_file()}
    for harm in harms(DeltaTable(place.text)):
        with pytest.raises(Exception, match="tidemarkReadOnly"):
            harm()
        assert {path for path in log.root.rglob("*") if path.is_file()} == files
    assert read(place) == events(log)[:6]


def test_the_log_does_not_mind(tmp_path: Path) -> None:
    place = StorePlace.of(tmp_path / "shop.log")
    for start in range(2):
        with LogWriter.open(place.store, "shop") as writer:  # It sweeps away what no commit names.
            batch = writer.begin()
            batch.add(writer.bind(ORDERS, ORDER_SCHEMA, ["id"]), [order(start)])
            writer.commit(batch, {}, 1)
        checking = LogCheck(ChangeLog(place.store))
        assert [*checking.damages()] == []
        assert checking.checked.unnamed == 0
        (one,) = export(ChangeLog(place.store), place, [ORDERS])
        assert (one.files, one.error) == (start + 1, None)
        assert [row for _, _, row in read(one.place)] == [*range(start + 1)]


def test_two_at_once_make_one_table(log: LogBuilder) -> None:
    for round in range(5):
        log.commit(*(create(id) for id in range(round + 1)))
        with ThreadPoolExecutor(4) as threads:
            found = [one[ITEMS] for one in threads.map(lambda _: exported(log, ITEMS), range(4))]
        codes = {one.error.code for one in found if isinstance(one.error, SparkError)}
        assert codes <= {"TM-SPK-010"}
        assert any(one.error is None for one in found)
        assert read(found[0].place) == events(log)


@pytest.mark.parametrize("reader", READERS)
def test_a_log_in_a_bucket(log: LogBuilder, s3: S3Server, reader: str) -> None:
    place = StorePlace(f"s3://{s3.bucket()}/shop.log", s3.settings)
    for count in (1, 2):
        log.commit(*(create(id) for id in range(count)))
        publish(log.root, place.store)
        (one,) = export(ChangeLog(place.store), place, [ITEMS])
        assert one.error is None
        assert read(one.place, reader) == events(log)
