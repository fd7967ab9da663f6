"""The job that keeps tables from a change log, as a capture file says."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tidemark.protocol.capture_file import CaptureFile, SparkEntry, read_capture_file
from tidemark.protocol.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidemark.spark_sink.run.progress import Progress
    from tidemark.spark_sink.run.report import MaterializeReport
    from tidemark.spark_sink.run.settings import KeepSettings, Way
    from tidemark.spark_sink.tables.store_place import StorePlace


def materialize(
    file: str | Path,
    *,
    spark: SparkSession | None = None,
    available_now: bool = True,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    tables: Iterable[str] = (),
    way: Way | None = None,
    rebuild: Iterable[str] = (),
    retry: Iterable[str] = (),
    progress: Progress | None = None,
    stop: threading.Event | None = None,
) -> MaterializeReport:
    """Brings the tables of a capture file's ``spark`` entry up to date with its change log.

    Args:
        file: The capture file.
        spark: The session to work with, classic or Connect. By default the active one, else one that is made here and
            ends with the call. None is made when there is nothing to do.
        available_now: Apply all that the log holds, then end. Otherwise follow the log by the fold rule until ``stop``.
        master: Spark's master; wins over the file's.
        conf: Spark's settings by name; they win over the file's.
        tables: Patterns of ``schema.table``: these alone. All when empty.
        way: Forces how parts are applied.
        rebuild: Tables (``schema.table``) to build again from the log, from nothing.
        retry: Tables (``schema.table``) set aside that are to be tried again.
        progress: Told of plans and of what is applied.
        stop: Set it to end the run after the part at hand.

    Returns:
        Its ``tables`` has for each table and kind: ``table``, ``kind``, ``path``, ``way``, ``events``, ``rows``,
        ``position``, ``error``.

    Raises:
        UsageError: ``TM-CFG-…`` for a file that is wrong or has no ``spark`` entry, or a table that is not captured.
        ChangeLogError: When there is no log, or a file of it is missing or damaged.
        SparkError: ``TM-SPK-…``: docs/errors.md has them. Tables keep what was applied before.
    """
    read = read_capture_file(Path(file))
    entry = spark_entry(read, file)
    settings = keep_settings(read, entry, available_now, tuple(tables), way, tuple(rebuild), tuple(retry))
    # Here, and not above: a command line or a file that is wrong is told of before Spark and Arrow are imported.
    from tidemark.spark_sink.pipeline.expected_work import expects_work
    from tidemark.spark_sink.pipeline.named_tables import check_named
    from tidemark.spark_sink.source.followed_log import FollowedLog
    from tidemark.spark_sink.spark.opening import OpeningSession
    from tidemark.spark_sink.spark.requirements import check_packages
    from tidemark.spark_sink.spark.spark_session import active_session

    check_packages()
    check_named(settings, FollowedLog(settings.log), [one.table for one in read.tables or () if not one.is_pattern])

    def opened() -> tuple[SparkSession, bool]:
        from tidemark.spark_sink.spark.executors import checked_session

        if spark is not None:
            return spark, False
        in_objects = None in (settings.log.directory, settings.warehouse.directory)
        return checked_session(master or entry.master, {**entry.conf, **(conf or {})}, in_objects=in_objects)

    with OpeningSession(opened) as opening:
        # Which session is active depends on the thread. To look for one also imports PySpark, in this thread alone.
        if spark is None and expects_work(settings) and active_session() is None:
            opening.begin()
        from tidemark.spark_sink.pipeline.keep import keep

        return keep(settings, opening.session, progress, stop)


def spark_entry(read: CaptureFile, file: str | Path) -> SparkEntry:
    """The ``spark`` entry of a capture file.

    Raises:
        UsageError: ``TM-CFG-002`` when it has none.
    """
    if read.spark is None:
        raise UsageError(
            "TM-CFG-002",
            f"{file} has no spark entry: it says which tables to keep, and where",
            remedy="Add for example:   spark: {warehouse: ./lake, tables: {'*': current}}",
        )
    return read.spark


def keep_settings(
    read: CaptureFile,
    entry: SparkEntry,
    available_now: bool,
    only: tuple[str, ...],
    way: Way | None,
    rebuild: tuple[str, ...],
    retry: tuple[str, ...],
) -> KeepSettings:
    """The settings of a run: those of the file, and those of the call."""
    from tidemark.spark_sink.run.settings import FoldRule, KeepSettings
    from tidemark.spark_sink.source.log_path import places_of
    from tidemark.spark_sink.tables.kept_tables import KeepOptions, KeepRules

    log, warehouse = places_of(read)
    assert warehouse is not None, "the file has the entry"
    return KeepSettings(
        log=log,
        warehouse=warehouse,
        rules=KeepRules(
            {
                pattern: {
                    kind: KeepOptions(options.on_schema_change or entry.on_schema_change, options.show or entry.show)
                    for kind, options in kinds.items()
                }
                for pattern, kinds in entry.tables.items()
            }
        ),
        available_now=available_now,
        fold=FoldRule(entry.fold.share, entry.fold.max_staleness, entry.trigger),
        way=way,
        only=only,
        rebuild=rebuild,
        retry=retry,
        consumer=entry.consumer or _consumer_of(warehouse),
    )


def _consumer_of(warehouse: StorePlace) -> str:
    """A name that people recognise. No other warehouse of this machine, or in a store, has it."""
    place = warehouse.text if warehouse.directory is None else str(warehouse.directory.absolute())
    return f"materialize-{warehouse.name}-{hashlib.sha256(place.encode()).hexdigest()[:6]}"
