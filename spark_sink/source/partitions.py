"""Divides the segments of a range of offsets into Spark partitions."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from tidemark.protocol.changelog import Summary
from tidemark.protocol.changelog.models import META_COLUMNS
from tidemark.protocol.changelog.segment_files import SegmentFile
from tidemark.protocol.errors import SparkError
from tidemark.spark_sink.source.followed_log import FollowedLog
from tidemark.spark_sink.source.runs import runs
from tidemark.spark_sink.source.segment_reader import read_segments, segment_files
from tidemark.spark_sink.tables.column_types import Columns, arrow_schema
from tidemark.spark_sink.tables.lineage import Lineage, newest_lineage
from tidemark.spark_sink.tables.store_place import StorePlace
from tidemark.spark_sink.tables.table_columns import dotted

PARTITION_BYTES = 8 * 1024 * 1024
"""The bytes of a partition's segments: some hundred thousand events, at most a second's work."""


@dataclass
class EventsPartition(InputPartition):
    """Events with offsets in ``[start, end)`` of some segments of one collection."""

    start: int
    end: int
    files: tuple[SegmentFile, ...]


def plan(
    log: FollowedLog,
    collection: str,
    columns: Columns,
    start: int,
    end: int,
    at_least: int = 1,
    most_bytes: int = PARTITION_BYTES,
    *,
    lineage: Lineage | None = None,
) -> list[EventsPartition]:
    """Partitions for the events of a collection in ``[start, end)``, each a run of segments in offset order.

    Args:
        log: The change log.
        collection: The collection to read.
        columns: The columns to read.
        start: Smallest offset.
        end: One past the largest.
        at_least: The minimum number of partitions, if there are that many segments.
        most_bytes: The most bytes of segments in a partition.
        lineage: As ``segment_files``.

    Raises:
        SparkError: ``TM-SPK-005`` when a segment's schema cannot be read as ``columns``.
        ChangeLogError: When a commit is missing or damaged.
    """
    files = segment_files(log, log.segments(collection, start, end), columns, lineage)
    most = min(most_bytes, sum(file.size for file in files) // at_least)
    return [EventsPartition(start, end, tuple(run)) for run in runs(files, most)]


def read_partition(log: StorePlace, columns: Columns, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """The events of a partition. Without partitions Spark makes an empty one of its own."""
    if isinstance(partition, EventsPartition):
        yield from read_segments(log.store, partition.files, columns, partition.start, partition.end)


def check_pinned(columns: Columns) -> None:
    """Makes sure that a given schema has only types of change logs, and that its meta columns have their own types.

    Raises:
        SparkError: ``TM-SPK-003``.
    """
    arrow_schema(columns)
    for name, wanted in META_COLUMNS.items():
        if columns.get(name, wanted) != wanted:
            raise SparkError("TM-SPK-003", f"the reader's schema has {name} with type {columns[name]}, not {wanted}")


def check_spelled(columns: Columns, table: str, known: Collection[str]) -> None:
    """Makes sure that no name of a given schema is one of the table's but for its case: its values would all be null.

    Raises:
        SparkError: ``TM-SPK-003``.
    """
    spelled = {name.lower(): name for name in known}
    for name in columns:
        if name not in known and (other := spelled.get(name.lower())) is not None:
            raise SparkError("TM-SPK-003", f"the reader's schema has {name}, which is called {other} in {table}")


def pinned_lineage(summary: Summary, collection: str, columns: Columns) -> Lineage | None:
    """``newest_lineage`` for a given schema. Raises what ``check_spelled`` does."""
    own = [one for schema in summary.schemas.values() if schema.collection == collection for one in schema.columns]
    known = {*META_COLUMNS, *(column.name for column in own), *(column.in_span for column in own)}
    check_spelled(columns, dotted(collection), known)
    return newest_lineage(summary, collection, columns)
