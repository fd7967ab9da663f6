"""Brings columns of arrays to Python through Spark's Arrow writer, which is slow with arrays that are null.

For each null it looks at all rows of the batch before it: a million rows with one such column took 12 CPU seconds of
14, and with batches of 65,536 rows 56 of 57 (PySpark 4.3). So a null goes as an empty array and a flag.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_sink.tables.column_types import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FLAG = "__tidemark_null_"


def flagged(frame: DataFrame) -> DataFrame:
    """The frame without null arrays, and with a flag for each column that may have had one."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType

    arrays = [field.name for field in frame.schema.fields if isinstance(field.dataType, ArrayType)]
    flags = {f"{_FLAG}{name}": F.col(quoted(name)).isNull() for name in arrays}
    filled = {name: F.coalesce(F.col(quoted(name)), F.array()) for name in arrays}
    return frame.withColumns(flags).withColumns(filled) if arrays else frame


def unflagged(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch as it was before ``flagged``."""
    names = [name for name in batch.schema.names if not name.startswith(_FLAG)]
    arrays: list[Any] = []
    for name in names:
        column: Any = batch.column(name)
        if f"{_FLAG}{name}" in batch.schema.names:
            column = pc.if_else(batch.column(f"{_FLAG}{name}"), pa.scalar(None, column.type), column)
        arrays.append(column)
    return pa.RecordBatch.from_arrays(arrays, names=names)
