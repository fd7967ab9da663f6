"""A table that cannot be kept up is set aside; all others go on."""

from __future__ import annotations

import re
from collections.abc import Callable

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.spark_sink.formats.test_delta_table import allow_deletion_vectors, delete_rows_as_another_engine
from tests.spark_sink.lake import ITEMS
from tests.spark_sink.log_builder import Event, create, schema
from tests.spark_sink.pipeline.kept_lake import KeptLake, errors_of
from tests.spark_sink.pipeline.test_keep import no_session
from tidemark import SparkError
from tidemark.protocol.errors import TidemarkError
from tidemark.spark_sink.formats.delta_table import PositionedTable
from tidemark.spark_sink.live.read_table import read_table
from tidemark.spark_sink.pipeline.keep import keep
from tidemark.spark_sink.run.progress import LoggedProgress
from tidemark.spark_sink.tables.kept_tables import Target
from tidemark.spark_sink.tables.store_place import StorePlace

pytestmark = pytest.mark.spark


class SetAsides(LoggedProgress):
    """Remembers why tables are set aside."""

    def __init__(self) -> None:
        self.errors: list[TidemarkError] = []

    def set_aside(self, table: str, kind: str, error: TidemarkError) -> None:
        self.errors.append(error)


def change_type(lake: KeptLake, table: str) -> None:
    lake.log.commit(create(1, table=table))
    lake.log.change_schema(schema(table, id="bigint", name="double", note="string"))
    lake.log.commit(Event("c", {"id": 2, "name": 0.5}, table=table))


def change_key(lake: KeptLake, table: str) -> None:
    lake.log.commit(create(1, table=table))
    lake.log.change_schema(schema(table, key=("name",)))
    lake.log.commit(create(2, "b", table=table))


def clash_names(lake: KeptLake, table: str) -> None:
    lake.log.change_schema(schema(table, id="bigint", note="string", Note="string"))
    lake.log.commit(Event("c", {"id": 1}, table=table))


def store_documents(lake: KeptLake, table: str) -> None:
    """As the runtime does where a column gets a name that no file can have."""
    lake.log.change_schema(schema(table, _doc="string"))
    lake.log.commit(*(Event("c", {"_doc": f'{{"id":{id}}}'}, table=table) for id in (1, 2)))


def store_documents_later(lake: KeptLake, table: str) -> None:
    lake.log.commit(create(1, table=table))
    store_documents(lake, table)


def put_a_foreign_table(lake: KeptLake, table: str) -> None:
    lake.log.commit(create(1, table=table))
    write_deltalake(str(lake.warehouse / table / "current"), pa.table({"id": [1]}))


def put_a_file(lake: KeptLake, table: str) -> None:
    lake.log.commit(create(1, table=table))
    (lake.warehouse / table).mkdir(parents=True)
    (lake.warehouse / table / "current").write_text("")


def remove_the_segment(lake: KeptLake, table: str) -> None:
    (lake.log.root / lake.log.commit(create(1, table=table)).segments[0].path).unlink()


def damage_the_segment(lake: KeptLake, table: str) -> None:
    path = lake.log.root / lake.log.commit(*(create(id, table=table) for id in range(100))).segments[0].path
    content = bytearray(path.read_bytes())
    content[4:200] = bytes(196)
    path.write_bytes(content)


def overwrite_the_segment(lake: KeptLake, table: str) -> None:
    """With another one of as many rows, which is whole."""
    one, other = (lake.log.root / lake.log.commit(create(id, table=table)).segments[0].path for id in (1, 2))
    other.write_bytes(one.read_bytes())


HARMS: dict[str, tuple[Callable[[KeptLake, str], None], str]] = {
    "public/types": (change_type, r"TM-SPK-005: column name of public\.types"),
    "public/keys": (change_key, r"TM-SPK-012: the key of public\.keys has changed: \(id\), \(name\)"),
    "public/names": (clash_names, r"TM-SPK-011: public\.names has columns note and Note"),
    "public/documents": (store_documents, r"TM-SPK-011: public\.documents has events without .* its key \(id\)"),
    "public/later": (store_documents_later, r"TM-SPK-011: public\.later has events without .* its key \(id\)"),
    "public/theirs": (put_a_foreign_table, r"TM-SPK-009: .*current"),
    "public/file": (put_a_file, r"TM-SPK-015: .*file/current"),
    "public/missing": (remove_the_segment, r"TM-LOG-009: .*\.parquet is missing"),
    "public/damaged": (damage_the_segment, r"TM-LOG-009: .*\.parquet is damaged"),
    "public/overwritten": (overwrite_the_segment, r"TM-LOG-009: .*\.parquet is damaged: .* but the log says \d+"),
}


