"""Passes rows to ``mapInArrow``, with any names of columns, and with null arrays.

PySpark parses the names of columns, so a dot or a backtick in a name is an error. Columns are passed by number instead.
For each null array, Spark's Arrow writer reads all rows of the batch before it: a million rows with one such column
took 12 CPU seconds of 14, and with batches of 65,536 rows 56 of 57 (PySpark 4.3). So a null is passed as an empty array
and a flag.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.spark_sink.tables.column_types import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def packed(frame: DataFrame) -> DataFrame:
    """The frame's columns as ``c0``, ``c1`` and so on, with arrays that are never null, and ``n0`` … for the nulls."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType

    columns = []
    for place, field in enumerate(frame.schema.fields):
        column = F.col(quoted(field.name))
        if isinstance(field.dataType, ArrayType):
            columns.append(column.isNull().alias(f"n{place}"))
            column = F.coalesce(column, F.array().cast(field.dataType))
        columns.append(column.alias(f"c{place}"))
    return frame.select(*columns)


def unpacked(batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    """A batch of a packed frame, as it arrives in Python, with the original names of its columns."""
    present = set(batch.schema.names)
    arrays: list[Any] = []
    for place in range(len(names)):
        column: Any = batch.column(f"c{place}")
        if f"n{place}" in present:
            column = pc.if_else(batch.column(f"n{place}"), pa.scalar(None, column.type), column)
        arrays.append(column)
    return pa.RecordBatch.from_arrays(arrays, names=list(names))
