"""Column types: the log's names for them are Spark's, Arrow carries the values.

The types are those of ``tidemark.protocol.changelog.models.Column``: boolean, bigint, double, decimal(p,s), string,
date, timestamp (an instant, UTC), timestamp_ntz, binary, and array<…> of these.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeVar

import pyarrow as pa

from tidemark.protocol.errors import SparkError

Columns = Mapping[str, str]
"""Names and Spark types of columns, in order."""

Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)

_SCALARS: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "binary": pa.binary(),
}
_NAMES = {arrow: name for name, arrow in _SCALARS.items()}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")
_ARRAY = re.compile(r"array<(.+)>")


def arrow_type(spark: str) -> pa.DataType:
    """The Arrow type of a Spark type's values, exactly as Spark's Python data sources expect it.

    Raises:
        SparkError: ``TM-SPK-003`` when a change log has no such type.
    """
    if scalar := _SCALARS.get(spark):
        return scalar
    if decimal := _DECIMAL.fullmatch(spark):
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    if array := _ARRAY.fullmatch(spark):
        return pa.list_(pa.field("element", arrow_type(array[1])))
    known = ", ".join([*_SCALARS, "decimal(p,s)", "array<…>"])
    raise SparkError("TM-SPK-003", f"a change log has no columns of type {spark}, only {known}")


def spark_type(arrow: pa.DataType) -> str:
    """The Spark type of an Arrow type, the inverse of ``arrow_type``.

    Raises:
        SparkError: ``TM-SPK-005`` for a type that no column of a change log has.
    """
    if name := _NAMES.get(arrow):
        return name
    if isinstance(arrow, pa.Decimal128Type):
        return f"decimal({arrow.precision},{arrow.scale})"
    if isinstance(arrow, pa.ListType):
        return f"array<{spark_type(arrow.value_type)}>"
    raise SparkError("TM-SPK-005", f"a column has the type {arrow}, which no change log has")


def arrow_schema(columns: Columns) -> pa.Schema:
    """The Arrow schema of columns, all of them nullable."""
    return pa.schema([pa.field(name, arrow_type(spark)) for name, spark in columns.items()])


def conformed(rows: Rows, schema: pa.Schema) -> Rows:
    """The columns of a schema: cast where the rows have them in a narrower type, null where they do not have them."""
    there = set(rows.schema.names)
    arrays = [
        rows.column(field.name).cast(field.type) if field.name in there else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return type(rows).from_arrays(arrays, schema=schema)


def quoted(name: str) -> str:
    """A column's name as Spark SQL and DataFusion write an identifier."""
    return "`" + name.replace("`", "``") + "`"


def ddl(columns: Columns) -> str:
    """The columns as a Spark schema in DDL form."""
    return ", ".join(f"{quoted(name)} {spark}" for name, spark in columns.items())
