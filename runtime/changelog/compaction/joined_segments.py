"""Joins small segments of a collection into large ones, with the same rows under the same offsets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

import pyarrow as pa

from tidemark.protocol.changelog import Segment, TableSchema, layout
from tidemark.protocol.changelog.segment_files import SegmentFile, asked_for, batches
from tidemark.protocol.errors import ChangeLogError
from tidemark.protocol.store import Store
from tidemark.runtime.changelog.segments.segment_writer import SegmentWriter

SMALL_BYTES = 16 * 1024 * 1024
"""Segments of fewer bytes are joined; larger ones stay as they are."""

MOST_BYTES = 64 * 1024 * 1024
"""The most bytes of the segments of which one is made."""

MOST_ROWS = 1_000_000
"""The most rows of one: its runs of backfilled rows are stated in the commit."""

GROUP_ROWS = 65_536
GROUP_BYTES = 16 * 1024 * 1024
"""Rows in memory, which become a row group, have fewer rows and fewer bytes than that, but for one batch."""

_READ_ROWS = 8192


@dataclass(slots=True)
class JoinedSegments:
    """Joins segments of one log, and can take all of it back.

    Args:
        store: That holds the log.
        number: Of the next commit, for the names of files.
        epoch: Of the writer.
        numbers: Count the files that the writer has made.
        go_on: Is asked between two batches; raises to end.

    Attributes:
        made: The paths of the files that were made.
    """

    store: Store
    number: int
    epoch: int
    numbers: count[int]
    go_on: Callable[[], None]
    made: list[str] = field(default_factory=list)

    def joined(self, segments: Sequence[Segment], schemas: dict[str, TableSchema]) -> list[Segment]:
        """What stands for segments of one collection, generation and schema, in the order of their offsets.

        A segment that is large, or has a TRUNCATE, stays as it is. So a reader that begins after a TRUNCATE need not
        know where in a segment that is.

        Raises:
            ChangeLogError: ``TM-LOG-009`` a segment is missing or damaged, ``TM-LOG-008`` one cannot be written.
        """
        found: list[Segment] = []
        for group in _groups(segments):
            found.append(self._join(group, schemas[group[0].fingerprint]) if len(group) > 1 else group[0])
        return found

    def _join(self, group: Sequence[Segment], table: TableSchema) -> Segment:
        first = group[0]
        path = layout.segment_path(first.collection, self.number, self.epoch, next(self.numbers), "j")
        writer: SegmentWriter | None = None
        self.made.append(path)
        try:
            for rows in _gathered(self._rows(group)):
                if writer is None:
                    writer = SegmentWriter(
                        self.store, path, table, first.fingerprint, rows.schema, generation=first.generation
                    )
                writer.write(rows)
            assert writer is not None, "no segment is empty"
            made = writer.finish()
        except BaseException:
            if writer is not None:
                writer.discard()
            raise
        stated = sum(one.rows for one in group), first.first_offset, group[-1].last_offset
        if (made.rows, made.first_offset, made.last_offset) != stated:
            raise ChangeLogError(
                "TM-LOG-009",
                f"{self.store.where(first.path)}, or one of {len(group) - 1} after it, is damaged: together they do "
                f"not have the {stated[0]} rows of the log",
            )
        return made

    def _rows(self, group: Sequence[Segment]) -> Iterator[pa.RecordBatch]:
        for segment, data in asked_for(self.store, map(SegmentFile.of, group)):
            with segment.opened(self.store, data) as file:
                for batch in batches(file, _READ_ROWS):
                    self.go_on()
                    yield batch.replace_schema_metadata(None)


def _groups(segments: Sequence[Segment]) -> Iterator[list[Segment]]:
    """Neighbours of which one is made, and segments that stay alone."""
    group: list[Segment] = []
    for segment in segments:
        stays = segment.size >= SMALL_BYTES or segment.truncated_at is not None
        size, rows = segment.size + sum(one.size for one in group), segment.rows + sum(one.rows for one in group)
        if group and (stays or size > MOST_BYTES or rows > MOST_ROWS):
            yield group
            group = []
        group.append(segment)
        if stays:
            yield group
            group = []
    if group:
        yield group


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches as tables, each for a row group."""
    found: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        found.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= GROUP_ROWS or size >= GROUP_BYTES:
            yield pa.Table.from_batches(found).combine_chunks()
            found, rows, size = [], 0, 0
    if found:
        yield pa.Table.from_batches(found).combine_chunks()
