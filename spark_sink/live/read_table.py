"""The live view as a DataFrame. Spark reads the base natively, so columns are pruned there and filters reach it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING

from tidemark.spark_sink.changes.row_events import row_events_frame
from tidemark.spark_sink.live.base_reader import BASE_BYTES, BoundedFile, rows_without
from tidemark.spark_sink.live.net_rows import stream_net_rows
from tidemark.spark_sink.live.table_view import AsOf, TableView, common_end, end_of, table_view
from tidemark.spark_sink.source.arrow_handover import packed
from tidemark.spark_sink.source.followed_log import FollowedLog
from tidemark.spark_sink.source.log_path import log_and_warehouse
from tidemark.spark_sink.source.native_scan import parquet_files
from tidemark.spark_sink.source.runs import runs
from tidemark.spark_sink.spark.file_systems import engine_url, native_url
from tidemark.spark_sink.tables.column_types import Columns, arrow_schema, ddl, fill_literal, quoted, sql_type
from tidemark.spark_sink.tables.store_place import StorePlace
from tidemark.spark_sink.tables.table_columns import EVENT_META

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

_KEY = "__tidemark_key_"


def read_table(
    spark: SparkSession, path_or_file: Path | str, table: str, as_of: AsOf = None, warehouse: Path | str | None = None
) -> DataFrame:
    """The state of a table as of the log's last commit, or as of an offset or a time.

    The kept ``current`` table, where there is one, with the rest of the log laid over it. Columns are the table's own,
    and ``_offset`` and ``_commit_ts`` of the row's last change.

    The DataFrame is a plan over files that never change: collected again, it gives the same rows. They stay until
    ``materialize`` has folded the log further and vacuumed what it replaced, which it does not do to files that were
    in use a short while ago; make a new DataFrame for each report, and do not keep one for days.

    Args:
        spark: A session, classic or Connect. A Connect client has to reach log and warehouse.
        path_or_file: The change log's directory or URL, or a capture file that names log and warehouse.
        table: ``schema.table``.
        as_of: An offset: events below it count, and no others. Or a time (UTC when it has no zone), text in ISO 8601 or
            a ``datetime``: what had reached the log before then.
        warehouse: Where tables are kept; by default that of the capture file. Without one the log alone is read.

    Raises:
        SparkError: ``TM-SPK-003`` when ``as_of`` is neither, or a time to come, ``TM-SPK-004`` for an unknown table,
            ``TM-SPK-005`` for a column whose type changed beyond casting, ``TM-SPK-006`` for an offset beyond the end
            of the log, ``TM-SPK-007`` for a table without a key, ``TM-SPK-009`` for a kept table of another log,
            ``TM-SPK-011`` for events without the key, ``TM-SPK-012`` where the key changed, ``TM-SPK-015`` for a table
            that is damaged.
        ChangeLogError: When there is no log, or it is damaged.
        UsageError: For a capture file with mistakes.
    """
    return read_tables(spark, path_or_file, [table], as_of, warehouse)[table]


def read_tables(
    spark: SparkSession,
    path_or_file: Path | str,
    tables: Iterable[str],
    as_of: AsOf = None,
    warehouse: Path | str | None = None,
) -> dict[str, DataFrame]:
    """Several tables as of one common offset, by the names that were asked for. All else as ``read_table``.

    While one of them is being read again from the start with columns or a key that its old rows do not fit, its rows
    are those of before. All tables are then as of the last commit before its later events.
    """
    where, place = log_and_warehouse(path_or_file)
    if warehouse is not None:
        place = StorePlace.of(warehouse, where.settings)
    log = FollowedLog(where)
    asked = list(dict.fromkeys(tables))
    end = end_of(log, as_of)
    if len(asked) > 1:
        end = common_end(log, asked, end)
    return {table: live_frame(spark, table_view(log, table, end, place)) for table in asked}


def live_frame(spark: SparkSession, view: TableView) -> DataFrame:
    """A view as a plan."""
    view.check_files()
    overlay = view.overlay
    frames = [_base(spark, view, overlay.untouched)] if overlay.untouched or not view.segments else []
    if overlay.touched:
        keys = _changed_keys(spark, view)
        frames.append(_base(spark, view, overlay.touched).join(keys, _same_key(view), "left_anti"))
    if view.segments:
        frames.append(_tail_rows(spark, view))
    return reduce(lambda a, b: a.union(b), frames)


def _base(spark: SparkSession, view: TableView, files: Sequence[BoundedFile]) -> DataFrame:
    """Rows of some of the base's files."""
    if not files:
        return spark.createDataFrame([], ddl(view.columns))
    if view.base.version is not None:
        return _counted(_by_engine(spark, view), view)
    names = view.base.places.stored(view.base.columns)
    stored = {names[name]: view.base.columns[names[name]] for name in view.columns if name in names}
    assert view.base.table is not None, "files have a table"
    url = native_url(spark, view.base.table.text)
    if url is None:
        return _by_python(spark, view, files)
    frame = parquet_files(spark, url, [file.path for file in files], stored)
    return _counted(frame if stored == view.columns else _as_view(frame, view, stored), view)


