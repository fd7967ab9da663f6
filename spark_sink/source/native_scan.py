"""Segments as a DataFrame of Spark's own Parquet reader, which prunes columns and pushes filters down.

That reader takes some milliseconds for each file of any size. If many segments are small, Spark's Python workers read
them instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

from tidemark.protocol.changelog import Segment
from tidemark.protocol.changelog.models import META_COLUMNS
from tidemark.protocol.changelog.segment_files import SegmentFile
from tidemark.spark_sink.source.followed_log import FollowedLog
from tidemark.spark_sink.source.inferred_schema import InferredSchema
from tidemark.spark_sink.source.log_path import log_and_warehouse
from tidemark.spark_sink.source.options import resolve_range
from tidemark.spark_sink.source.partitions import PARTITION_BYTES, check_pinned, pinned_lineage
from tidemark.spark_sink.source.runs import runs
from tidemark.spark_sink.source.segment_reader import read_segments, segment_files
from tidemark.spark_sink.spark.file_systems import native_url
from tidemark.spark_sink.tables.column_types import Columns, arrow_schema, ddl, quoted, sql_type
from tidemark.spark_sink.tables.lineage import Lineage
from tidemark.spark_sink.tables.store_place import StorePlace
from tidemark.spark_sink.tables.table_columns import event_columns, find_collection, own_columns

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_READER = {
    # A segment that is not as the log says is an error, whatever the session is set to forgive.
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    "parquet.page.verify-checksum.enabled": "true",
    # Folders named a=b are no partition columns.
    "recursiveFileLookup": "true",
    # No other calendar than the log's.
    "datetimeRebaseMode": "CORRECTED",
}
"""Options of Spark's Parquet reader, which win over the session's settings."""

_PATTERN = re.compile(r"[][{}*?\\]")


@dataclass(frozen=True, slots=True)
class ScanLimits:
    """Decides how segments are read.

    Attributes:
        small_rows: Segments with fewer rows are read faster by Arrow in Python than by Spark's reader, if all columns
            are read.
        many_small: The least number of small segments that is worth the start of a Python worker.
        files: The most files of one scan. For more, Spark starts a job with a task per file, only to see their sizes.
        scans: The most scans. More of them cost more than that job.
    """

    small_rows: int = 10_000
    many_small: int = 64
    files: int = 32
    scans: int = 64


_LIMITS = ScanLimits()


def read_changes(
    spark: SparkSession,
    path_or_file: str | Path,
    table: str,
    start: int | str | datetime | None = None,
    end: int | str | datetime | None = None,
    *,
    schema: StructType | str | None = None,
) -> DataFrame:
    """The events of a table as a DataFrame that Spark reads natively: it costs what reading Parquet files costs.

    The DataFrame always reads what the log has now. Its columns are those of the table's newest schema, then those of
    every event, which docs/changelog.md lists, such as ``_op`` and ``_offset``. Where the table was read again with a
    type that older values do not have, older and newer events have a column each, such as ``c`` and ``c__2``.

    Args:
        spark: The session, classic or Connect.
        path_or_file: Of the change log; or the capture file.
        table: ``schema.table``, as in the source.
        start: The first event: an offset, a time (UTC when it has no zone), ``earliest`` or ``latest``. Default:
            earliest.
        end: As ``start``, exclusive. Default: latest.
        schema: The columns to read instead, or their DDL. Values are cast where the type holds them exactly.

    Raises:
        SparkError: ``TM-SPK-003`` for a start or an end that cannot be, ``TM-SPK-004`` for an unknown table,
            ``TM-SPK-005`` for a column that cannot be read as the schema's type, ``TM-SPK-006`` for an offset beyond
            the end of the log.
        ChangeLogError: When there is no log, or it is damaged.
    """
    log = FollowedLog(log_and_warehouse(path_or_file)[0])
    first, last = resolve_range(log, start=_text(start, "earliest"), end=_text(end, "latest"))
    summary = log.summary()
    collection = find_collection(log, summary, table)
    if schema is None:
        inferred = InferredSchema.of(log, table, first, last)
        columns, lineage = inferred.columns, inferred.lineage
    else:
        fields = (spark.createDataFrame([], schema).schema if isinstance(schema, str) else schema).fields
        columns = {field.name: field.dataType.simpleString() for field in fields}
        check_pinned(columns)
        lineage = pinned_lineage(summary, collection, columns)
    segments = list(log.segments(collection, first, last))
    return segments_frame(spark, log, segments, columns, first, last, lineage=lineage)


def segments_frame(
    spark: SparkSession,
    log: FollowedLog,
    segments: Sequence[Segment],
    columns: Columns,
    start: int,
    end: int,
    limits: ScanLimits = _LIMITS,
    lineage: Lineage | None = None,
) -> DataFrame:
    """The events of segments with offsets in ``[start, end)``, in no particular order.

    The call itself reads only the segments' sizes, and the footers of those that Spark's own reader reads. A column
    that a segment does not have is null. A column of a narrower type is cast. It works on classic Spark and on Connect,
    whose client must reach the log too.

    Args:
        spark: The session, of any time zone.
        log: That the segments are of.
        segments: All of them are read, and nothing else.
        columns: Of the result, in order: the table's own, and any of ``META_COLUMNS``.
        start: Smallest offset.
        end: One past the largest.
        limits: How segments are read.
        lineage: As ``segment_files``.

    Raises:
        SparkError: ``TM-SPK-003`` for a type that no log has, ``TM-SPK-005`` when a segment's schema cannot be read as
            ``columns``.
        ChangeLogError: ``TM-LOG-009`` for a segment that is missing, or not the one that the log says.
    """
    arrow_schema(columns)
    files = {file.path: file for file in segment_files(log, segments, columns, lineage)}
    url = native_url(spark, log.at.text) if segments else None
    if log.at.directory is not None:  # In an object store each would be a request, which the reader makes anyway.
        for file in files.values():
            file.check_size(log.store)
    fingerprints = {segment.fingerprint for segment in segments}
    stored = {fingerprint: event_columns(own_columns(log.schema(fingerprint))) for fingerprint in fingerprints}
    schemas = [columns, *stored.values()]
    python = list(files.values()) if url is None else _for_python(list(files.values()), schemas, limits)
    frames = [_python(spark, log.at, python, columns, start, end)] if python else []
    for file in python:
        del files[file.path]
    groups: dict[tuple[str, bool], list[str]] = {}
    for segment in segments:
        if (native := files.get(segment.path)) is not None:
            native.check(log.store)
            whole = start <= segment.first_offset and segment.last_offset < end
            groups.setdefault((segment.fingerprint, whole), []).append(segment.path)
    for (fingerprint, whole), paths in groups.items():
        bounds = None if whole else (start, end)
        assert url is not None, "without it Python has read all files"
        frames.append(_native(spark, url, paths, stored[fingerprint], columns, bounds, limits))
    return reduce(lambda a, b: a.union(b), frames) if frames else spark.createDataFrame([], ddl(columns))


def parquet_files(
    spark: SparkSession, root: str, paths: Sequence[str], columns: Columns, limits: ScanLimits = _LIMITS
) -> DataFrame:
    """Parquet files as a DataFrame. No footer is read for a schema, and a column that a file lacks is null.

    Args:
        spark: The session.
        root: The place that they are in, as Spark names it.
        paths: Relative to it; at least one.
        columns: To read, of the types that the files have.
        limits: Of scans.
    """
    step = limits.files if len(paths) <= limits.files * limits.scans else len(paths)
    reader = spark.read.schema(ddl(columns)).options(**_READER)
    locations = [_PATTERN.sub(r"\\\g<0>", f"{root}/{path}") for path in paths]
    scans = [reader.parquet(*locations[i : i + step]) for i in range(0, len(paths), step)]
    return reduce(lambda a, b: a.union(b), scans)


def _for_python(files: Sequence[SegmentFile], schemas: Iterable[Columns], limits: ScanLimits) -> list[SegmentFile]:
    """The files that Python reads: small ones, and those with columns that are renamed, filled, or alike but for case.

    Spark's reader refuses names that differ only in case, which logs of version 2 have.
    """
    if any(len({name.lower() for name in columns}) < len(columns) for columns in schemas):
        return list(files)
    renamed = [file for file in files if file.renamed or file.filled]
    small = [file for file in files if file.rows < limits.small_rows and not file.renamed and not file.filled]
    return renamed + (small if len(small) >= limits.many_small else [])


def _python(
    spark: SparkSession, log: StorePlace, segments: Sequence[SegmentFile], columns: Columns, start: int, end: int
) -> DataFrame:
    files = [tuple(run) for run in runs(segments, PARTITION_BYTES)]
    wanted = dict(columns) or {"_offset": META_COLUMNS["_offset"]}  # a batch without columns would have no rows

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.to_pydict()["id"]:
                yield from read_segments(log.store, files[number], wanted, start, end)

    frame = spark.range(0, len(files), 1, len(files)).mapInArrow(read, ddl(wanted))
    return frame if columns else frame.select()


def _native(
    spark: SparkSession,
    root: str,
    paths: Sequence[str],
    stored: Columns,
    columns: Columns,
    bounds: tuple[int, int] | None,
    limits: ScanLimits,
) -> DataFrame:
    from pyspark.sql import functions as F

    wanted = {name: stored[name] for name in columns if name in stored}
    needed = dict(wanted)
    if bounds or not needed:
        needed.setdefault("_offset", META_COLUMNS["_offset"])
    frame = parquet_files(spark, root, paths, needed, limits)
    if bounds:
        frame = frame.where((F.col("_offset") >= bounds[0]) & (F.col("_offset") < bounds[1]))
    if needed == columns:
        # As the files have them: a projection that says so is a call to the JVM for each column, three times over.
        return frame
    return frame.select(
        *(
            (F.col(quoted(name)) if name in wanted else F.lit(None)).cast(sql_type(spark_type)).alias(name)
            for name, spark_type in columns.items()
        )
    )


def _text(value: int | str | datetime | None, default: str) -> str:
    """A place in the log as the text of an option."""
    if value is None:
        return default
    return value.isoformat() if isinstance(value, datetime) else str(value)
