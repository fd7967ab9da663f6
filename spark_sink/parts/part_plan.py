"""Plans a part: what it reads, which files of the table it may rewrite, and the way in which it is applied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidemark.protocol.changelog import Segment
from tidemark.protocol.changelog.segment_files import SegmentFile
from tidemark.protocol.changelog.shown import Shown
from tidemark.protocol.errors import SparkError
from tidemark.spark_sink.changes.sources import SourceGroup
from tidemark.spark_sink.formats.data_files import DataFile, KeyBounds
from tidemark.spark_sink.parts.ranges import Sources, file_groups, possibly_hit, sources
from tidemark.spark_sink.run.report import PlannedPart
from tidemark.spark_sink.run.settings import KeepSettings, Way
from tidemark.spark_sink.tables.column_types import Columns
from tidemark.spark_sink.tables.kept_tables import Target
from tidemark.spark_sink.tables.lineage import AS_THEY_ARE, ColumnPlaces, Lineage


@dataclass(frozen=True, slots=True)
class TableState:
    """The state of a table when a part is planned.

    Attributes:
        columns: The table's columns, with those that the part adds.
        key: Names of the key's columns; empty for a table of all events.
        files: The table's files and their bounds.
        position: All events below this offset are applied.
        size: The size of all files in bytes.
        engine_only: The reason why only an engine for the format can write the table; None if executors can. If it is
            set, ``files`` is empty.
        begins: The table has rows of another generation, and the part gives it all rows, and its columns.
        recast: The table has columns of narrower types, or with other names or values, and the part rewrites all files
            with these columns.
        places: Where the table's files have ``columns``.
        lineage: Of the rows' columns; None for a table of all events.
        floor: Rows with a smaller ``_offset`` go with the part: the generation that was laid over them is whole. 0 if
            none are to go.
    """

    columns: Columns
    key: tuple[str, ...]
    files: Sequence[tuple[DataFile, KeyBounds]]
    position: int
    size: int
    engine_only: SparkError | None = None
    begins: bool = False
    recast: bool = False
    places: ColumnPlaces = AS_THEY_ARE
    lineage: Lineage | None = None
    floor: int = 0

    @property
    def key_types(self) -> list[str]:
        """The Spark types of the key's columns."""
        return [self.columns[name] for name in self.key]

    def file(self, segment: Segment) -> SegmentFile:
        """The file of a segment, from which the table's columns are read."""
        return SegmentFile.of(segment) if self.lineage is None else self.lineage.file(segment, self.columns)


@dataclass(frozen=True, slots=True)
class Part:
    """One table's share of a batch.

    Attributes:
        target: The table and its kind.
        state: The table's state.
        segments: The segments with the part's events, in offset order, without those before a TRUNCATE.
        start: The smallest offset that counts: the table's position, or the offset after the last TRUNCATE.
        end: The table's position after the part: the end of a commit of the log.
        shown: What the table has rows of after the part; None for a table of events.
        truncated: Whether the table is emptied first.
        sources: The rows with which the events are merged.
        way: The way in which the part is applied.
        file_bytes: The target size of the files that are written.
        described: The plan as it is shown.
    """

    target: Target
    state: TableState
    segments: tuple[Segment, ...]
    start: int
    end: int
    shown: Shown | None
    truncated: bool
    sources: Sources
    way: Way
    file_bytes: int
    described: PlannedPart


def plan_part(
    target: Target,
    state: TableState,
    segments: Sequence[Segment],
    end: int,
    settings: KeepSettings,
    shown: Shown | None = None,
) -> Part:
    """Plans a part with all events that a table lacks.

    Args:
        target: The table and its kind.
        state: The table's state.
        segments: All segments with events of the table from its position to ``end``.
        end: The end of a commit of the log.
        settings: The limits, the files' sizes, and the way if it is forced.
        shown: What the segments are of; None for a table of events.
    """
    found = map(shown.truncated_at, segments) if shown else ()
    truncates = [offset for offset in found if offset is not None]
    truncated = bool(truncates) or state.begins
    first = 0 if state.begins else state.position
    start = max(first, truncates[-1] + 1) if truncates else first
    counted = tuple(segment for segment in segments if segment.last_offset >= start)
    files = [] if truncated else state.files
    types = state.key_types
    size = sum(segment.uncompressed for segment in counted)
    way, reason, hit = _way(state, counted, files, types, size, settings)
    # A single task takes backfilled rows as events, since it holds them in memory in any case.
    merged = (
        sources(files, counted if way == "rewrite" else (), types, start, end, state.file)
        if state.key
        else Sources((), {})
    )
    return Part(
        target=target,
        state=state,
        segments=counted,
        start=start,
        end=end,
        shown=shown,
        truncated=truncated,
        sources=merged,
        way=way,
        file_bytes=settings.file_sizes.of_part(
            counted, state.size + sum(segment.size for segment in counted), keyed=bool(state.key)
        ),
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
    settings: KeepSettings,
) -> tuple[Way, str, int]:
    """The way, the reason for it, and how many files it may rewrite."""
    groups: list[SourceGroup] = file_groups(files) if state.key else []
    hit = groups if state.recast else possibly_hit(groups, segments, types, state.floor) if groups else []
    count = sum(len(group.sources) for group in hit)
    if state.engine_only:
        if state.begins or state.recast:
            # What the engine merges keeps the table's columns.
            raise SparkError(
                state.engine_only.code,
                f"{state.engine_only.message}, and now its columns or its key have changed",
                remedy="Rebuild the table from the log: tidemark materialize FILE --rebuild TABLE.",
            )
        return "sql", "a feature that only its engine writes", count
    if state.recast and not state.key:
        return "rewrite", "a column has a wider type", len(files)
    if settings.way and not (settings.way == "sql" and (state.begins or state.recast)):
        return settings.way, "requested", count
    if size > settings.limits.task_events:
        return "rewrite", "more events than one task should hold", count
    if count > 2 and sum(group.size for group in hit) > settings.limits.task_files:
        return "rewrite", "more files than one task should write", count
    return "task", "small", count
