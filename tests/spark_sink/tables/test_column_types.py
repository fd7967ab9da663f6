from __future__ import annotations

import pyarrow as pa
import pytest

from tidemark.protocol.changelog.columns.evolution import widens
from tidemark.protocol.errors import SparkError
from tidemark.spark_sink.tables.column_types import arrow_type, ddl, spark_type

TYPES = [
    "boolean",
    "bigint",
    "double",
    "decimal(20,4)",
    "string",
    "date",
    "timestamp",
    "timestamp_ntz",
    "binary",
    "array<bigint>",
    "array<array<string>>",
]


@pytest.mark.parametrize("spark", TYPES)
def test_a_type_goes_to_arrow_and_back(spark: str) -> None:
    assert spark_type(arrow_type(spark)) == spark


def test_a_type_that_no_log_has_is_refused_both_ways() -> None:
    with pytest.raises(SparkError, match=r"TM-SPK-003.*interval"):
        arrow_type("interval")
    with pytest.raises(SparkError, match=r"TM-SPK-005.*int8"):
        spark_type(pa.int8())


def test_names_are_quoted_in_ddl() -> None:
    assert ddl({"unit price": "bigint", "a`b": "string"}) == "`unit price` bigint, `a``b` string"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("bigint", "bigint"),
        ("bigint", "decimal(19,0)"),
        ("bigint", "decimal(38,10)"),
        ("bigint", "string"),
        ("decimal(10,2)", "decimal(12,4)"),
        ("decimal(10,2)", "string"),
        ("date", "timestamp_ntz"),
        ("array<bigint>", "array<string>"),
    ],
)
def test_a_type_widens_to_one_that_holds_all_its_values(old: str, new: str) -> None:
    assert widens(old, new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("bigint", "decimal(18,0)"),
        ("bigint", "double"),
        ("decimal(10,2)", "decimal(10,4)"),
        ("decimal(10,2)", "decimal(20,1)"),
        ("decimal(20,8)", "string"),
        ("double", "string"),
        ("string", "bigint"),
        ("timestamp", "timestamp_ntz"),
        ("bigint", "array<bigint>"),
        ("array<string>", "array<bigint>"),
    ],
)
def test_a_type_does_not_widen_where_a_value_could_change(old: str, new: str) -> None:
    assert not widens(old, new)
