"""The way ``sql``: the session's own engine, Delta Lake for Spark, merges a part into a table and commits it.

It is for tables with deletion vectors, column mapping or a feature that delta-rs does not write, and for whoever
requests it. The events are reduced by the same code as in the other ways. The engine joins them with the table.

The engine's commit holds the position in its user metadata. If two runs commit on the same version, a second
transaction identifier makes one of them fail: Delta commits each version of an application once.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from tidemark.protocol.errors import SparkError, TidemarkError
from tidemark.spark_sink.changes.merge_source import KEPT, SOURCE_META, stream_merge_rows
from tidemark.spark_sink.changes.net_changes import DELETED
from tidemark.spark_sink.changes.row_events import row_events_frame
from tidemark.spark_sink.formats.delta_table import PositionedTable
from tidemark.spark_sink.formats.log_position import position_at
from tidemark.spark_sink.formats.positions import Position
from tidemark.spark_sink.parts.apply import Outcome
from tidemark.spark_sink.parts.part_plan import Part
from tidemark.spark_sink.parts.spark_jobs import SparkJobs
from tidemark.spark_sink.run.report import Cost
from tidemark.spark_sink.source.arrow_handover import packed
from tidemark.spark_sink.source.followed_log import FollowedLog
from tidemark.spark_sink.source.native_scan import segments_frame
from tidemark.spark_sink.spark.failures import spark_exceptions, tidemark_error
from tidemark.spark_sink.spark.file_systems import DATABRICKS, engine_url
from tidemark.spark_sink.tables.column_types import Columns, ddl, quoted
from tidemark.spark_sink.tables.table_columns import EVENT_META

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
_CONCURRENT = re.compile(r"DELTA_(CONCURRENT|METADATA_CHANGED|PROTOCOL_CHANGED)|Concurrent\w+Exception")
"""Delta's errors after a conflict with another commit."""


class EngineMerge:
    """Applies parts by MERGE."""

    def __init__(self, jobs: SparkJobs, log: FollowedLog) -> None:
        self._jobs = jobs
        self._log = log

    def apply(self, part: Part, table: PositionedTable) -> Outcome:
        """Merges a part and commits it, with its position.

        Returns:
            The outcome. Its error is ``TM-SPK-022`` if the session has no such engine, ``TM-SPK-018`` if only the
            engine can write the table, ``TM-SPK-010`` if another process committed first.
        """
        began = time.monotonic()
        try:
            self._check(part)
            self._add_columns(part, table)
            self._merge(part, table)
        except TidemarkError as error:
            return Outcome(error=error)
        except spark_exceptions() as failure:
            return Outcome(error=_meaning(failure, table))
        written = table.bytes_written()
        return Outcome(cost=Cost(time.monotonic() - began, 0.0, sum(s.size for s in part.segments), written))

    def compact(self, table: PositionedTable) -> None:
        """Lets the engine join small files and purge deleted rows. Rows and position do not change.

        Raises:
            SparkError: ``TM-SPK-010`` when another process committed first, ``TM-SPK-013``.
        """
        try:
            with self._committing(table, table.standing):
                self._jobs.spark.sql(f"OPTIMIZE {self._name(table)}").collect()
        except spark_exceptions() as failure:
            raise _meaning(failure, table) from None
        table.refresh()

    def _check(self, part: Part) -> None:
        """Makes sure that the session has the engine. Without it Spark would log a stack trace."""
        spark = self._jobs.spark
        extensions = str(spark.conf.get("spark.sql.extensions", None) or "")
        if _EXTENSION in extensions or spark.conf.get(DATABRICKS, None) is not None:
            return
        if part.state.engine_only is not None:
            raise part.state.engine_only
        version = ".".join(spark.version.split(".")[:2])
        raise SparkError(
            "TM-SPK-022",
            f"the session's spark.sql.extensions do not name {_EXTENSION}",
            remedy=(
                f"Give the session Delta Lake for Spark {version}: --conf spark.jars.packages="
                f"io.delta:delta-spark_{version}_2.13:VERSION --conf spark.sql.extensions={_EXTENSION} --conf "
                "spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog. Or leave --way sql "
                "out: the other ways need no engine."
            ),
        )

    def _add_columns(self, part: Part, table: PositionedTable) -> None:
        """Adds the columns that this part is the first to have, where no one else could."""
        there = table.columns
        if added := {name: type_ for name, type_ in part.state.columns.items() if name not in there}:
            with self._committing(table, table.standing):
                self._jobs.spark.sql(f"ALTER TABLE {self._name(table)} ADD COLUMNS ({ddl(added)})").collect()
            table.refresh()

    def _merge(self, part: Part, table: PositionedTable) -> None:
        before = table.version
        position = position_at(self._log, part.target.collection, part.shown, part.end)
        spark = self._jobs.spark
        source = f"tidemark_changes_{uuid.uuid4().hex}"
        state = part.state
        if state.key:
            self._net_changes(part).createOrReplaceTempView(source)
            statement = merge_of_changes(
                self._name(table), source, state.key, state.columns, truncated=part.truncated, floor=state.floor
            )
        else:
            events = segments_frame(spark, self._log, part.segments, state.columns, part.start, part.end)
            events.createOrReplaceTempView(source)
            statement = merge_of_events(self._name(table), source, state.columns, part.start)
        try:
            with self._committing(table, position):
                spark.sql(statement).collect()
        finally:
            spark.catalog.dropTempView(source)
        table.refresh()
        if table.version == before:
            # Nothing came of the events, of which Delta makes no commit.
            with self._committing(table, position):
                spark.sql(f"ALTER TABLE {self._name(table)} SET TBLPROPERTIES ('tidemark.at' = '{part.end}')").collect()
            table.refresh()
        if table.standing != position:
            # Delta left the statement out: another process has committed that version of the application.
            raise SparkError("TM-SPK-010", f"{table.place}: another process committed after version {before}")

    def _net_changes(self, part: Part) -> DataFrame:
        state = part.state
        columns = dict(state.columns)
        keys = [quoted(name) for name in state.key]
        events = row_events_frame(
            self._jobs.spark, self._log, part.segments, {**columns, **EVENT_META}, part.start, part.end, state.lineage
        )
        ordered = events.repartition(*keys).sortWithinPartitions(*keys, "_offset")
        reduced = partial(stream_merge_rows, key=state.key, columns=columns)
        return packed(ordered).mapInArrow(reduced, ddl({**columns, **SOURCE_META}))

    def _name(self, table: PositionedTable) -> str:
        """A table by its place, as SQL has it. Raises what ``engine_url`` does."""
        return f"delta.{quoted(engine_url(self._jobs.spark, table.place.text))}"

    def _committing(self, table: PositionedTable, position: Position) -> AbstractContextManager[None]:
        """Surrounds one statement, whose commit says the position, and is the next one of the table or none."""
        return _set(self._jobs.spark, table.engine_settings(position))