@pytest.mark.parametrize("way", ["task", "rewrite"])
def test_what_must_not_be_sets_one_table_aside_and_says_where(lake: KeptLake, way: str) -> None:
    for table in ("public/well", *HARMS):
        lake.log.change_schema(schema(table))
    lake.log.commit(*(create(id, table="public/well") for id in range(3)))
    for table, (harm, _) in HARMS.items():
        harm(lake, table)

    report = lake.keep("current", way=way)

    found = {kept.table.replace(".", "/"): kept.error or "" for kept in report.tables}
    assert not found.pop("public/well")
    assert found.keys() == HARMS.keys()
    for table, (_, says) in HARMS.items():
        assert re.search(says, found[table]), found[table]
    lake.assert_current("public/well")
    for table in ("public.documents", "public.later"):
        with pytest.raises(SparkError, match=r"TM-SPK-011: .* its key \(id\)"):
            read_table(lake.session(), lake.log.root, table)


def test_seven_of_eight_go_on_and_the_eighth_when_it_is_retried(lake: KeptLake) -> None:
    names = [f"public/t{number}" for number in range(8)]
    for name in names:
        lake.log.change_schema(schema(name))
    lake.log.commit(*(create(1, table=name) for name in names[1:]))
    put_a_file(lake, names[0])

    for id in (2, 3):
        lake.log.commit(*(create(id, table=name) for name in names))
        assert errors_of(lake.keep("current")) == {"public.t0": "TM-SPK-015"}
        for name in names[1:]:
            lake.assert_current(name)
    (lake.warehouse / names[0] / "current").unlink()
    # Nobody has said that something was done: it is still set aside, and nothing is tried.
    report = keep(lake.settings("current"), no_session)
    assert errors_of(report) == {"public.t0": "TM-SPK-015"}

    lake.keep_well("current", retry=("public.t0",))

    for name in names:
        lake.assert_current(name)
    assert lake.keep_well("current").events == 0


def test_a_segment_that_is_back_heals_the_table(lake: KeptLake) -> None:
    first = lake.log.commit(create(1), create(2))
    lake.keep_well()
    path = lake.log.root / lake.log.commit(Event("d", {"id": 1}), create(3)).segments[0].path
    content = path.read_bytes()
    path.unlink()
    assert {kept.error and kept.error[:10] for kept in lake.keep().tables} == {"TM-LOG-009"}
    assert len(lake.rows("current")) == first.next_offset
    path.write_bytes(content)

    lake.keep_well(retry=("public.items",))

    lake.assert_true()


def test_the_way_of_an_engine_needs_one(lake: KeptLake) -> None:
    lake.log.commit(create(1))
    report = lake.keep("current", way="sql")
    assert errors_of(report) == {"public.items": "TM-SPK-022"}
    assert "DeltaSparkSessionExtension" in str(report.set_aside[0].error)
    lake.keep_well("current", retry=("public.items",))
    lake.assert_current()


def test_a_table_that_only_an_engine_can_write_needs_one(lake: KeptLake) -> None:
    lake.log.commit(create(1), create(2), create(3))
    lake.keep_well("current")
    target = Target(ITEMS, "current")
    table = PositionedTable(target.place(StorePlace.of(lake.warehouse)), "log-1", target.name)
    allow_deletion_vectors(table)
    delete_rows_as_another_engine(table)
    lake.log.commit(create(4))
    assert errors_of(lake.keep("current")) == {"public.items": "TM-SPK-018"}


def test_a_table_that_may_only_be_appended_to_is_told_so_by_every_run(lake: KeptLake) -> None:
    lake.log.change_schema(schema("public/others"))
    lake.log.commit(create(1), create(1, table="public/others"))
    lake.keep_well()
    target = Target(ITEMS, "current").place(StorePlace.of(lake.warehouse))
    table = DeltaTable(str(target))
    table.alter.set_table_properties({"delta.appendOnly": "true"})
    lake.log.commit(Event("u", {"id": 1, "name": "b"}), Event("u", {"id": 1, "name": "b"}, table="public/others"))

    for _ in range(2):
        heard = SetAsides()
        assert errors_of(keep(lake.settings(), lake.session, heard)) == {"public.items": "TM-SPK-018"}
        (error,) = heard.errors
        assert "delta.appendOnly" in error.message
        assert error.remedy.endswith(f"ALTER TABLE delta.`{target}` UNSET TBLPROPERTIES ('delta.appendOnly').")
    lake.assert_true("public/others")

    table.update_incremental()
    table.alter.set_table_properties({"delta.appendOnly": "false"})
    lake.keep_well(retry=("public.items",))
    lake.assert_true()
