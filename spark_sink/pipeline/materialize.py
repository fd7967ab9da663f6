"""Keeps Delta tables from a change log: their history, and the current row of every key.

One Structured Streaming query follows the log. Its checkpoint only says where to go on reading: what is in a table is
decided by the log offset in the table's own last commit (see ``delta_table``), so a lost checkpoint, a batch that comes
twice or a kill at any moment costs reading, not data.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from protocol.errors import SparkError
from spark_sink.requirements import check_packages
from spark_sink.session import open_session
from spark_sink.source.followed_log import FollowedLog, Limits
from spark_sink.source.options import EVENTS_PER_BATCH
from spark_sink.tables.kept_tables import KeepRules

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from spark_sink.pipeline.pipeline import Applied, Pipeline

logger = logging.getLogger(__name__)

BATCH = Limits(events=EVENTS_PER_BATCH, size=256 * 1024 * 1024)
"""What a micro-batch holds at most, in events and in bytes of segments: it is in memory while it is applied."""

_POLL_SECONDS = 1
_CHECKPOINTS = "_tidemark"


@dataclass(frozen=True, slots=True)
class KeptTable:
    """One kept table after a run.

    Attributes:
        table: ``schema.table`` in the source.
        kind: ``current`` or ``history``.
        path: Of the Delta table.
        events: Applied by this run.
        rows: In the table.
        position: All events below this offset are applied.
    """

    table: str
    kind: str
    path: Path
    events: int
    rows: int
    position: int


@dataclass(frozen=True, slots=True)
class MaterializeReport:
    """What a run did.

    Attributes:
        tables: By name and kind.
        end_offset: The log's end as the run saw it last.
        seconds: From the call to the end, a session's start included.
    """

    tables: tuple[KeptTable, ...]
    end_offset: int
    seconds: float

    @property
    def events(self) -> int:
        """Applied by this run, counted once for each kept table."""
        return sum(table.events for table in self.tables)


def materialize(
    log: Path,
    warehouse: Path,
    tables: KeepRules | Mapping[str, str | Sequence[str]],
    table_format: str = "delta",
    available_now: bool = True,
    checkpoint: Path | None = None,
    spark: SparkSession | None = None,
    *,
    batch: Limits = BATCH,
    progress: Callable[[Applied], None] | None = None,
    stop: threading.Event | None = None,
) -> MaterializeReport:
    """Brings tables up to date with a change log, once or for as long as it is let.

    Tables are at ``warehouse/<schema>/<table>/<kind>``. ``history`` has the source's columns and all meta columns;
    ``current`` has the source's columns, ``_offset`` and ``_commit_ts``. Columns that the source adds are added;
    those that it drops stay, and are null from then on.

    Args:
        log: Directory of the change log.
        warehouse: Directory of the tables.
        tables: Patterns of ``schema.table``, each with a kind (``current``, ``history``) or several, as in the capture
            file's ``spark.tables``. The most specific pattern wins.
        table_format: ``delta``.
        available_now: Stop when all that is in the log now is applied; else follow the log until ``stop``.
        checkpoint: Directory of the query's checkpoint; by default ``warehouse/_tidemark/<log id>``.
        spark: A classic session. By default the active one, or a local one that ends with the call.
        batch: What a micro-batch holds at most; a single commit may be more.
        progress: Called, from several threads, when a table has taken a batch; logged by default.
        stop: Set it to end a run that follows the log, after the batch at hand.

    Raises:
        ChangeLogError: When there is no log, or a file of it is missing or damaged. It names the file.
        SparkError: ``TM-SPK-…``: see ``protocol.error_codes``. Tables keep what was applied before.
    """
    began = time.monotonic()
    rules = tables if isinstance(tables, KeepRules) else KeepRules(tables)
    if table_format != "delta":
        raise SparkError("TM-SPK-008", f"tables in the format {table_format} are not in this version; delta is")
    warehouse = warehouse.absolute()
    log_id = FollowedLog(log).header.log_id
    check_packages()
    session, ours = _session(spark)
    try:
        from spark_sink.pipeline.pipeline import Pipeline

        folder = (checkpoint or warehouse / _CHECKPOINTS / log_id).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        pipeline = Pipeline(log.absolute(), warehouse, rules, batch, folder / "memory.json", progress or _log_progress)
        cursor = folder / "cursor"
        pipeline.open(resuming=cursor.exists())
        _run(session, pipeline, cursor, batch, available_now, stop or threading.Event())
        kept = sorted(pipeline.keepers.items(), key=lambda pair: (pair[0].table, pair[0].kind))
        return MaterializeReport(
            tables=tuple(
                KeptTable(
                    target.table,
                    target.kind,
                    keeper.table.path,
                    keeper.events,
                    keeper.table.rows,
                    keeper.table.position,
                )
                for target, keeper in kept
                if keeper.table.exists
            ),
            end_offset=pipeline.log.end(),
            seconds=time.monotonic() - began,
        )
    finally:
        if ours:
            session.stop()


def _session(given: SparkSession | None) -> tuple[SparkSession, bool]:
    session, ours = (given, False) if given else open_session(None, {})
    if ".connect." in type(session).__module__:
        raise SparkError("TM-SPK-014", "the session is one of Spark Connect")
    return session, ours


def _run(
    session: SparkSession, pipeline: Pipeline, cursor: Path, batch: Limits, available_now: bool, stop: threading.Event
) -> None:
    from pyspark.errors import PySparkException, StreamingQueryException

    from spark_sink.pipeline.segment_source import SegmentSource
    from spark_sink.spark_failures import tidemark_error

    session.dataSource.register(SegmentSource)
    segments = session.readStream.format(SegmentSource.name()).option("path", str(pipeline.log.root))
    if batch.events is not None:
        segments = segments.option("maxEventsPerBatch", batch.events)
    if batch.size is not None:
        segments = segments.option("maxBytesPerBatch", batch.size)
    try:
        writer = segments.load().writeStream.foreachBatch(pipeline).option("checkpointLocation", str(cursor))
        writer = writer.trigger(availableNow=True) if available_now else writer.trigger(processingTime="1 second")
        query = writer.start()
        try:
            _wait(query, stop)
        finally:
            query.stop()
    except (StreamingQueryException, PySparkException) as error:
        raise (pipeline.failure or tidemark_error(error)) from error


def _wait(query: StreamingQuery, stop: threading.Event) -> None:
    # In short turns, so that Ctrl-C is heard.
    while not query.awaitTermination(_POLL_SECONDS):
        if stop.is_set():
            return


def _log_progress(applied: Applied) -> None:
    logger.info(
        "%s %s: %d events in %.1f s, now at offset %d",
        applied.target.table,
        applied.target.kind,
        applied.events,
        applied.seconds,
        applied.position,
    )
