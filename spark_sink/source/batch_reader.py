"""The batch side of the ``tidemark`` data source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from tidemark.protocol.errors import SparkError
from tidemark.spark_sink.source.followed_log import FollowedLog
from tidemark.spark_sink.source.inferred_schema import InferredSchema
from tidemark.spark_sink.source.options import SourceOptions, resolve_range
from tidemark.spark_sink.source.partitions import check_pinned, pinned_lineage, plan, read_partition
from tidemark.spark_sink.tables.column_types import Columns
from tidemark.spark_sink.tables.table_columns import find_collection


class BatchReader(DataSourceReader):
    """Reads the events of one table between two offsets.

    Args:
        options: The source's options.
        columns: The columns to read.
        inferred: The schema that they were inferred from; None if the user gave them.

    Raises:
        SparkError: ``TM-SPK-003`` for wrong options or a wrong schema.
    """

    def __init__(self, options: SourceOptions, columns: Columns, inferred: InferredSchema | None) -> None:
        check_pinned(columns)
        if options.consumer:
            raise SparkError("TM-SPK-003", "option consumer is only for streams: a batch reads once")
        self.options = options
        self.columns = columns
        self.inferred = inferred

    def partitions(self) -> Sequence[InputPartition]:
        log = FollowedLog(self.options.log)
        start, end = resolve_range(log, startingOffset=self.options.starting, endingOffset=self.options.ending)
        summary = log.summary()
        collection = find_collection(log, summary, self.options.required_table())
        if self.inferred and (departure := self.inferred.departure(log, collection, start, end)):
            raise departure.error()
        lineage = self.inferred.lineage if self.inferred else pinned_lineage(summary, collection, self.columns)
        return plan(log, collection, self.columns, start, end, self.options.partitions, lineage=lineage)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(self.options.log, self.columns, partition)
