"""The executors' side of a part: tasks read sources and events, merge them, write files, and report.

Tasks neither plan nor commit. A retried or speculative task writes files with other names. The driver commits only the
files of the reports that it receives.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.protocol.changelog.segment_files import SegmentFile
from tidemark.protocol.errors import SparkError, TidemarkError
from tidemark.spark_sink.changes.event_stream import EventStream
from tidemark.spark_sink.changes.key_order import Place, count_before, in_order
from tidemark.spark_sink.changes.merge import merge
from tidemark.spark_sink.changes.row_events import read_row_events
from tidemark.spark_sink.changes.sources import BaseFile, Reading, SourceGroup, SourceReader
from tidemark.spark_sink.formats.data_files import DataFile
from tidemark.spark_sink.formats.file_writer import FileWriter
from tidemark.spark_sink.source.arrow_handover import unpacked
from tidemark.spark_sink.source.segment_reader import read_segments
from tidemark.spark_sink.tables.column_types import Columns, arrow_schema
from tidemark.spark_sink.tables.lineage import AS_THEY_ARE, ColumnPlaces
from tidemark.spark_sink.tables.store_place import StorePlace
from tidemark.spark_sink.tables.table_columns import EVENT_META

REPORT = "report string"
"""The Spark schema of the rows that tasks return."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """The work of one task on one part.

    Attributes:
        part: The number of the part in its batch.
        log: The place of the change log.
        table: The place of the table.
        columns: Names and Spark types of the table's columns.
        key: Names of the key's columns; empty for a table of kind ``history``.
        target: The target size of a file in bytes.
        groups: The sources, in key order.
        segments: The segments whose events the task reads itself. Those outside of its range of keys are not its own.
        start: The smallest offset that counts.
        end: The largest offset that counts, plus one.
        low: The begin of the task's range of keys.
        high: The end of the range, exclusive; None if the range has no end.
        join: Whether the task only joins the groups' files, without events.
        whole: Whether files without an event are rewritten, too.
        places: Where the table's files have the columns.
        floor: Rows of the table with a smaller ``_offset`` go.
    """

    part: int
    log: StorePlace
    table: StorePlace
    columns: Columns
    key: tuple[str, ...]
    target: int
    groups: tuple[SourceGroup, ...] = ()
    segments: tuple[SegmentFile, ...] = ()
    start: int = 0
    end: int = 0
    low: Place = ()
    high: Place | None = None
    join: bool = False
    whole: bool = False
    places: ColumnPlaces = AS_THEY_ARE
    floor: int = 0


@dataclass(frozen=True, slots=True)
class TaskReport:
    """The result of an assignment.

    Attributes:
        part: The number of the part in its batch.
        adds: The files that were written.
        removes: Paths of the table's files that they replace.
        rows_read: How many rows of log and table were read.
        bytes_read: About how many bytes of files were read.
        seconds: Wall time.
        cpu_seconds: CPU time of the task's Python process.
        executor: Host and process of the executor.
        error: Class, code and message of an error. If it is set, the rest does not count.
    """

    part: int
    adds: list[DataFile] = field(default_factory=list)
    removes: list[str] = field(default_factory=list)
    rows_read: int = 0
    bytes_read: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    executor: str = ""
    error: tuple[str, str, str] | None = None

    @classmethod
    def parse(cls, text: str) -> TaskReport:
        """Parses the text of a report."""
        fields = json.loads(text)
        fields["adds"] = [DataFile(**file) for file in fields["adds"]]
        fields["error"] = tuple(fields["error"]) if fields["error"] else None
        return cls(**fields)


def performed(bundle: Iterable[Assignment]) -> Iterator[str]:
    """Performs assignments, and yields their reports as text."""
    return (_text(_perform(assignment, None)) for assignment in bundle)


def bundles(work: Sequence[Sequence[Assignment]]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for a job whose rows are the numbers of bundles of assignments."""

    def run(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in rows:
            numbers: Any = batch.column(0)
            for number in numbers.to_pylist():
                yield from map(_reported, performed(work[number]))

    return run


def routed(work: Sequence[Assignment]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for a job whose partitions each hold the events of one assignment, sorted by key and offset.

    The rows are packed: the table's columns, those of ``EVENT_META``, and the assignment's number. The first row of a
    partition is not an event: it has only the number.

    Args:
        work: The assignments, all of one part.
    """
    names = [*work[0].columns, *EVENT_META, "number"]

    def run(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        batches = (unpacked(batch, names) for batch in rows if batch.num_rows)
        first = next(batches, None)
        if first is not None:
            number = first.column(-1)[0].as_py()
            yield _reported(_text(_perform(work[number], _events_of(number, first, batches, work[number].columns))))

    return run


def _events_of(
    number: int, first: pa.RecordBatch, more: Iterator[pa.RecordBatch], columns: Columns
) -> Iterator[pa.RecordBatch]:
    """The events of a partition in the table's types. Spark passes timestamps in the session's time zone."""
    schema = arrow_schema({**columns, **EVENT_META})
    batch: pa.RecordBatch | None = first.slice(1)
    while batch is not None:
        if not pc.all(pc.equal(batch.column(-1), pa.scalar(number, pa.int32())), min_count=0).as_py():
            raise SparkError("TM-SPK-013", "a shuffle brought events of two key ranges into one partition")
        if batch.num_rows:
            arrays = [batch.column(place).cast(field.type) for place, field in enumerate(schema)]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)
        batch = next(more, None)


def _text(report: TaskReport) -> str:
    return json.dumps(asdict(report))


def _reported(report: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"report": [report]})


def _perform(work: Assignment, events: Iterator[pa.RecordBatch] | None) -> TaskReport:
    """Performs one assignment. A failure is reported, so that assignments of other tables continue."""
    began, cpu = time.monotonic(), time.process_time()
    writer = FileWriter(work.table, work.columns, work.key, work.target)
    reading = Reading()
    removes: list[str] = []
    error: TidemarkError | None = None
    adds: list[DataFile] = []
    try:
        reader = SourceReader(work.log, work.table, work.columns, work.key, reading, work.places, work.floor)
        if work.join:
            _join(work, reader, writer)
            removes = base_files(work.groups)
        elif not work.key:
            for batch in _segments(work, work.columns, reading):
                writer.write(pa.Table.from_batches([batch]))
        else:
            counted = _read(work, reading) if events is None else _counted(events, reading)
            stream = EventStream(counted, work.key)
            removes = merge(
                work.groups,
                stream,
                work.key,
                list(work.columns),
                reader,
                writer,
                work.target // 2,
                work.low,
                work.high,
                whole=work.whole,
            )
        adds = writer.finish()
    except TidemarkError as failure:
        error = failure
    except (pa.ArrowException, OSError) as failure:
        error = SparkError("TM-SPK-015", f"{work.table}: {str(failure).splitlines()[0]}")
    if error is not None:
        writer.discard()
        removes = []
    return TaskReport(
        part=work.part,
        adds=adds,
        removes=removes,
        rows_read=reading.rows,
        bytes_read=reading.bytes,
        seconds=time.monotonic() - began,
        cpu_seconds=time.process_time() - cpu,
        executor=f"{socket.gethostname()}:{_executor()}",
        error=(type(error).__name__, error.code, error.message) if error else None,
    )


def _executor() -> int:
    """The process of the executor, whose Python daemons start the workers: one for RDDs, and one for queries."""
    daemon = os.getppid()
    try:
        stat = Path(f"/proc/{daemon}/stat").read_text()
    except OSError:  # No Linux: the daemon stands for its executor.
        return daemon
    return int(stat.rpartition(")")[2].split()[1])


def _join(work: Assignment, reader: SourceReader, writer: FileWriter) -> None:
    for group in work.groups:
        if work.key:
            writer.write(reader.load(group))
        else:
            for source in group.sources:
                for batch in reader.stream(source):
                    writer.write(pa.Table.from_batches([batch]))


def _read(work: Assignment, reading: Reading) -> Iterator[pa.RecordBatch]:
    """The task's events among those of segments, sorted in memory."""
    columns = {**work.columns, **EVENT_META}
    events = pa.Table.from_batches(_segments(work, columns, reading), schema=arrow_schema(columns))
    # A stable sort: events of a key stay in the order of their offsets.
    events = in_order(events, work.key)
    events = events.slice(count_before(events, work.key, work.low))
    if work.high is not None:
        events = events.slice(0, count_before(events, work.key, work.high))
    yield from events.to_batches()


def _segments(work: Assignment, columns: Columns, reading: Reading) -> Iterator[pa.RecordBatch]:
    for segment in work.segments:
        reading.bytes += segment.size
    read = read_row_events if work.key else read_segments
    return _counted(read(work.log.store, work.segments, columns, work.start, work.end), reading)


def _counted(batches: Iterator[pa.RecordBatch], reading: Reading) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        reading.rows += batch.num_rows
        yield batch


def base_files(groups: Sequence[SourceGroup]) -> list[str]:
    """Paths of the table's own files among sources."""
    return [source.path for group in groups for source in group.sources if isinstance(source, BaseFile)]
