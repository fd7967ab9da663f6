"""Reduces the tail's events to the rows that they leave, in Spark's Python workers. Arrow, no Spark and no Delta.

A row of the base is an event too, the oldest of its key: a ``c`` that carries every column. Then nothing is special
about a change that lacks some: it takes them from the event before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.spark_sink.changes.event_stream import key_by_key
from tidemark.spark_sink.changes.net_changes import DELETED, net_changes
from tidemark.spark_sink.tables.column_types import Columns, arrow_schema


def net_rows(events: pa.Table, key: Sequence[str], columns: Columns) -> pa.Table:
    """The rows that events leave, one for each key that is still there.

    Args:
        events: With ``columns`` and ``EVENT_META``, in offset order for each key, and without a ``t``.
        key: Names of the key's columns.
        columns: Of the rows.
    """
    rows = net_changes(events, key, list(columns)).rows
    return rows.filter(pc.invert(rows[DELETED])).select(list(columns)).cast(arrow_schema(columns))


def stream_net_rows(
    batches: Iterable[pa.RecordBatch], key: Sequence[str], columns: Columns
) -> Iterator[pa.RecordBatch]:
    """The same of events that Spark brings. See ``key_by_key``."""
    for taken in key_by_key(batches, key, columns):
        yield from net_rows(taken, key, columns).combine_chunks().to_batches()


def lacks_columns(events: pa.Table) -> pa.Table:
    """The events that did not carry every column."""
    return events.filter(
        pc.fill_null(pc.greater(pc.list_value_length(events["_unchanged"]), pa.scalar(0)), pa.scalar(False))
    )
