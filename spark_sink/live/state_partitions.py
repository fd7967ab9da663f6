"""What the tasks of ``state=current`` read: groups of the base's files, and ranges of the tail's keys."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import InputPartition

from tidemark.protocol.changelog.segment_files import SegmentFile
from tidemark.spark_sink.changes.key_order import distinct
from tidemark.spark_sink.changes.row_events import read_row_events
from tidemark.spark_sink.changes.sources import as_events
from tidemark.spark_sink.live.base_reader import BASE_BYTES, BaseFiles, BoundedFile, rows_with, rows_without
from tidemark.spark_sink.live.net_rows import lacks_columns, net_rows
from tidemark.spark_sink.live.table_view import TableView
from tidemark.spark_sink.source.runs import runs
from tidemark.spark_sink.tables.column_types import Columns, arrow_schema
from tidemark.spark_sink.tables.store_place import StorePlace
from tidemark.spark_sink.tables.table_columns import EVENT_META

TAIL_BYTES = 128 * 1024 * 1024
"""Bytes of the tail's events in one partition, in memory. Each of them reads the whole tail to find its own events."""

_SAMPLED = 16
"""Segments from which keys are drawn to cut a large tail."""


@dataclass(frozen=True, slots=True)
class Tail:
    """The tail of a log, as a task reads it: events with offsets in ``[start, end)``."""

    log: StorePlace
    files: tuple[SegmentFile, ...]
    start: int
    end: int
    key: Columns

    def read(self, columns: Columns) -> Iterator[pa.RecordBatch]:
        return read_row_events(self.log.store, self.files, columns, self.start, self.end)


@dataclass
class BasePartition(InputPartition):
    """Some of the base's files, without the rows whose keys are in the tail; ``tail`` is None where none can be."""

    columns: Columns
    files: BaseFiles
    tail: Tail | None


@dataclass
class TailPartition(InputPartition):
    """The rows that the tail leaves of keys whose ``column`` is in ``[low, high)``. A null is below everything.

    Attributes:
        columns: Of the rows.
        files: Files of the base that may have rows from which changes inherit.
        tail: All of it.
        column: One of the key.
        low: None where there is no bound.
        high: None where there is no bound.
    """

    columns: Columns
    files: BaseFiles
    tail: Tail
    column: str
    low: Any = None
    high: Any = None


def plan_state(
    view: TableView, names: Collection[str], base_bytes: int = BASE_BYTES, tail_bytes: int = TAIL_BYTES
) -> list[InputPartition]:
    """Partitions for the columns of a view that have these names.

    Args:
        view: The view.
        names: Of columns. The view may lack some.
        base_bytes: The most bytes of the base's files in one partition.
        tail_bytes: The most bytes of the tail's events in one partition, in memory.

    Raises:
        SparkError: ``TM-SPK-015`` for a file of the base that is missing, ``TM-SPK-018`` for a base that is more than
            its Parquet files.
        ChangeLogError: ``TM-LOG-009`` for a missing or damaged segment.
    """
    if view.base.error:
        raise view.base.error
    view.check_files()
    # Without any column a batch would have no rows.
    columns = {name: spark for name, spark in view.columns.items() if name in names} or view.key_columns

    def of_base(files: Iterable[BoundedFile], tail: Tail | None) -> Iterator[InputPartition]:
        for run in runs(files, base_bytes):
            yield BasePartition(columns, view.base.read(run), tail)

    overlay = view.overlay
    partitions = list(of_base(overlay.untouched, None))
    if view.segments:
        files = tuple(view.files({**view.columns, **EVENT_META}))
        tail = Tail(view.log.at, files, view.start, view.end, view.key_columns)
        partitions += of_base(overlay.touched, tail)
        inherited = view.base.read(overlay.inherited)
        column, cuts = _cuts(view, tail, tail_bytes)
        for low, high in zip([None, *cuts], [*cuts, None], strict=True):
            partitions.append(TailPartition(columns, inherited, tail, column, low, high))
    return partitions


def read_state(partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """The rows of a partition, with its columns. Spark makes an empty partition of its own where there is none."""
    if isinstance(partition, BasePartition):
        yield from _base_rows(partition)
    elif isinstance(partition, TailPartition):
        yield from _tail_rows(partition)


def _base_rows(partition: BasePartition) -> Iterator[pa.RecordBatch]:
    if partition.tail is None:
        yield from rows_without(partition.files, partition.columns, None)
        return
    key = partition.tail.key
    events = pa.Table.from_batches(partition.tail.read(key), arrow_schema(key))
    for batch in rows_without(partition.files, {**partition.columns, **key}, distinct(events, list(key))):
        yield batch.select(list(partition.columns))


def _tail_rows(partition: TailPartition) -> Iterator[pa.RecordBatch]:
    key = partition.tail.key
    columns = {**partition.columns, **key}
    stored = {**columns, **EVENT_META}
    events = pa.Table.from_batches(
        (_within(batch, partition) for batch in partition.tail.read(stored)), arrow_schema(stored)
    )
    if partition.files.paths and (lacking := lacks_columns(events)).num_rows:
        old = rows_with(partition.files, columns, distinct(lacking, list(key)))
        events = pa.concat_tables([as_events(old), events])
    yield from net_rows(events, list(key), columns).select(list(partition.columns)).combine_chunks().to_batches()


def _within(batch: pa.RecordBatch, partition: TailPartition) -> pa.RecordBatch:
    """The events of a partition's range. What is not a number is above all numbers."""
    values: Any = batch.column(partition.column)
    keeps: Any = pa.repeat(pa.scalar(True), batch.num_rows)
    if partition.low is not None:
        # What is not a number is not less than a bound either, so the last range alone has it.
        keeps = pc.fill_null(pc.invert(pc.less(values, pa.scalar(partition.low, values.type))), False)
    if partition.high is not None:
        below = pc.fill_null(pc.less(values, pa.scalar(partition.high, values.type)), True)
        keeps = pc.and_(keeps, below)
    return batch.filter(keeps)


def _cuts(view: TableView, tail: Tail, most: int) -> tuple[str, list[Any]]:
    """A column of the key and the values at which to cut the tail, so that the pieces are of about the same size.

    Keys drawn from some segments tell. A hash would need none of this, but Arrow has none.
    """
    pieces = -(-sum(segment.uncompressed for segment in view.segments) // most)
    if pieces <= 1:
        return view.key[0], []
    drawn = [tail.files[i * len(tail.files) // _SAMPLED] for i in range(_SAMPLED)]
    batches = [
        next(read_row_events(tail.log.store, [file], tail.key, tail.start, tail.end), None)
        for file in dict.fromkeys(drawn)
    ]
    sample = pa.Table.from_batches([batch for batch in batches if batch is not None], arrow_schema(tail.key))
    column = max(view.key, key=lambda name: len(sample[name].unique()))
    values = sample[column].drop_null()
    ordered = values.take(pc.sort_indices(values))
    cuts = [ordered[i * len(ordered) // pieces].as_py() for i in range(1, pieces)] if len(ordered) else []
    return column, [cut for cut in dict.fromkeys(cuts) if cut == cut]  # Nothing compares with what is not a number.
