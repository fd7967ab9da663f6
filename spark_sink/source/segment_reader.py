"""Reads segments as Arrow record batches with exactly the requested columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidemark.protocol.changelog import ChangeLog, Segment
from tidemark.protocol.changelog.segment_files import SegmentFile, asked_for, batches
from tidemark.protocol.store import Store
from tidemark.spark_sink.tables.column_types import Columns, arrow_schema, conformed, filled
from tidemark.spark_sink.tables.lineage import ColumnPlaces, Lineage
from tidemark.spark_sink.tables.table_columns import check_readable, renamed

_ROWS = 65_536
"""The rows of a record batch: enough that the cost per batch is negligible, and few enough for a worker's memory."""


def segment_files(
    log: ChangeLog, segments: Iterable[Segment], columns: Columns, lineage: Lineage | None = None
) -> list[SegmentFile]:
    """The files of segments of one collection, for a reader of some columns.

    Args:
        log: That has them.
        segments: The segments.
        columns: That are read.
        lineage: Tells which columns of segments of its generations are which; names tell in other segments.

    Raises:
        SparkError: ``TM-SPK-005`` when a segment's schema cannot be read as ``columns``.
    """
    known: dict[tuple[str, bool], ColumnPlaces] = {}
    files = []
    for segment in segments:
        told = lineage is not None and segment.generation in lineage.generations
        kind = segment.fingerprint, told
        if kind not in known:
            schema = log.schema(segment.fingerprint)
            taken = lineage.taken(segment.fingerprint, columns) if lineage is not None and told else None
            check_readable(schema, columns, None if taken is None else dict(taken.renamed))
            known[kind] = ColumnPlaces(renamed(schema, columns)) if taken is None else taken
        files.append(SegmentFile.of(segment, known[kind].renamed, known[kind].filled))
    return files


def read_segments(
    log: Store, files: Iterable[SegmentFile], columns: Columns, start: int, end: int
) -> Iterator[pa.RecordBatch]:
    """Events with offsets in ``[start, end)``, in the files' order, every batch in the schema of ``columns``.

    A column that a segment does not have is null. A column of a narrower type is cast.

    Args:
        log: The store that the change log is in.
        files: The segments' files.
        columns: The columns to read, of the table or of ``META_COLUMNS``.
        start: Smallest offset.
        end: One past the largest.

    Raises:
        ChangeLogError: ``TM-LOG-009`` for a file that is missing, damaged or another one, which it names.
    """
    schema = arrow_schema(columns)
    for file, data in asked_for(log, files):
        whole = start <= file.first and file.last < end
        with file.opened(log, data) as parquet:
            yield from _read(parquet, file, schema, None if whole else (start, end))


def _read(
    parquet: pq.ParquetFile, file: SegmentFile, schema: pa.Schema, bounds: tuple[int, int] | None
) -> Iterator[pa.RecordBatch]:
    places = ColumnPlaces(file.renamed, file.filled)
    wanted = places.wanted(parquet.schema_arrow.names, schema)
    wanted += [name for name, needs in (("_offset", bounds), ("_op", file.filled)) if needs and name not in wanted]
    groups = _row_groups(parquet.metadata, bounds) if bounds else None
    # Executors already have one task per core.
    for batch in batches(parquet, _ROWS, wanted, groups):
        kept = batch
        if bounds:
            offset = batch.column("_offset")
            kept = batch.filter(
                pc.and_(pc.greater_equal(offset, pa.scalar(bounds[0])), pc.less(offset, pa.scalar(bounds[1])))
            )
        if kept.num_rows:
            events = conformed(_with_names(kept, places) if places.renamed else kept, schema)
            yield filled(events, file.filled, _has_values(kept)) if file.filled else events


def _has_values(events: pa.RecordBatch) -> Any:
    """For each event whether it has a row: a delete has the key alone."""
    return pc.is_in(events.column("_op"), value_set=pa.array(["c", "u"]))


def _with_names(events: pa.RecordBatch, places: ColumnPlaces) -> pa.RecordBatch:
    """Events whose columns have other names, also where events name columns."""
    names, events = dict(places.renamed), places.renaming(events)
    if "_before" in events.schema.names:
        befores = [before and _with_members(before, names) for before in events.column("_before").to_pylist()]
        place = events.schema.get_field_index("_before")
        events = events.set_column(place, "_before", pa.array(befores, pa.string()))
    if "_unchanged" in events.schema.names:
        lists = events.column("_unchanged").to_pylist()
        place = events.schema.get_field_index("_unchanged")
        unchanged = pa.array(
            [left and [kept for name in left if (kept := names.get(name, name)) is not None] for left in lists],
            events.schema.field(place).type,
        )
        events = events.set_column(place, "_unchanged", unchanged)
    return events


def _with_members(row: str, names: Mapping[str, str | None]) -> str:
    """A row as JSON text, its members with other names and the same values, digit by digit."""
    members = msgspec.json.decode(row, type=dict[str, msgspec.Raw])
    kept = {other: value for name, value in members.items() if (other := names.get(name, name)) is not None}
    return msgspec.json.encode(kept).decode()


def _row_groups(metadata: pq.FileMetaData, bounds: tuple[int, int]) -> list[int]:
    """The row groups whose statistics allow offsets within bounds."""
    place = metadata.schema.names.index("_offset")
    found = []
    for index in range(metadata.num_row_groups):
        statistics: Any = metadata.row_group(index).column(place).statistics
        known = statistics is not None and statistics.has_min_max
        if not known or (statistics.min < bounds[1] and statistics.max >= bounds[0]):
            found.append(index)
    return found
