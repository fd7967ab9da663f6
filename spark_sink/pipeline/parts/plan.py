"""Plans a part: what it reads, which of the table's files it may touch, and which way it is applied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from protocol.changelog import Segment
from protocol.errors import SparkError
from spark_sink.changes.sources import SourceGroup
from spark_sink.formats.data_files import DataFile, KeyBounds
from spark_sink.formats.file_sizes import bytes_for
from spark_sink.pipeline.parts.ranges import Sources, file_groups, placed_types, possibly_hit, sources
from spark_sink.pipeline.report import PlannedPart
from spark_sink.pipeline.settings import Way
from spark_sink.tables.column_types import Columns
from spark_sink.tables.kept_tables import Target

TASK_BYTES = 32 * 1024 * 1024
"""Events, uncompressed, that one task takes into memory and applies in a second or so."""

TASK_FILES = 64 * 1024 * 1024
"""The most bytes of the table's files that one task rewrites, unless there are at most two files."""


@dataclass(frozen=True, slots=True)
class TableState:
    """A table as it is when a part is planned.

    Attributes:
        columns: Of the table, once it has been fitted to the part.
        key: Names of the key's columns; empty for a table of all events.
        files: Its files and their bounds.
        position: All events below it are applied.
        size: Bytes of all files.
        engine_only: Says why no one but an engine for the format can write it; None where executors can. Then ``files``
            is empty.
    """

    columns: Columns
    key: tuple[str, ...]
    files: Sequence[tuple[DataFile, KeyBounds]]
    position: int
    size: int
    engine_only: SparkError | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """One table's share of a batch.

    Attributes:
        target: Which table.
        state: Of the table.
        segments: With its events, in offset order; those before a TRUNCATE are left out.
        start: The smallest offset that counts: where the table is, or after the last TRUNCATE.
        end: Where the table is afterwards. The end of a commit of the log.
        truncated: The table is emptied first.
        sources: What events are merged with.
        way: How it is applied.
        file_bytes: Size of the files that are written.
        described: For people.
    """

    target: Target
    state: TableState
    segments: tuple[Segment, ...]
    start: int
    end: int
    truncated: bool
    sources: Sources
    way: Way
    file_bytes: int
    described: PlannedPart

    @property
    def types(self) -> list[str]:
        """Of the key's columns."""
        return placed_types(self.state.key, self.state.columns)


def plan_part(target: Target, state: TableState, segments: Sequence[Segment], end: int, forced: Way | None) -> Part:
    """Plans what a table lacks.

    Args:
        target: Which table.
        state: Of the table.
        segments: All with events of the table from its position to ``end``.
        end: The end of a commit of the log.
        forced: The way to take; chosen when None.
    """
    truncates = [segment.truncated_at for segment in segments if segment.truncated_at is not None]
    truncated = bool(truncates) and bool(state.key)
    start = max(state.position, truncates[-1] + 1) if truncated else state.position
    counted = tuple(segment for segment in segments if segment.last_offset >= start)
    files = [] if truncated else state.files
    types = placed_types(state.key, state.columns)
    size = sum(segment.uncompressed for segment in counted)
    way, reason, hit = _way(state, counted, files, types, size, forced)
    # One task alone takes backfilled rows as events: it has them in memory anyway.
    found = sources(files, counted if way == "rewrite" else (), types, start) if state.key else Sources((), {})
    return Part(
        target=target,
        state=state,
        segments=counted,
        start=start,
        end=end,
        truncated=truncated,
        sources=found,
        way=way,
        file_bytes=bytes_for(counted, state.size + sum(segment.size for segment in counted), keyed=bool(state.key)),
        described=PlannedPart(
            table=target.table,
            kind=target.kind,
            way=way,
            start=state.position,
            end=end,
            events=sum(segment.rows for segment in segments),
            bytes=size,
            files=hit,
            reason=reason,
        ),
    )


def _way(
    state: TableState,
    segments: Sequence[Segment],
    files: Sequence[tuple[DataFile, KeyBounds]],
    types: Sequence[str],
    size: int,
    forced: Way | None,
) -> tuple[Way, str, int]:
    """The way, why, and how many files it may rewrite."""
    groups: list[SourceGroup] = file_groups(files) if state.key else []
    hit = possibly_hit(groups, segments, types) if groups else []
    count = sum(len(group.sources) for group in hit)
    if state.engine_only:
        return "sql", "more data than its Parquet files", count
    if forced:
        return forced, "requested", count
    if size > TASK_BYTES:
        return "rewrite", "more events than one task should hold", count
    if count > 2 and sum(group.size for group in hit) > TASK_FILES:
        return "rewrite", "more files than one task should write", count
    return "task", "small", count
