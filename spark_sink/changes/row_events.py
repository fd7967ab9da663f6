"""Events of rows: those of segments without any ``t``.

Where a TRUNCATE empties the table, a reader begins behind it. The ``t`` with which a generation begins that is laid
over older rows says nothing of a row, and has no key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.protocol.changelog import Segment
from tidemark.protocol.changelog.models import META_COLUMNS
from tidemark.protocol.changelog.segment_files import SegmentFile
from tidemark.protocol.store import Store
from tidemark.spark_sink.source.followed_log import FollowedLog
from tidemark.spark_sink.source.native_scan import segments_frame
from tidemark.spark_sink.source.segment_reader import read_segments
from tidemark.spark_sink.tables.column_types import Columns, quoted
from tidemark.spark_sink.tables.lineage import Lineage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_OP = {"_op": META_COLUMNS["_op"]}


def read_row_events(
    log: Store, files: Iterable[SegmentFile], columns: Columns, start: int, end: int
) -> Iterator[pa.RecordBatch]:
    """``read_segments`` of the events of rows."""
    for batch in read_segments(log, files, {**columns, **_OP}, start, end):
        is_row: Any = pc.not_equal(batch.column("_op"), pa.scalar("t"))
        kept = batch if pc.all(is_row).as_py() else batch.filter(is_row)
        yield kept if "_op" in columns else kept.select(list(columns))


def row_events_frame(
    spark: SparkSession,
    log: FollowedLog,
    segments: Sequence[Segment],
    columns: Columns,
    start: int,
    end: int,
    lineage: Lineage | None,
) -> DataFrame:
    """``segments_frame`` of the events of rows."""
    if all(segment.truncated_at is None or segment.truncated_at < start for segment in segments):
        return segments_frame(spark, log, segments, columns, start, end, lineage=lineage)
    from pyspark.sql import functions as F

    frame = segments_frame(spark, log, segments, {**columns, **_OP}, start, end, lineage=lineage)
    return frame.where(F.col("_op") != "t").select(*map(quoted, columns))
