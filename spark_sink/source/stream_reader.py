"""The streaming side of the ``tidemark`` data source, for PySpark 4.0 to 4.3.

A stream's offset is ``{"v": 1, "log": <id of the log>, "offset": N, "before": M}``: all events below N are read, and M
tells the commit before from that of another log with the same id and offset (``FollowedLog.mark``). M is left out where
no commit ends. Spark keeps it in the checkpoint. From PySpark 4.2 on a source limits its batches; before, a batch has
all events.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from tidemark.protocol.changelog.consumers import Registration
from tidemark.protocol.errors import SparkError
from tidemark.spark_sink.source.followed_log import FollowedLog, Limits
from tidemark.spark_sink.source.inferred_schema import Departure, InferredSchema
from tidemark.spark_sink.source.options import EVENTS_PER_BATCH, SourceOptions, resolve_offset
from tidemark.spark_sink.source.partitions import check_pinned, pinned_lineage, plan, read_partition
from tidemark.spark_sink.tables.column_types import Columns
from tidemark.spark_sink.tables.table_columns import find_collection

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
else:
    try:
        from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, SupportsTriggerAvailableNow
    except ImportError:  # PySpark 4.0 and 4.1, which ask for none of these
        ReadAllAvailable = ReadMaxRows = None
        SupportsTriggerAvailableNow = object

Offset = dict[str, Any]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Streams the events of one table.

    Args:
        options: The source's options.
        columns: The columns to read.
        inferred: The schema that they were inferred from; None if the user gave them.

    Raises:
        SparkError: ``TM-SPK-003`` for wrong options or a wrong schema.
    """

    def __init__(self, options: SourceOptions, columns: Columns, inferred: InferredSchema | None) -> None:
        check_pinned(columns)
        self.table = options.required_table()
        if options.ending.lower() != "latest":
            raise SparkError("TM-SPK-003", "option endingOffset is only for batch reads: a stream has no end")
        self.options = options
        self.columns = columns
        self.inferred = inferred
        self._target: int | None = None
        self._resumed = True

    @cached_property
    def log(self) -> FollowedLog:
        return FollowedLog(self.options.log)

    @cached_property
    def _registration(self) -> Registration | None:
        # For each batch: a stream that is stopped, or has read all, is not asked once more.
        return Registration(self.log.store, self.options.consumer, every=0.0) if self.options.consumer else None

    @cached_property
    def collection(self) -> str:
        return find_collection(self.log, self.log.summary(), self.table)

    def initialOffset(self) -> Offset:
        self._resumed = False  # Spark asks only where the checkpoint has no offset
        first = resolve_offset("startingOffset", self.options.starting, self.log)
        self._needs(first)
        return self._offset(first)

    def latestOffset(self, start: Offset | None = None, limit: ReadLimit | None = None) -> Offset:
        ceiling = self.log.end() if self._target is None else self._target
        if start is None:  # PySpark before 4.2, which cannot say where the batch starts
            return self._offset(ceiling)
        unlimited = isinstance(limit, ReadAllAvailable)
        limits = Limits() if unlimited else self.options.limits
        position = self._position(start)
        self._needs(position)
        return self._offset(self._readable(position, self.log.cut(position, limits, ceiling, self.collection)))

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self.options.limits.events or EVENTS_PER_BATCH)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self.log.end()

    def reportLatestOffset(self) -> Offset:
        return self._offset(self.log.end())

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        first, last = self._position(start), self._position(end)
        # Not of a batch cut here: of one that the checkpoint has, or that PySpark before 4.2 could not cut.
        if departure := self._departure(first, last):
            raise departure.error()
        if self.inferred is not None:
            lineage = self.inferred.lineage
        else:
            lineage = pinned_lineage(self.log.summary_at(last), self.collection, self.columns)
        return plan(self.log, self.collection, self.columns, first, last, self.options.partitions, lineage=lineage)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(self.options.log, self.columns, partition)

    def commit(self, end: Offset) -> None:
        self._needs(int(end["offset"]))

    def _needs(self, position: int) -> None:
        """The stream has processed all events below a position."""
        if self._registration is not None:
            self._registration.note(position)

    def _readable(self, start: int, end: int) -> int:
        """The offset up to which events have the expected columns. At that offset it is an error.

        The offset may be inside a commit. The events before it are read with their own schema, and a restart begins
        with the first event of the new schema.
        """
        departure = self._departure(start, end)
        if departure is None:
            return end
        if departure.offset > start:
            return departure.offset
        raise departure.error()

    def _departure(self, start: int, end: int) -> Departure | None:
        if self.inferred is None:
            return None
        return self.inferred.departure(self.log, self.collection, start, end, resumed=self._resumed)

    def _offset(self, offset: int) -> Offset:
        known = {"v": 1, "log": self.log.header.log_id, "offset": offset}
        mark = self.log.mark(offset)
        return {**known, "before": mark} if mark else known

    def _position(self, offset: Offset) -> int:
        """The log offset of a checkpoint.

        Raises:
            SparkError: ``TM-SPK-006`` if it is of another log, beyond the log's end, or the log was restored from a
                copy and has other events before it.
            ChangeLogError: ``TM-LOG-018`` if events from there on are not kept any more.
        """
        if offset.get("v") != 1 or offset.get("log") != self.log.header.log_id:
            raise SparkError(
                "TM-SPK-006", f"the checkpoint does not belong to the change log at {self.log.store.place}"
            )
        position = int(offset["offset"])
        if position > self.log.end():
            raise SparkError(
                "TM-SPK-006",
                f"the checkpoint is at offset {position}, but {self.log.store.place} ends at {self.log.end()}",
            )
        self.log.log_start.check_offset(position, self.log.store.place)
        before = offset.get("before")
        if before is not None and before != self.log.mark(position):
            raise SparkError(
                "TM-SPK-006",
                f"the checkpoint is at offset {position}, but {self.log.store.place}, restored from an older copy, has "
                "other events before that offset",
                remedy="Bring the newer log back. Or start with a new checkpoint, and write all of the result again.",
            )
        return position