def _by_python(spark: SparkSession, view: TableView, files: Sequence[BoundedFile]) -> DataFrame:
    """Rows of some of the base's files that count, read by Python workers."""
    columns, work = view.columns, [view.base.read(run) for run in runs(files, BASE_BYTES)]

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.to_pydict()["id"]:
                yield from rows_without(work[number], columns, None)

    return spark.range(0, len(work), 1, len(work)).mapInArrow(read, ddl(columns))


def _counted(rows: DataFrame, view: TableView) -> DataFrame:
    """The rows of the base that count."""
    from pyspark.sql import functions as F

    return rows.where(F.col("_offset") >= view.base.floor) if view.base.floor else rows


def _as_view(frame: DataFrame, view: TableView, there: Collection[str]) -> DataFrame:
    """Rows of the base with the columns of the view.

    Args:
        frame: The rows.
        view: The view.
        there: The names of the frame's columns.
    """
    from pyspark.sql import functions as F

    names, fills = view.base.places.stored(view.base.columns), dict(view.base.places.filled)

    def column(name: str, type_: str) -> Column:
        if names.get(name) in there:
            return F.col(quoted(names[name]))
        return F.expr(fill_literal(fills[name], type_)) if name in fills else F.lit(None)

    return frame.select(
        *(column(name, type_).cast(sql_type(type_)).alias(name) for name, type_ in view.columns.items())
    )


def _by_engine(spark: SparkSession, view: TableView) -> DataFrame:
    """Rows of a base that is more than its Parquet files, read by Delta Lake for Spark."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    assert view.base.table is not None, "a version has a table"
    reader = spark.read.format("delta").option("versionAsOf", str(view.base.version))
    try:
        frame = reader.load(engine_url(spark, view.base.table.text))
        there = set(frame.columns)
    except (Py4JJavaError, PySparkException) as error:
        if "DATA_SOURCE_NOT_FOUND" not in str(error) or view.base.error is None:
            raise
        raise view.base.error from error
    return _as_view(frame, view, there)


def _tail(spark: SparkSession, view: TableView, columns: Columns) -> DataFrame:
    """The tail's events."""
    return row_events_frame(spark, view.log, view.segments, columns, view.start, view.end, view.lineage)


def _changed_keys(spark: SparkSession, view: TableView) -> DataFrame:
    """The keys of the tail, renamed, so that they can be told from the base's."""
    from pyspark.sql import functions as F

    if view.has_small_tail:
        return F.broadcast(_frame_of_keys(spark, view, view.tail_keys.changed))
    return _renamed(view, _tail(spark, view, view.key_columns))


def _tail_rows(spark: SparkSession, view: TableView) -> DataFrame:
    """The rows that the tail leaves."""
    if view.has_tiny_tail and not view.overlay.inherited:
        return spark.createDataFrame(view.tail_rows(), ddl(view.columns))
    columns = {**view.columns, **EVENT_META}
    events = _tail(spark, view, columns)
    old = _rows_to_inherit_from(spark, view)
    if old is not None:
        events = events.union(old)
    keys = [quoted(name) for name in view.key]
    if not view.has_small_tail:
        events = events.repartition(*keys)
    else:
        # One task for all of them; but not one for the base's files too.
        events = events.repartition(1) if old is not None else events.coalesce(1)
    reduce_events = partial(stream_net_rows, key=view.key, columns=dict(view.columns))
    return packed(events.sortWithinPartitions(*keys, "_offset")).mapInArrow(reduce_events, ddl(view.columns))


def _rows_to_inherit_from(spark: SparkSession, view: TableView) -> DataFrame | None:
    """The base's rows of keys whose changes did not carry every column, as events."""
    from pyspark.sql import functions as F

    if not view.overlay.inherited:
        return None
    if view.has_small_tail:
        keys = F.broadcast(_frame_of_keys(spark, view, view.tail_keys.lacking))
    else:
        columns = {**view.key_columns, "_unchanged": EVENT_META["_unchanged"]}
        events = _tail(spark, view, columns)
        keys = _renamed(view, events.where(F.size("_unchanged") > 0))
    rows = _base(spark, view, view.overlay.inherited).join(keys, _same_key(view), "left_semi")
    unchanged = F.lit(None).cast(EVENT_META["_unchanged"])
    return rows.select(*map(quoted, view.columns), F.lit("c").alias("_op"), unchanged.alias("_unchanged"))


def _frame_of_keys(spark: SparkSession, view: TableView, keys: pa.Table) -> DataFrame:
    return _renamed(view, spark.createDataFrame(keys.cast(arrow_schema(view.key_columns)), ddl(view.key_columns)))


def _renamed(view: TableView, keys: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return keys.select(*(F.col(quoted(name)).alias(f"{_KEY}{i}") for i, name in enumerate(view.key)))


def _same_key(view: TableView) -> Column:
    """Null-safe, since a key may have nulls in it where no primary key forbids them."""
    from pyspark.sql import functions as F

    equal = [F.col(quoted(name)).eqNullSafe(F.col(f"{_KEY}{i}")) for i, name in enumerate(view.key)]
    return reduce(lambda a, b: a & b, equal)
