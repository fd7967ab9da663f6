"""The ``tidemark_segments`` data source: what a change log committed, a row per segment.

A stream of it drives ``materialize``: it says which tables have new events, and the tables read them on their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from spark_sink.column_types import arrow_schema, ddl
from spark_sink.source_options import SourceOptions
from spark_sink.stream_reader import LogStreamReader, Offset

COLUMNS = {
    "commit": "bigint",
    "collection": "string",
    "path": "string",
    "rows": "bigint",
    "size": "bigint",
    "uncompressed": "bigint",
    "first_offset": "bigint",
    "last_offset": "bigint",
    "fingerprint": "string",
}


class SegmentSource(DataSource):
    """``spark.readStream.format("tidemark_segments")`` with the options of ``tidemark`` except ``table``."""

    @classmethod
    def name(cls) -> str:
        return "tidemark_segments"

    def schema(self) -> str:
        return ddl(COLUMNS)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return SegmentStreamReader(SourceOptions.of(self.options), None)


@dataclass
class SegmentsPartition(InputPartition):
    """Rows of segments, in log order."""

    rows: list[dict[str, int | str]]


class SegmentStreamReader(LogStreamReader):
    """Streams the segments of all tables."""

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        segments = self.log.segments_of_all(self._position(start), self._position(end))
        rows = [
            {"commit": number, **segment.model_dump(include=COLUMNS.keys() - {"commit"})}
            for number, segment in segments
        ]
        return [SegmentsPartition(rows)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, SegmentsPartition)
        yield pa.RecordBatch.from_pylist(partition.rows, schema=arrow_schema(COLUMNS))
