"""The ``tidemark`` data source: a table's change events, as a stream or a batch.

Every Spark application that looks for data sources imports this module (see ``pyspark_tidemark``). So it imports
nothing heavy: Arrow and the change log's models are imported when the source is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidemark.spark_sink.source.inferred_schema import InferredSchema
    from tidemark.spark_sink.source.options import SourceOptions


def register(spark: SparkSession) -> None:
    """Makes ``.format("tidemark")`` known to a session, classic or Connect.

    Needed only where ``pyspark_tidemark`` is not found by itself, as with ``--py-files``; harmless elsewhere.
    """
    from pyspark.errors import AnalysisException

    try:
        spark.dataSource.register(TidemarkSource)
    except AnalysisException as error:
        # PySpark 4.0 and 4.1 refuse to replace what they found by themselves, which is the same.
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise


class TidemarkSource(DataSource):
    """``spark.read`` or ``spark.readStream`` ``.format("tidemark")``.

    Options: ``path`` (of the change log), ``table`` (``schema.table``), ``startingOffset`` (``earliest`` | ``latest`` |
    offset | ISO 8601 time; default earliest), ``endingOffset`` (batch only, exclusive; default latest),
    ``maxEventsPerBatch`` and ``maxBytesPerBatch`` (stream only), ``minPartitions``. Any other is an error.

    Columns: the table's own at the time of reading, then ``tidemark.protocol.changelog.models.META_COLUMNS``. If they
    change, a running stream stops with an error. A schema given to the reader fixes the columns: no others are read.

    With ``state`` as ``current`` (batch only) it is the table's rows instead of its events, as ``read_table`` gives
    them. Options then: ``asOf`` (an offset or a time), ``warehouse`` (where ``materialize`` keeps tables).
    """

    inferred: InferredSchema | None = None
    """The inferred schema. Spark asks for it only if no schema is given, and pickles this object afterwards."""

    @classmethod
    def name(cls) -> str:
        return "tidemark"

    def schema(self) -> str:
        from tidemark.spark_sink.source.followed_log import FollowedLog
        from tidemark.spark_sink.source.inferred_schema import InferredSchema
        from tidemark.spark_sink.source.options import resolve_range
        from tidemark.spark_sink.tables.column_types import ddl

        options = self._options()
        if options.state:
            from tidemark.spark_sink.live.state_reader import state_columns

            return ddl(state_columns(options))
        table, log = options.required_table(), FollowedLog(options.log)
        start, end = resolve_range(log, startingOffset=options.starting, endingOffset=options.ending)
        self.inferred = InferredSchema.of(log, table, start, end)
        return ddl(self.inferred.columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        options = self._options()
        if options.state:
            from tidemark.spark_sink.live.state_reader import StateReader

            return StateReader(options, _columns(schema))
        from tidemark.spark_sink.source.batch_reader import BatchReader

        return BatchReader(options, _columns(schema), self.inferred)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from tidemark.protocol.errors import SparkError
        from tidemark.spark_sink.source.stream_reader import StreamReader

        options = self._options()
        if options.state:
            raise SparkError(
                "TM-SPK-003", "option state is current, which only batch reads support: a stream reads events"
            )
        return StreamReader(options, _columns(schema), self.inferred)

    def _options(self) -> SourceOptions:
        from tidemark.spark_sink.source.options import SourceOptions

        return SourceOptions.of(self.options)


def _columns(schema: StructType) -> dict[str, str]:
    return {field.name: field.dataType.simpleString() for field in schema.fields}
