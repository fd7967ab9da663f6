"""The batch side of the ``tidemark`` data source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from spark_sink.source.followed_log import FollowedLog
from spark_sink.source.options import SourceOptions, resolve_offset, resolve_range
from spark_sink.source.partitions import check_pinned, plan, read_partition
from spark_sink.tables.column_types import Columns
from spark_sink.tables.table_columns import event_columns, find_collection, own_columns


def newest_columns(options: SourceOptions) -> dict[str, str]:
    """The columns of a table's events under its newest schema, as of the ending offset.

    Raises:
        SparkError: ``TM-SPK-003`` for a wrong option, ``TM-SPK-004`` for an unknown table.
        ChangeLogError: When there is no log, or it is damaged.
    """
    table = options.required_table()
    log = FollowedLog(options.path)
    end = resolve_offset("endingOffset", options.ending, log)
    summary = log.summary(min(log.commit_with_offset(max(end - 1, 0)), log.latest()))
    collection = find_collection(log, summary, table)
    return event_columns(own_columns(summary.schemas[summary.totals[collection].fingerprint]))


class BatchReader(DataSourceReader):
    """Reads the events of one table between two offsets.

    Raises:
        SparkError: ``TM-SPK-003`` for options or a given schema that cannot be.
    """

    def __init__(self, options: SourceOptions, columns: Columns) -> None:
        check_pinned(columns)
        self.options = options
        self.columns = columns

    def partitions(self) -> Sequence[InputPartition]:
        log = FollowedLog(self.options.path)
        start, end = resolve_range(log, startingOffset=self.options.starting, endingOffset=self.options.ending)
        collection = find_collection(log, log.summary(), self.options.required_table())
        return plan(log, collection, self.columns, start, end, self.options.partitions)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(self.options.path, self.columns, partition)