def merge_of_changes(
    table: str, source: str, key: Sequence[str], columns: Columns, *, truncated: bool = False, floor: int = 0
) -> str:
    """The statement that brings a table of current rows up to date.

    Args:
        table: As SQL names it.
        source: Name of a view of net changes.
        key: Names of the key's columns.
        columns: Of the table.
        truncated: Rows without a change are deleted, and nothing is taken from the others.
        floor: The same for rows with a smaller ``_offset``.
    """
    same = " AND ".join(f"t.{quoted(name)} <=> s.{quoted(name)}" for name in key)
    updates = ", ".join(
        f"t.{quoted(name)} = {_value(name, kept=name not in key and not truncated, floor=floor)}" for name in columns
    )
    names = ", ".join(map(quoted, columns))
    values = ", ".join(f"s.{quoted(name)}" for name in columns)
    clauses = [
        f"MERGE INTO {table} AS t USING {source} AS s ON {same}",
        f"WHEN MATCHED AND s.{DELETED} THEN DELETE",
        f"WHEN MATCHED THEN UPDATE SET {updates}",
        f"WHEN NOT MATCHED AND NOT s.{DELETED} THEN INSERT ({names}) VALUES ({values})",
    ]
    if truncated:
        clauses.append("WHEN NOT MATCHED BY SOURCE THEN DELETE")
    elif floor:
        clauses.append(f"WHEN NOT MATCHED BY SOURCE AND t._offset < {floor} THEN DELETE")
    return "\n".join(clauses)


def merge_of_events(table: str, source: str, columns: Columns, start: int) -> str:
    """The statement that appends events to a table of all of them, each once.

    Args:
        table: As SQL names it.
        source: Name of a view of events.
        columns: Of the table.
        start: No event of the source has a smaller offset.
    """
    names = ", ".join(map(quoted, columns))
    values = ", ".join(f"s.{quoted(name)}" for name in columns)
    return (
        f"MERGE INTO {table} AS t USING {source} AS s ON t._offset = s._offset AND t._offset >= {start}\n"
        f"WHEN NOT MATCHED THEN INSERT ({names}) VALUES ({values})"
    )


def _value(name: str, *, kept: bool, floor: int) -> str:
    column = quoted(name)
    if not kept:
        return f"s.{column}"
    text = name.replace("\\", "\\\\").replace("'", "\\'")
    counts = f" AND t._offset >= {floor}" if floor else ""
    return f"CASE WHEN array_contains(s.{KEPT}, '{text}'){counts} THEN t.{column} ELSE s.{column} END"


def _meaning(failure: Exception, table: PositionedTable) -> TidemarkError:
    if _CONCURRENT.search(str(failure)):
        return SparkError("TM-SPK-010", f"{table.place}: another process committed after version {table.version}")
    return tidemark_error(failure)


@contextmanager
def _set(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Settings for one statement. What others write with the session must not carry them."""
    before: dict[str, str | None] = {name: spark.conf.get(name, None) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)
