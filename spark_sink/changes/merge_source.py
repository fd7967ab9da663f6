"""A part's net changes as rows, one for each key: what an engine's own MERGE takes as its source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from tidemark.spark_sink.changes.event_stream import key_by_key
from tidemark.spark_sink.changes.net_changes import DELETED, NetChanges, net_changes
from tidemark.spark_sink.tables.column_types import Columns, arrow_schema

KEPT = "__tidemark_kept"
"""Name of a column with the names of columns whose value in the table stays."""

SOURCE_META = {DELETED: "boolean", KEPT: "array<string>"}
"""What a source has besides the table's columns, as Spark types."""


def stream_merge_rows(
    batches: Iterable[pa.RecordBatch], key: Sequence[str], columns: Columns
) -> Iterator[pa.RecordBatch]:
    """Reduces events that Spark brings. See ``key_by_key``."""
    for taken in key_by_key(batches, key, columns):
        yield from _source_rows(net_changes(taken, key, list(columns)), columns).combine_chunks().to_batches()


def _source_rows(changes: NetChanges, columns: Columns) -> pa.Table:
    rows = changes.rows
    flags = [(name, rows[flag].to_pylist()) for name, flag in changes.partial.items()]
    kept: Any = [[name for name, of_row in flags if of_row[index]] for index in range(rows.num_rows)]
    wanted = rows.select([*columns, DELETED]).append_column(KEPT, pa.array(kept, pa.list_(pa.string())))
    return wanted.cast(arrow_schema({**columns, **SOURCE_META}))
