"""The comparison behind the demo's verdict: equal values look equal, and every difference is found and named."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tidemark.demo.comparison import Row, canonical, canonical_json, compare, json_columns, source_rows
from tidemark.demo.lake import lake_rows
from tidemark.testing.servers.postgres import Database


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (
            datetime(2024, 1, 1, 1, 30, tzinfo=timezone(timedelta(hours=5, minutes=30))),
            datetime(2023, 12, 31, 20, 0, tzinfo=UTC),
        ),
        (Decimal("0.0000001"), "0.0000001"),
        (Decimal("NaN"), "NaN"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        ([1, None, "a"], (1, None, "a")),
        (date(1, 1, 1), "0001-01-01"),
    ],
)
def test_equal_values_have_one_form(left: Any, right: Any) -> None:
    assert canonical(left) == canonical(right)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (Decimal("1.0"), Decimal("1.00")),
        (None, ""),
        (True, 1),
        (0.1, Decimal("0.10")),
        (b"\x00", "\x00"),
        (datetime(2024, 1, 1), datetime(2024, 1, 1, tzinfo=UTC)),
        (["a,b"], ["a", "b"]),
        ([None], ["null"]),
    ],
)
def test_different_values_have_different_forms(left: Any, right: Any) -> None:
    assert canonical(left) != canonical(right)


def test_json_is_compared_by_value_and_digit_by_digit() -> None:
    assert canonical_json('{"b": 1, "a": [1.50, "é"]}') == canonical_json('{"a":[1.50,"\\u00e9"],"b":1}')
    assert canonical_json('{"a": 1.5}') != canonical_json('{"a": 1.50}')
    assert canonical_json("12345678901234567890.1") != canonical_json("12345678901234567890.2")
    assert canonical_json('{"a": null}') != canonical_json("{}")


def row(key: int, *values: str | None) -> Row:
    return (key,), (str(key), *values)


def test_differences_are_found_on_both_sides_and_named() -> None:
    source = [row(1, "a"), row(2, "b"), row(3, "c"), row(5, "e")]
    target = [row(1, "a"), row(2, "B"), row(4, "d"), row(5, None), row(6, "f")]
    found = compare(source, target, ["id", "name"])
    assert not found.equal
    assert found.rows == 4
    assert found.examples == [
        "(2) differs in name",
        "(3) is missing in the target",
        "(4) is not in the source",
        "(5) differs in name",
        "(6) is not in the source",
    ]


def test_only_the_first_differences_are_kept_but_all_are_counted() -> None:
    found = compare([row(key) for key in range(30)], [], ["id"])
    assert found.differing == 30
    assert len(found.examples) == 10


COLUMNS = ["id", "Part No", "amount", "at", "born", "data", "ok"]


def copy_of_source(path: Path, data: str = '{"a":1.50,"b":[null]}') -> None:
    """What a pipeline would make of the table below, in another order."""
    table = pa.table(
        {
            "Part No": pa.array([2, 1], pa.int32()),
            "id": pa.array([7, 7], pa.int64()),
            "amount": pa.array([None, Decimal("12.50")], pa.decimal128(12, 2)),
            "at": pa.array([None, datetime(2024, 1, 1, 12, tzinfo=UTC)], pa.timestamp("us", "UTC")),
            "born": pa.array([date(1970, 1, 1), None], pa.date32()),
            "data": pa.array([None, data]),
            "ok": pa.array([False, True]),
        }
    )
    write_deltalake(path, table, mode="overwrite")


@pytest.mark.parametrize(("data", "equal"), [('{"a":1.50,"b":[null]}', True), ('{"a":1.5,"b":[null]}', False)])
def test_a_source_table_and_its_delta_table(database: Database, tmp_path: Path, data: str, equal: bool) -> None:
    copy_of_source(tmp_path / "a lake", data)
    with database.connect() as connection:
        connection.execute("SET timezone = 'Asia/Kolkata'")
        connection.execute(
            'CREATE TABLE parts (id bigint, "Part No" int, amount numeric(12,2), at timestamptz, born date, '
            'data jsonb, ok boolean, PRIMARY KEY (id, "Part No"))'
        )
        connection.execute(
            """INSERT INTO parts VALUES (7, 2, NULL, NULL, '1970-01-01', NULL, false),
               (7, 1, 12.5, '2024-01-01 12:00Z', NULL, '{"b": [null], "a": 1.50}', true)"""
        )
        key = ["id", "Part No"]
        as_json = json_columns(connection, "public.parts")
        assert as_json == {"data"}
        source = source_rows(connection, "public.parts", COLUMNS, key)
        found = compare(source, lake_rows(tmp_path / "a lake", COLUMNS, key, as_json), COLUMNS)
    assert found.rows == 2
    assert found.equal is equal
    assert found.examples == ([] if equal else ["(7, 1) differs in data"])
