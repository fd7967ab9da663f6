"""Segments as a DataFrame of Spark's own Parquet reader, which prunes columns and pushes filters down."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

from protocol.changelog import Segment
from protocol.changelog.models import META_COLUMNS
from protocol.errors import ChangeLogError
from spark_sink.source.followed_log import FollowedLog
from spark_sink.tables.column_types import Columns, arrow_schema, ddl, quoted
from spark_sink.tables.table_columns import check_readable, event_columns, own_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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


def segments_frame(
    spark: SparkSession, log: FollowedLog, segments: Sequence[Segment], columns: Columns, start: int, end: int
) -> DataFrame:
    """The events of segments with offsets in ``[start, end)``, in no particular order.

    Nothing is read here but the segments' sizes. A column that a segment does not have is null; one of a narrower type
    is cast. Works on classic Spark and on Connect, whose client has to reach the log too.

    Args:
        spark: The session, of any time zone.
        log: That the segments are of.
        segments: All of them are read, and nothing else.
        columns: Of the result, in order: the table's own, and any of ``META_COLUMNS``.
        start: Smallest offset.
        end: One past the largest.

    Raises:
        SparkError: ``TM-SPK-003`` for a type that no log has, ``TM-SPK-005`` when a segment's schema cannot be read as
            ``columns``.
        ChangeLogError: ``TM-LOG-009`` for a segment that is missing, or of another size than the log says.
    """
    arrow_schema(columns)
    root = log.root.absolute()
    groups: dict[tuple[str, bool], list[Path]] = {}
    for segment in segments:
        whole = start <= segment.first_offset and segment.last_offset < end
        groups.setdefault((segment.fingerprint, whole), []).append(_checked(root, segment))
    frames = []
    for (fingerprint, whole), paths in groups.items():
        schema = log.schema(fingerprint)
        check_readable(schema, columns)
        bounds = None if whole else (start, end)
        frames.append(_native(spark, paths, event_columns(own_columns(schema)), columns, bounds))
    return reduce(lambda a, b: a.union(b), frames) if frames else spark.createDataFrame([], ddl(columns))


def parquet_files(spark: SparkSession, paths: Sequence[Path], columns: Columns) -> DataFrame:
    """Files as they lie. Nothing is inferred: no footer is read here, and a column that a file does not have is null.

    Args:
        spark: The session.
        paths: Absolute.
        columns: To read, with the types that the files have.
    """
    return spark.read.schema(ddl(columns)).options(**_READER).parquet(*map(_location, paths))


def _checked(root: Path, segment: Segment) -> Path:
    """Where a segment is. That it is there, and whole, is seen from its size; each of its pages has a checksum."""
    path = root / segment.path
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        raise ChangeLogError("TM-LOG-009", f"{path} is missing") from None
    except OSError as error:
        raise ChangeLogError("TM-LOG-011", f"cannot read {path}: {error.strerror or error}") from None
    if size != segment.size:
        raise ChangeLogError("TM-LOG-009", f"{path} is damaged: {size} bytes where the log has {segment.size}")
    return path


def _native(
    spark: SparkSession, paths: Sequence[Path], stored: Columns, columns: Columns, bounds: tuple[int, int] | None
) -> DataFrame:
    from pyspark.sql import functions as F

    wanted = {name: spark_type for name, spark_type in stored.items() if name in columns}
    if bounds or not wanted:
        wanted.setdefault("_offset", META_COLUMNS["_offset"])
    frame = parquet_files(spark, paths, wanted)
    if bounds:
        frame = frame.where((F.col("_offset") >= bounds[0]) & (F.col("_offset") < bounds[1]))
    return frame.select(
        *(
            (F.col(quoted(name)) if name in wanted else F.lit(None)).cast(spark_type).alias(name)
            for name, spark_type in columns.items()
        )
    )


def _location(path: Path) -> str:
    """A path as Spark takes it. Without a scheme, a cluster would look in its default file system."""
    return "file:" + _PATTERN.sub(r"\\\g<0>", str(path))
