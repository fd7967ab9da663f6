"""Rows that a part is merged with: files of the table itself, and ascending runs of backfilled rows in the log.

Sources are in groups, which follow one another in key order. No key is in two sources.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.protocol.changelog.segment_files import SegmentFile
from tidemark.protocol.errors import ChangeLogError, SparkError
from tidemark.spark_sink.changes.key_order import Place, in_order, is_ascending, reaches
from tidemark.spark_sink.source.segment_reader import read_segments
from tidemark.spark_sink.tables.column_types import Columns, arrow_schema
from tidemark.spark_sink.tables.lineage import AS_THEY_ARE, ColumnPlaces
from tidemark.spark_sink.tables.store_place import StorePlace


@dataclass(frozen=True, slots=True)
class BaseFile:
    """A file of the table, by its path in the table's directory. Its size is in bytes.

    ``oldest`` is the smallest ``_offset`` of its rows; None if only its footer may tell.
    """

    path: str
    size: int
    rows: int
    oldest: int | None = None


@dataclass(frozen=True, slots=True)
class BackfilledRun:
    """Backfilled rows of a segment whose keys ascend.

    Attributes:
        segment: That holds them.
        first_offset: Of the first row.
        last_offset: Of the last row. Rows of the source's log may lie between.
        rows: How many.
        size: Bytes of the segment that are these rows', about.
        index: Of the run in its segment; of the last one, where several that follow one another are taken as one.
    """

    segment: SegmentFile
    first_offset: int
    last_offset: int
    rows: int
    size: int
    index: int = 0


Source = BaseFile | BackfilledRun


@dataclass(frozen=True, slots=True)
class SourceGroup:
    """Sources that no other group shares a key with.

    Attributes:
        low: No key of the group comes before it.
        high: No key of the group comes after it, nor begins with a greater prefix.
        sources: Most often one; several files of the table where their bounds overlap. No key is in two of them.
    """

    low: Place
    high: Place
    sources: tuple[Source, ...]

    @property
    def size(self) -> int:
        """Bytes of files."""
        return sum(source.size for source in self.sources)

    @property
    def is_new(self) -> bool:
        """Whether it holds rows that are not in the table yet."""
        return any(isinstance(source, BackfilledRun) for source in self.sources)

    def may_hold(self, key: Place) -> bool:
        """Whether the key may be one of the group's."""
        return self.low <= key and reaches(self.high, key)


@dataclass(slots=True)
class Reading:
    """How many rows of log and table were read, and about how many bytes of their files."""

    rows: int = 0
    bytes: int = 0


class SourceReader:
    """Reads sources in an executor, from the places of the log and of the table.

    Args:
        log: The change log's place.
        table: The table's.
        columns: Names and Spark types of the table's columns.
        key: Names of the key's columns.
        reading: Counts.
        places: Where the table's files have the columns.
        floor: Rows of the table with a smaller ``_offset`` are left out.
    """

    def __init__(
        self,
        log: StorePlace,
        table: StorePlace,
        columns: Columns,
        key: Sequence[str],
        reading: Reading,
        places: ColumnPlaces = AS_THEY_ARE,
        floor: int = 0,
    ) -> None:
        self._log = log
        self._table = table
        self._columns = columns
        self._schema = arrow_schema(columns)
        self._key = list(key)
        self._reading = reading
        self._places = places
        self._floor = floor

    def is_stale(self, group: SourceGroup) -> bool:
        """Whether the table's files in a group have rows below the floor. Raises what ``load`` does."""
        return any(isinstance(source, BaseFile) and self._oldest(source) < self._floor for source in group.sources)

    def _oldest(self, source: BaseFile) -> int:
        if source.oldest is not None or not self._floor:
            return source.oldest or 0
        with self._table.parquet(source.path) as parquet:
            metadata = parquet.metadata
            place = metadata.schema.names.index("_offset")
            ends: list[Any] = [metadata.row_group(i).column(place).statistics for i in range(metadata.num_row_groups)]
            return min((int(end.min) if end is not None and end.has_min_max else 0 for end in ends), default=0)

    def load(self, group: SourceGroup) -> pa.Table:
        """All rows of a group, in key order.

        Raises:
            ChangeLogError: ``TM-LOG-009`` for a missing or damaged segment.
            SparkError: ``TM-SPK-015`` for a missing or damaged file of the table.
        """
        tables = [pa.Table.from_batches(self.stream(source), self._schema) for source in group.sources]
        rows = tables[0] if len(tables) == 1 else pa.concat_tables(tables)
        # Files that another engine compacted are in no order.
        return rows if is_ascending(rows, self._key) else in_order(rows, self._key)

    def stream(self, source: Source) -> Iterator[pa.RecordBatch]:
        """The rows of one source, as they lie. Raises what ``load`` does."""
        self._reading.rows += source.rows
        self._reading.bytes += source.size
        return self._file(source) if isinstance(source, BaseFile) else self._run(source)

    def _file(self, source: BaseFile) -> Iterator[pa.RecordBatch]:
        with self._table.parquet(source.path) as parquet:
            if parquet.metadata.num_rows != source.rows:
                path = self._table.store.where(source.path)
                raise SparkError(
                    "TM-SPK-015", f"{path} has {parquet.metadata.num_rows} rows, but the table has {source.rows}"
                )
            wanted = self._places.wanted(parquet.schema_arrow.names, self._schema)
            for batch in parquet.iter_batches(columns=wanted, use_threads=False):
                rows = batch
                if self._floor:
                    rows = batch.filter(pc.greater_equal(batch.column("_offset"), pa.scalar(self._floor)))
                yield self._places.rows(rows, self._schema)

    def _run(self, run: BackfilledRun) -> Iterator[pa.RecordBatch]:
        columns = {**self._columns, "_snapshot": "boolean"}
        found = 0
        for batch in read_segments(self._log.store, [run.segment], columns, run.first_offset, run.last_offset + 1):
            rows = batch.filter(batch.column("_snapshot")).select(self._schema.names)
            found += rows.num_rows
            if rows.num_rows:
                yield rows
        if found != run.rows:
            raise ChangeLogError(
                "TM-LOG-009",
                f"{self._log.store.where(run.segment.path)} has {found} backfilled rows, but the log has {run.rows}",
            )


def as_events(rows: pa.Table) -> pa.Table:
    """Rows of a table as events: each the oldest that its key has."""
    count = rows.num_rows
    events = rows.append_column("_op", pa.repeat(pa.scalar("c"), count))
    return events.append_column("_unchanged", pa.nulls(count, pa.list_(pa.field("element", pa.string()))))
