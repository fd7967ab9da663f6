"""Tables whose columns and keys are not as usual, or do not stay as they are."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from tests.spark_sink.lake import ITEMS
from tests.spark_sink.log_builder import Event, create, schema
from tests.spark_sink.pipeline.kept_lake import KeptLake

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("way", ["task", "rewrite"])
def test_columns_come_go_and_widen(lake: KeptLake, way: str) -> None:
    lake.log.change_schema(schema(id="bigint", name="string", note="string", code="bigint"))
    lake.log.commit(Event("c", {"id": 1, "name": "a", "note": "x", "code": 1}))
    lake.log.change_schema(schema(id="bigint", name="string", code="string"))
    lake.log.commit(Event("c", {"id": 2, "name": "b", "code": "B"}))
    lake.keep_well(way=way)
    lake.log.change_schema(schema(id="bigint", name="string", code="string", price="decimal(8,2)"))
    lake.log.commit(Event("u", {"id": 1, "code": "C", "price": None}, unchanged=("name",)), create(3, "c"))

    lake.keep_well(way=way)

    rows = {row["id"]: (row["name"], row["note"], row["code"], row["price"]) for row in lake.rows("current")}
    assert rows == {1: ("a", None, "C", None), 2: ("b", None, "B", None), 3: ("c", None, None, None)}
    assert [(r["note"], r["code"]) for r in lake.rows("history")] == [
        ("x", "1"),
        (None, "B"),
        (None, "C"),
        (None, None),
    ]


def test_a_table_without_a_key_has_history_alone_until_it_gets_one(lake: KeptLake) -> None:
    lake.log.change_schema(schema(key=()))
    lake.log.change_schema(schema("public/others"))
    lake.log.commit(create(1), create(2), create(1, table="public/others"))
    report = lake.keep_well()
    assert [(kept.table, kept.kind) for kept in report.tables] == [
        ("public.items", "history"),
        ("public.others", "current"),
        ("public.others", "history"),
    ]
    assert not (lake.warehouse / ITEMS / "current").exists()
    lake.log.change_schema(schema())
    lake.log.commit(Event("u", {"id": 2, "name": "b"}, unchanged=("note",)))

    lake.keep_well()

    lake.assert_true()
    lake.assert_true("public/others")


def test_a_key_of_several_columns_in_any_case(lake: KeptLake) -> None:
    lake.log.change_schema(
        schema(key=("Region", "unit id"), **{"Region": "string", "unit id": "date", "note": "string"})
    )
    keys: list[dict[str, Any]] = [{"Region": r, "unit id": date(2026, 1, day)} for r in ("a", "A") for day in (1, 2)]
    lake.log.commit(*(Event("c", {**key, "note": "old"}) for key in keys))
    lake.keep_well()
    lake.log.commit(
        Event("u", keys[1], unchanged=("note",)), Event("u", {**keys[2], "note": "new"}), Event("d", keys[3])
    )

    lake.keep_well()

    rows = [(r["Region"], r["unit id"].day, r["note"], r["_offset"]) for r in lake.rows("current")]
    assert rows == [("a", 1, "old", 0), ("a", 2, "old", 4), ("A", 1, "new", 5)]
