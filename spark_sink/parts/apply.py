"""Applies parts: hands assignments to executors, and collects the outcome of each part."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING

from tidemark.protocol.changelog import Segment
from tidemark.protocol.errors import TidemarkError
from tidemark.spark_sink.changes.key_order import Place, place
from tidemark.spark_sink.changes.row_events import row_events_frame
from tidemark.spark_sink.formats.data_files import DataFile, KeyBounds
from tidemark.spark_sink.parts.part_plan import Part
from tidemark.spark_sink.parts.part_tasks import Assignment, TaskReport
from tidemark.spark_sink.parts.ranges import KeyRange, file_groups, joined_runs, key_ranges
from tidemark.spark_sink.parts.routing import route
from tidemark.spark_sink.parts.spark_jobs import SparkJobs
from tidemark.spark_sink.run.report import Cost
from tidemark.spark_sink.run.settings import KeepSettings
from tidemark.spark_sink.source.followed_log import FollowedLog
from tidemark.spark_sink.source.runs import runs
from tidemark.spark_sink.source.segment_reader import segment_files
from tidemark.spark_sink.spark.failures import error_of, spark_exceptions, tidemark_error
from tidemark.spark_sink.tables.column_types import quoted
from tidemark.spark_sink.tables.table_columns import EVENT_META

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_RANGES_A_CORE = 2
_MOST_RANGES = 1000
_READS = 2000
"""The most reads of segments with which every task reads all the part's events, if these are few. Each read takes about
a millisecond. A shuffle takes several seconds of CPU time, most of it before the first row."""

_BUNDLES_A_CORE = 4
"""How many bundles of small parts each core gets at most. The overhead of a task exceeds the cost of a small part."""

_BUNDLE_BYTES = 16 * 1024 * 1024
_BUNDLE_PARTS = 16


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a part on executors.

    Attributes:
        adds: Files to add to the table.
        removes: Paths of files to remove from the table.
        cost: The cost of all tasks.
        rows_read: How many rows each executor read.
        error: The error of a task. If it is set, there is nothing to add or remove.
    """

    adds: list[DataFile] = field(default_factory=list)
    removes: list[str] = field(default_factory=list)
    cost: Cost = field(default_factory=Cost)
    rows_read: dict[str, int] = field(default_factory=dict)
    error: TidemarkError | None = None


