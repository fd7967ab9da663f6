"""Reads segments as Arrow record batches with exactly the requested columns."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidemark.protocol.changelog import Segment
from tidemark.protocol.changelog.models import META_COLUMNS
from tidemark.protocol.errors import ChangeLogError
from tidemark.spark_sink.tables.column_types import Columns, arrow_schema, conformed

_ROWS = 65_536
"""The rows of a record batch: enough that the cost per batch is negligible, and few enough for a worker's memory."""


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """A segment's file, as far as its reader needs to know it.

    Attributes:
        path: The path relative to the log.
        rows: The number of rows by the log.
        first: The offset of the first row.
        last: The offset of the last row.
        size: The size of the file in bytes.
        renamed: Columns that are read under other names, and these.
    """

    path: str
    rows: int
    first: int
    last: int
    size: int
    renamed: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, segment: Segment, renamed: tuple[tuple[str, str], ...] = ()) -> SegmentFile:
        return cls(segment.path, segment.rows, segment.first_offset, segment.last_offset, segment.size, renamed)


def read_segments(
    root: Path, files: Iterable[SegmentFile], columns: Columns, start: int, end: int
) -> Iterator[pa.RecordBatch]:
    """Events with offsets in ``[start, end)``, in the files' order, every batch in the schema of ``columns``.

    A column that a segment does not have is null. A column of a narrower type is cast.

    Args:
        root: The change log's directory.
        files: The segments' files.
        columns: The columns to read, of the table or of ``META_COLUMNS``.
        start: Smallest offset.
        end: One past the largest.

    Raises:
        ChangeLogError: ``TM-LOG-009`` for a missing or damaged file, which it names.
    """
    schema = arrow_schema(columns)
    for file in files:
        path = root / file.path
        whole = start <= file.first and file.last < end
        try:
            yield from _read(path, file, schema, None if whole else (start, end))
        except FileNotFoundError:
            raise ChangeLogError("TM-LOG-009", f"{path} is missing") from None
        except (pa.ArrowException, OSError) as error:
            raise ChangeLogError("TM-LOG-009", f"{path} is damaged: {str(error).splitlines()[0]}") from None


def _read(path: Path, file: SegmentFile, schema: pa.Schema, bounds: tuple[int, int] | None) -> Iterator[pa.RecordBatch]:
    with path.open("rb") as source, pq.ParquetFile(source, page_checksum_verification=True) as parquet:
        stored = set(parquet.schema_arrow.names)
        if lost := META_COLUMNS.keys() - stored:
            raise ChangeLogError("TM-LOG-009", f"{path} is damaged: it has no column {', '.join(sorted(lost))}")
        _check(path, file, os.fstat(source.fileno()).st_size, parquet.metadata)
        renamed = dict(file.renamed)
        places = {renamed.get(name, name): name for name in stored}
        wanted = [places[name] for name in schema.names if name in places]
        if bounds and "_offset" not in wanted:
            wanted.append("_offset")
        groups = _row_groups(parquet.metadata, bounds) if bounds else None
        # Executors already have one task per core.
        for batch in parquet.iter_batches(_ROWS, columns=wanted, row_groups=groups, use_threads=False):
            kept = batch
            if bounds:
                offset = batch.column("_offset")
                kept = batch.filter(
                    pc.and_(pc.greater_equal(offset, pa.scalar(bounds[0])), pc.less(offset, pa.scalar(bounds[1])))
                )
            if kept.num_rows:
                yield conformed(_with_names(kept, renamed) if renamed else kept, schema)


def _with_names(events: pa.RecordBatch, names: Mapping[str, str]) -> pa.RecordBatch:
    """Events whose columns have other names, also where events name columns."""
    events = events.rename_columns([names.get(name, name) for name in events.schema.names])
    if "_before" in events.schema.names:
        befores = [before and _with_members(before, names) for before in events.column("_before").to_pylist()]
        place = events.schema.get_field_index("_before")
        events = events.set_column(place, "_before", pa.array(befores, pa.string()))
    if "_unchanged" in events.schema.names:
        lists = events.column("_unchanged").to_pylist()
        place = events.schema.get_field_index("_unchanged")
        unchanged = pa.array(
            [left and [names.get(name, name) for name in left] for left in lists], events.schema.field(place).type
        )
        events = events.set_column(place, "_unchanged", unchanged)
    return events


def _with_members(row: str, names: Mapping[str, str]) -> str:
    """A row as JSON text, its members with other names and the same values, digit by digit."""
    members = msgspec.json.decode(row, type=dict[str, msgspec.Raw])
    return msgspec.json.encode({names.get(name, name): value for name, value in members.items()}).decode()


def _check(path: Path, file: SegmentFile, size: int, metadata: pq.FileMetaData) -> None:
    """Makes sure that a file is the one that the log names: another segment's file is whole, and wrong here."""
    found = {"bytes": (size, file.size), "rows": (metadata.num_rows, file.rows)}
    if metadata.num_row_groups:
        place = metadata.schema.names.index("_offset")
        first: Any = metadata.row_group(0).column(place).statistics
        last: Any = metadata.row_group(metadata.num_row_groups - 1).column(place).statistics
        if first is not None and first.has_min_max and last is not None and last.has_min_max:
            found |= {"as its first offset": (first.min, file.first), "as its last offset": (last.max, file.last)}
    for what, (has, stated) in found.items():
        if has != stated:
            raise ChangeLogError("TM-LOG-009", f"{path} is damaged: it has {has} {what}, but the log says {stated}")


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
