"""Column types: the log's names for them are Spark's, Arrow carries the values.

The types are those of ``tidemark.protocol.changelog.models.Column``: boolean, bigint, double, decimal(p,s), string,
date, timestamp (an instant, UTC), timestamp_ntz, binary, and array<…> of these.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any, TypeVar

import orjson
import pyarrow as pa
import pyarrow.compute as pc

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
_INSTANT = re.compile(r"\btimestamp\b")


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


def filled(rows: Rows, fills: Iterable[tuple[str, str]], where: Any = None) -> Rows:
    """Rows in which some columns have a value each, in JSON.

    Args:
        rows: With these columns.
        fills: Names and values; a column that the rows lack is passed over.
        where: For each row whether it has the values; None where all have them.
    """
    for name, fill in fills:
        if name not in rows.schema.names:
            continue
        field = rows.schema.field(name)
        value: Any = pa.scalar(python_value(spark_type(field.type), orjson.loads(fill)), field.type)
        column = pa.repeat(value, rows.num_rows)
        if where is not None:
            column = pc.if_else(where, column, rows.column(name))
        rows = rows.set_column(rows.schema.get_field_index(name), field, column)
    return rows


def python_value(type_: str, value: Any) -> Any:
    """A value of a column, from the JSON that a change log states it as.

    Args:
        type_: The column's Spark type. The value may be of a narrower one.
        value: The JSON.
    """
    if value is None:
        return None
    if array := _ARRAY.fullmatch(type_):
        return [python_value(array[1], item) for item in value]
    if _DECIMAL.fullmatch(type_):
        return Decimal(str(value))
    match type_:
        case "double":
            return float(value)
        case "string":
            return value if isinstance(value, str) else orjson.dumps(value).decode()
        case "date":
            return date.fromisoformat(value)
        case "timestamp" | "timestamp_ntz":
            return datetime.fromisoformat(value)
        case "binary":
            return base64.b64decode(value)
    return value


def fill_literal(fill: str, type_: str) -> str:
    """A value in JSON as an expression of Spark SQL that is cast to its type, whatever characters are in it."""
    value = orjson.loads(fill)
    if isinstance(value, list):
        array = _ARRAY.fullmatch(type_)
        items = (fill_literal(orjson.dumps(item).decode(), array[1]) for item in value) if array else ()
        return f"CAST(array({', '.join(items)}) AS {sql_type(type_)})"
    if value is None:
        return f"CAST(NULL AS {sql_type(type_)})"
    if type_ == "binary":
        return f"X'{base64.b64decode(value).hex()}'"
    text = value if isinstance(value, str) else fill
    return f"CAST(CAST(X'{text.encode().hex()}' AS STRING) AS {sql_type(type_)})"


def sql_type(type_: str) -> str:
    """A column's Spark type for SQL and ``cast``, where ``spark.sql.timestampType`` says what ``timestamp`` is."""
    return _INSTANT.sub("timestamp_ltz", type_)


def quoted(name: str) -> str:
    """A column's name as Spark SQL and DataFusion write an identifier."""
    return "`" + name.replace("`", "``") + "`"


def ddl(columns: Columns) -> str:
    """The columns as a Spark schema in DDL form."""
    return ", ".join(f"{quoted(name)} {sql_type(spark)}" for name, spark in columns.items())
