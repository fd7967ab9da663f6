"""The rows that Spark has of a table, as they are compared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from tidemark.protocol.capture_file import CaptureFile
from tidemark.protocol.changelog import TableSchema
from tidemark.runtime.changelog.documents.columns import arrow_type
from tidemark.runtime.verification.comparison import Kept


def kept_of(capture: CaptureFile, table: str) -> Kept | None:
    """What reads the current table that Spark keeps; None without a ``spark`` entry.

    Args:
        capture: The capture file.
        table: ``schema.table``.
    """
    if capture.spark is None:
        return None

    def rows(offset: int, schema: TableSchema) -> Iterator[pa.Table] | None:
        from tidemark.spark_sink.live.kept_rows import kept_rows  # Only this command needs it, and it takes long.

        found = kept_rows(capture, table, offset, [column.name for column in schema.columns])
        return None if found is None else (_under(schema, batch) for batch in found)

    return rows


def _under(schema: TableSchema, batch: pa.RecordBatch) -> pa.Table:
    columns: list[Any] = []
    for column in schema.columns:
        type_: Any = arrow_type(column.type)
        there = column.name in batch.schema.names
        columns.append(batch.column(column.name).cast(type_) if there else pa.nulls(batch.num_rows, type_))
    return pa.Table.from_arrays(columns, names=[column.name for column in schema.columns])
