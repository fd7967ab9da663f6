"""``state=current`` of the ``tidemark`` data source: the live view for those who work in SQL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from tidemark.protocol.changelog.columns.evolution import widens
from tidemark.protocol.errors import SparkError
from tidemark.spark_sink.live.state_partitions import plan_state, read_state
from tidemark.spark_sink.live.table_view import TableView, end_of, table_view
from tidemark.spark_sink.source.followed_log import FollowedLog
from tidemark.spark_sink.source.options import SourceOptions
from tidemark.spark_sink.source.partitions import check_spelled
from tidemark.spark_sink.tables.column_types import Columns, arrow_schema, conformed


def state_columns(options: SourceOptions) -> Columns:
    """The columns of a table's state.

    Raises:
        TidemarkError: As ``read_table``.
    """
    return _view(options).columns


class StateReader(DataSourceReader):
    """Reads the state of one table. It looks at the log and the kept table when a query is planned.

    Args:
        options: Of the source.
        columns: To read; one that the table does not have is null.
    """

    def __init__(self, options: SourceOptions, columns: Columns) -> None:
        self.options = options
        self.columns = columns
        self.schema = arrow_schema(columns)

    def partitions(self) -> Sequence[InputPartition]:
        view = _view(self.options)
        check_spelled(self.columns, self.options.table, view.columns)
        for name, wanted in self.columns.items():
            stored = view.columns.get(name, wanted)
            if not widens(stored, wanted):
                raise SparkError(
                    "TM-SPK-005", f"column {name} of {self.options.table} is {stored} and cannot be read as {wanted}"
                )
        return plan_state(view, self.columns)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        for batch in read_state(partition):
            yield conformed(batch, self.schema)


def _view(options: SourceOptions) -> TableView:
    log = FollowedLog(options.log)
    return table_view(log, options.required_table(), end_of(log, options.as_of), options.warehouse)