class Applier:
    """Applies parts on a session's executors."""

    def __init__(self, jobs: SparkJobs, log: FollowedLog, settings: KeepSettings) -> None:
        self._jobs = jobs
        self._log = log
        self._warehouse = settings.warehouse
        self._limits = settings.limits

    def apply_small(self, parts: Sequence[Part]) -> list[Outcome]:
        """Applies parts whose way is ``task`` in one job. The outcomes have the order of the parts."""
        work = [self._assignment(part, number=number, segments=part.segments) for number, part in enumerate(parts)]
        outcomes = self.perform(work, [part.described.bytes for part in parts], "small parts")
        return [_emptied(part, outcome) for part, outcome in zip(parts, outcomes, strict=True)]

    def perform(self, work: Sequence[Assignment], sizes: Sequence[int], description: str) -> list[Outcome]:
        """Performs one assignment per part in one job. If that job fails, each assignment gets its own job."""
        if not work:
            return []
        try:
            most = self._jobs.parallelism * _BUNDLES_A_CORE
            reports = self._jobs.run(_bundled(work, sizes, most), description)
        except spark_exceptions() as failure:
            if len(work) == 1:
                return [Outcome(error=tidemark_error(failure))]
            return [self.perform([one], [size], description)[0] for one, size in zip(work, sizes, strict=True)]
        of_part: dict[int, list[TaskReport]] = {}
        for report in reports:
            of_part.setdefault(report.part, []).append(report)
        return [_outcome(of_part.get(one.part, [])) for one in work]

    def apply_large(self, part: Part) -> Outcome:
        """Applies a part whose way is ``rewrite`` in its own job."""
        described = f"{part.target.table} {part.target.kind}: offsets {part.start} to {part.end}"
        try:
            reports = self._merge(part, described) if part.state.key else self._append(part, described)
        except spark_exceptions() as failure:
            return Outcome(error=tidemark_error(failure))
        except TidemarkError as failure:
            return Outcome(error=failure)
        return _emptied(part, _outcome(reports))

    def _append(self, part: Part, described: str) -> list[TaskReport]:
        """Appends to a table of kind ``history``: tasks copy segments in parallel, and files whose columns widen."""
        files = [file for file, _ in part.state.files] if part.state.recast else []
        bytes_a_range = self._range_bytes(sum(file.size for file in files) + sum(one.size for one in part.segments))
        copied = [file_groups([(file, KeyBounds(None, None)) for file in run]) for run in runs(files, bytes_a_range)]
        work = [[replace(self._assignment(part), groups=tuple(groups), join=True)] for groups in copied]
        work += [[self._assignment(part, segments=run)] for run in runs(part.segments, bytes_a_range)]
        return self._jobs.run(work, described)

    def _merge(self, part: Part, described: str) -> list[TaskReport]:
        groups = part.sources.groups
        if not part.sources.copied and part.described.bytes <= self._limits.task_events:
            size = part.described.bytes + sum(group.size for group in groups)
            ranges = key_ranges(groups, [], 0, self._range_bytes(size))
            if len(ranges) * len(part.segments) <= _READS:
                return self._jobs.run(
                    [[self._assignment(part, one, segments=part.segments)] for one in ranges], described
                )
        events, count, size = self._events(part)
        key, types = part.state.key, part.state.key_types
        bytes_a_range = self._range_bytes(size + sum(group.size for group in groups))
        sampled: list[Place] = []
        if events is not None and size > bytes_a_range:
            sampled = self._jobs.sample(events, key, count)
        per_sample = size // len(sampled) if sampled else 0
        ranges = key_ranges(groups, sampled, per_sample, bytes_a_range)
        work = [self._assignment(part, one) for one in ranges]
        if events is None:
            return self._jobs.run([[assignment] for assignment in work], described)
        bounds = [one.low for one in ranges[1:]]
        return self._jobs.run_routed(work, events, bounds, key, types, described)

    def _range_bytes(self, total: int) -> int:
        """The bytes of one task's range. Every core gets work, no task too much, and the ranges are not too many."""
        fair = total // (self._jobs.parallelism * _RANGES_A_CORE)
        return max(min(fair, self._limits.range_most), self._limits.range_least, total // _MOST_RANGES)

    def _events(self, part: Part) -> tuple[DataFrame | None, int, int]:
        """The part's events that are in no copied run, their number, and about their bytes. None if there are none."""
        from pyspark.sql import functions as F

        columns = {**part.state.columns, **EVENT_META, "_snapshot": "boolean"}
        copied = part.sources.copied
        whole: list[Segment] = []
        logged: list[Segment] = []
        mixed: list[Segment] = []
        count = size = 0
        for segment in part.segments:
            rows = segment.rows - sum(rows for *_, rows in copied.get(segment.path, ()))
            if rows:
                count += rows
                size += segment.uncompressed * rows // segment.rows
                is_logged = rows == segment.rows - segment.snapshot_rows
                (whole if rows == segment.rows else logged if is_logged else mixed).append(segment)
        frames = []
        for segments in (whole, logged, mixed):
            if segments:
                frame = row_events_frame(
                    self._jobs.spark, self._log, segments, columns, part.start, part.end, part.state.lineage
                )
                if segments is logged:
                    frame = frame.where(~F.col("_snapshot"))
                if segments is mixed:
                    spans = [span for segment in mixed for span in copied[segment.path]]
                    frame = frame.where(~(F.col("_snapshot") & F.expr(_within(spans))))
                frames.append(frame)
        if not frames:
            return None, 0, 0
        names = [quoted(name) for name in columns if name != "_snapshot"]
        return reduce(lambda one, other: one.unionAll(other), frames).select(*names), count, size

    def _assignment(
        self, part: Part, keys: KeyRange | None = None, *, number: int = 0, segments: Iterable[Segment] = ()
    ) -> Assignment:
        """A task's work on a part: on a range of its keys, or on all of it. The task reads these segments itself."""
        return Assignment(
            part=number,
            log=self._log.at,
            table=part.target.place(self._warehouse),
            columns=part.state.columns,
            key=part.state.key,
            target=part.file_bytes,
            groups=joined_runs(keys.groups) if keys else part.sources.groups,
            segments=tuple(segment_files(self._log, segments, part.state.columns, part.state.lineage)),
            start=part.start,
            end=part.end,
            low=keys.low if keys else (),
            high=keys.high if keys else None,
            whole=part.state.recast,
            places=part.state.places,
            floor=part.state.floor,
        )


def _within(spans: Iterable[tuple[int, int, int]]) -> str:
    """An SQL expression: whether an offset is in one of the spans, which do not overlap."""
    edges: list[int] = []
    for first, last, _ in sorted(spans):
        if edges and edges[-1] == first:
            edges[-1] = last + 1
        else:
            edges += (first, last + 1)
    # Between the first edge and the second, the third and the fourth, and so on.
    return f"({route(['_offset'], ['bigint'], [place([edge]) for edge in edges])} % 2 = 1)"


def _bundled(work: Sequence[Assignment], sizes: Sequence[int], most: int) -> list[list[Assignment]]:
    """Bundles of about the same size. The largest assignments come first, each goes to the smallest bundle."""
    count = min(len(work), most, 1 + max(sum(sizes) // _BUNDLE_BYTES, len(work) // _BUNDLE_PARTS))
    bundles: list[list[Assignment]] = [[] for _ in range(count)]
    loads = [0] * count
    for size, one in sorted(zip(sizes, work, strict=True), key=lambda pair: -pair[0]):
        least = loads.index(min(loads))
        bundles[least].append(one)
        loads[least] += size + _BUNDLE_BYTES // _BUNDLE_PARTS
    return bundles


def _outcome(reports: Sequence[TaskReport]) -> Outcome:
    cost = Cost()
    rows: dict[str, int] = {}
    for report in reports:
        written = sum(file.size for file in report.adds)
        cost += Cost(report.seconds, report.cpu_seconds, report.bytes_read, written)
        rows[report.executor] = rows.get(report.executor, 0) + report.rows_read
    if error := next((report.error for report in reports if report.error), None):
        return Outcome(cost=cost, rows_read=rows, error=error_of(*error))
    return Outcome(
        adds=[file for report in reports for file in report.adds],
        # If two tasks share the keys of a file, both report it.
        removes=list(dict.fromkeys(path for report in reports for path in report.removes)),
        cost=cost,
        rows_read=rows,
    )


def _emptied(part: Part, outcome: Outcome) -> Outcome:
    """Adds the removal of all the table's files after a TRUNCATE. The tasks did not read them."""
    if part.truncated and outcome.error is None:
        outcome.removes.extend(file.path for file, _ in part.state.files)
    return outcome
