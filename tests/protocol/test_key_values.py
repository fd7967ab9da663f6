"""Keys as segments state them: they survive JSON, and compare as the column's own values do."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.protocol.segment_facts import comparable, stated
from tidemark.protocol.changelog import KeyValue, Run
from tidemark.protocol.changelog.models import is_stated

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "string": st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
    "binary": st.binary(max_size=12),
    "date": st.dates(),
    "timestamp": st.datetimes(timezones=st.just(UTC)),
    "timestamp_ntz": st.datetimes(),
    "decimal(20,0)": st.integers(-(10**20) + 1, 10**20 - 1).map(Decimal),
    "decimal(38,3)": st.integers(-(10**38) + 1, 10**38 - 1).map(lambda n: Decimal(f"{n}e-3")),
    "decimal(9,2)": st.integers(-2000, 2000).map(lambda n: Decimal(f"{n}e-2")),
}


def run(*key: KeyValue) -> Run:
    return Run(first_offset=0, last_offset=0, rows=1, first=list(key), last=list(key))


@pytest.mark.parametrize("type_", VALUES)
@given(data=st.data())
def test_stated_values_compare_as_the_values_do(type_: str, data: st.DataObject) -> None:
    left, right = data.draw(VALUES[type_]), data.draw(VALUES[type_])
    stated_left, stated_right = stated(type_, left), stated(type_, right)
    assert stated_left is not None
    assert stated_right is not None
    (read_left, read_right) = Run.model_validate_json(run(stated_left, stated_right).model_dump_json()).first
    order = comparable(type_, read_left), comparable(type_, read_right)
    assert (order[0] < order[1], order[0] == order[1]) == (left < right, left == right)


def test_strings_compare_by_their_bytes() -> None:
    # In UTF-16, which some compare by, the second one is the smaller.
    texts = ["\uffff", "\U00010000"]
    assert comparable("string", texts[0]) < comparable("string", texts[1])
    assert texts[0].encode() < texts[1].encode()


def test_each_type_survives_json_as_itself() -> None:
    key: list[KeyValue] = [True, 1, "1", 0, False, -(2**63)]
    read = Run.model_validate_json(run(*key).model_dump_json())
    assert [(type(value), value) for value in read.first] == [(type(value), value) for value in key]


@pytest.mark.parametrize("value", [1.0, None, ["x"]])
def test_nothing_else_is_a_key_value(value: object) -> None:
    body = orjson.loads(run(1).model_dump_json())
    with pytest.raises(ValidationError):
        Run.model_validate_json(orjson.dumps(body | {"first": [value]}))


def test_instants_have_a_fixed_width() -> None:
    assert stated("timestamp", datetime(1, 1, 1, tzinfo=UTC)) == "0001-01-01T00:00:00.000000Z"
    assert stated("timestamp_ntz", datetime(9999, 12, 31, 23, 59, 59, 999999)) == "9999-12-31T23:59:59.999999"


def test_types_of_which_no_values_are_stated() -> None:
    assert not any(map(is_stated, ["double", "array<bigint>", "array<decimal(9,2)>"]))
    assert all(map(is_stated, VALUES))
