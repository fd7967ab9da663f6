"""A batch: the events of the next commit, on their way into segments.

Each collection has a block of documents. A full block is decoded by the thread that filled it. Then one of the log's
writing threads parses it and writes it as a row group, while the next block fills. So memory is bounded for a
transaction of any size, and work outside of the interpreter's lock runs beside work inside of it. Blocks of one segment
are written one after the other, those of several side by side.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, wait
from typing import Any, TypeVar

import pyarrow as pa

from tidemark.protocol.changelog import layout
from tidemark.protocol.changelog.models import QUARANTINE, QUARANTINE_SCHEMA, Generation, Segment, TableSchema
from tidemark.protocol.errors import ChangeLogError
from tidemark.protocol.store import Store
from tidemark.runtime.changelog.documents.bound_collection import BoundCollection
from tidemark.runtime.changelog.documents.column_parts import ColumnPart
from tidemark.runtime.changelog.documents.decoder import DocumentDecoder, Part
from tidemark.runtime.changelog.documents.quarantine import Quarantine
from tidemark.runtime.changelog.files.failures import disappeared
from tidemark.runtime.changelog.segments.segment_writer import SegmentWriter
from tidemark.runtime.changelog.segments.threads import SegmentThreads

BLOCK_ROWS = 65_536
BLOCK_BYTES = 16 * 1024 * 1024
"""A block that reaches either limit becomes a row group."""

DECODE_ROWS = 8_192
"""Documents decoded at once: their objects fit a processor's cache, and other threads run in between."""

PENDING_BYTES = 64 * 1024 * 1024
"""Bytes of documents in all blocks of a batch. Beyond it the largest block is written, even if it is not full."""

ROW_OVERHEAD = 64
"""Bytes of memory that a pending document takes besides its own."""

QUEUED_BLOCKS = 2
"""Decoded blocks that may wait for the writing threads while another one is made."""

LARGE_BYTES = 8 * 1024 * 1024
"""A document of so many bytes is large. Its block is written before more is read, see ``settle``: several take hundreds
of MB.
"""

OPEN_SEGMENTS = 100
"""Open files of a batch. Beyond it the oldest one is finished."""


class _ColumnBlock:
    """Columns of a collection that are not cast yet."""

    __slots__ = ("collection", "parts", "rows", "size")

    def __init__(self, collection: BoundCollection) -> None:
        self.collection = collection
        self.parts: list[ColumnPart] = []
        self.rows = 0
        self.size = 0


class _Block:
    """Documents of a collection that are not decoded yet."""

    __slots__ = ("collection", "documents", "offsets", "size")

    def __init__(self, collection: BoundCollection) -> None:
        self.collection = collection
        self.documents: list[bytes] = []
        self.offsets = array("q")
        self.size = 0


B = TypeVar("B", _Block, _ColumnBlock)
T = TypeVar("T")


class Batch:
    """Made by ``LogWriter.begin``. One thread fills it.

    Attributes:
        number: The number of its commit.
        epoch: The writer's.
        first_offset: The offset of its first event.
        events: The number of its events.
        bytes: The bytes of its documents.
        discarded: It will not be committed.
        kept: A commit may name its files: they stay when it is discarded, and the next writer knows.
        quarantine: Its events that are kept apart.
        schemas: The schemas of its segments, and those that are announced, by fingerprint.
        announced: By collection the fingerprint of the schema of later events.
        generations: Those that begin or become whole with it.
    """

    def __init__(self, store: Store, number: int, epoch: int, first_offset: int, threads: SegmentThreads) -> None:
        self.number = number
        self.first_offset = first_offset
        self.events = 0
        self.bytes = 0
        self.discarded = self.kept = False
        self._store = store
        self.epoch = epoch
        self._sealed = False
        self._failed = False
        self._has_large = False
        self._threads = threads
        self._writes: deque[Future[Any]] = deque()
        self._blocks: dict[str, _Block | _ColumnBlock] = {}
        self._pending = 0
        self._open: dict[str, SegmentWriter] = {}
        self._newest_work: dict[SegmentWriter, Future[Any]] = {}
        self._begun: list[SegmentWriter] = []
        self._finished: list[Future[Segment | None]] = []
        self.quarantine = Quarantine()
        self.schemas: dict[str, TableSchema] = {}
        self.announced: dict[str, str] = {}
        self.generations: list[Generation] = []

    @property
    def next_offset(self) -> int:
        """One past its last event."""
        return self.first_offset + self.events

    def add(self, collection: BoundCollection, documents: Sequence[bytes]) -> None:
        """Appends events. Offsets follow the order of the calls, and of the documents in each call.

        It is cheapest with the documents of consecutive lines of one binding in one call. It returns at once, or after
        a block was decoded, or, as back-pressure, once the disk has caught up.

        Args:
            collection: The collection of the events. After it was bound again, it has its new schema from here on.
            documents: JSON objects, as ``tidemark.protocol.codec.split_captured`` cuts them out.

        Raises:
            ChangeLogError: ``TM-LOG-008`` the disk is full; ``TM-LOG-010`` too many documents do not fit. Then the
                batch can only be discarded.
        """
        block = self._block(collection, _Block)
        count = len(documents)
        block.documents.extend(documents)
        block.offsets.extend(range(self.next_offset, self.next_offset + count))
        size = sum(map(len, documents))
        self.events += count
        self.bytes += size
        block.size += size
        self._pending += size + count * ROW_OVERHEAD
        self._write_if_due(block, len(block.documents))

    def add_columns(self, parts: Sequence[tuple[BoundCollection, ColumnPart]], events: int) -> None:
        """Appends the events of a batch of columns, which were read for ``next_offset``. See ``add``.

        Args:
            parts: Each with its collection. No collection has two.
            events: Of all parts together.

        Raises:
            ChangeLogError, ProtocolError: As ``add``; ``TM-PRO-008`` columns, perhaps of earlier parts, are not those
                of their collection.
        """
        for collection, part in parts:
            block = self._block(collection, _ColumnBlock)
            block.parts.append(part)
            block.rows += part.rows
            block.size += part.size
            self.bytes += part.size
            self._pending += part.size
            self._write_if_due(block, block.rows)
        self.events += events

    def _block(self, collection: BoundCollection, kind: type[B]) -> B:
        """The block for a collection's next events. One that cannot take them is written."""
        if self._sealed or self._failed:
            raise ValueError(
                "this batch accepts no more events: it failed, was discarded or committed, or a later one has begun"
            )
        name = collection.schema.collection
        block = self._blocks.get(name)
        if block is not None and block.collection is collection and isinstance(block, kind):
            return block
        if block is not None:
            self._write(name)
        made = self._blocks[name] = kind(collection)
        return made

    def _write_if_due(self, block: _Block | _ColumnBlock, rows: int) -> None:
        if rows >= BLOCK_ROWS or block.size >= BLOCK_BYTES:
            self._write(block.collection.schema.collection)
        elif self._pending > PENDING_BYTES:
            self._write(max(self._blocks, key=lambda other: self._blocks[other].size))

    def announce(self, collection: BoundCollection) -> None:
        """Notes the schema of a collection's later events: the log has it though none may come."""
        self.announced[collection.schema.collection] = collection.fingerprint
        self.schemas[collection.fingerprint] = collection.schema

    def seal(self) -> None:
        """Takes no more events. ``LogWriter.begin`` and ``LogWriter.commit`` call it, too."""
        self._sealed = True

    def finish(self) -> list[Segment]:
        """Writes pending documents and closes every segment. Nothing is synced yet.

        Raises:
            ChangeLogError, ProtocolError: As ``add``.
        """
        if self._failed or self.discarded:
            raise ValueError("a batch that failed or was discarded has no segments")
        self.seal()
        for name in list(self._blocks):
            self._write(name)
            self._finish_segment(name)
        for name in list(self._open):
            self._finish_segment(name)
        while self._writes:
            self._writes.popleft().result()
        self._write_quarantine()
        return [segment for finished in self._finished if (segment := finished.result()) is not None]

    def _write_quarantine(self) -> None:
        documents, offsets = self.quarantine.take()
        if not documents:
            return
        apart = BoundCollection(QUARANTINE_SCHEMA)
        batches = [apart.decoder.gather(*part) for part in _parts(documents, offsets)]
        self._segment(apart).write(apart.decoder.cast(batches))
        self._finish_segment(QUARANTINE)

    def discard(self) -> None:
        """Discards the events and deletes the files, unless they are kept."""
        self.discarded = True
        self.seal()
        wait(self._writes)
        wait(self._finished)
        for segment in () if self.kept else self._begun:
            segment.discard()
        self._begun.clear()
        self._blocks.clear()

    def _write(self, name: str) -> None:
        """Decodes a collection's block and hands it to the writing threads."""
        block = self._blocks.pop(name)
        self._failed = True  # until it has succeeded: a batch without these events must not be committed
        if isinstance(block, _ColumnBlock):
            self._pending -= block.size
            self._submit(_write_columns, block.collection, block.parts, is_large=False)
        elif block.documents:
            self._pending -= block.size + len(block.documents) * ROW_OVERHEAD
            is_large = block.size >= LARGE_BYTES and max(map(len, block.documents)) >= LARGE_BYTES
            parts, misfits = block.collection.fit(list(_parts(block.documents, block.offsets)), whole=is_large)
            self.quarantine.add(misfits)
            if parts:
                self._submit(_write_block, block.collection, parts, is_large=is_large)
            self._has_large |= is_large
        self._wait_for_writes(QUEUED_BLOCKS)

    def settle(self) -> None:
        """Waits until a large document is written. Called when nobody else holds it, nor the line that it came in.

        Raises:
            ChangeLogError, ProtocolError: As ``add``.
        """
        if self._has_large:
            self._failed = True
            self._has_large = False
            self._wait_for_writes(0)
            _release()

    def _wait_for_writes(self, most: int) -> None:
        """Waits until no more blocks than that wait, or are being written."""
        while len(self._writes) > most:
            self._writes.popleft().result()
        self._failed = False

    def _submit(
        self, write: Callable[..., None], collection: BoundCollection, parts: Sequence[Any], *, is_large: bool
    ) -> None:
        segment = self._segment(collection, is_large)
        given = segment, collection.decoder, parts, self.quarantine
        self._writes.append(self._work(self._threads.writing, segment, write, *given))

    def _work(self, threads: Executor, segment: SegmentWriter, work: Callable[..., T], *given: Any) -> Future[T]:
        """Hands work on a segment to threads."""
        before = self._newest_work.get(segment)
        future = self._newest_work[segment] = threads.submit(_in_turn, before, work, *given)
        return future

    def _segment(self, collection: BoundCollection, is_large: bool = False) -> SegmentWriter:
        """The open segment of a collection under this schema, for such documents; a new one where there is none."""
        name = collection.schema.collection
        segment = self._open.get(name)
        kind = collection.fingerprint, collection.generation
        is_same = segment is not None and (segment.fingerprint, segment.generation) == kind
        if segment is not None and is_same and (segment.takes_large or not is_large):
            return segment
        if segment is not None:
            self._finish_segment(name)
        elif len(self._open) >= OPEN_SEGMENTS:
            self._finish_segment(next(iter(self._open)))
        # No folder is created in place of a log that disappeared: its volume may not be mounted.
        if self._store.directory is not None and not self._store.exists(layout.HEADER):
            raise disappeared(self._store)
        path = layout.segment_path(name, self.number, self.epoch, len(self._begun))
        segment = SegmentWriter(
            self._store,
            path,
            collection.schema,
            collection.fingerprint,
            collection.decoder.arrow_schema,
            generation=collection.generation,
            takes_large=is_large,
        )
        self._begun.append(segment)
        self._open[name] = segment
        self.schemas[collection.fingerprint] = collection.schema
        return segment

    def _finish_segment(self, name: str) -> None:
        segment = self._open.pop(name, None)
        if segment is not None:
            self._finished.append(self._work(self._threads.finishing, segment, _finish, segment))
            del self._newest_work[segment]


def _parts(documents: list[bytes], offsets: array[int]) -> Iterator[tuple[list[bytes], array[int]]]:
    for start in range(0, len(documents), DECODE_ROWS):
        yield documents[start : start + DECODE_ROWS], offsets[start : start + DECODE_ROWS]


def _in_turn(before: Future[Any] | None, work: Callable[..., T], *given: Any) -> T:
    """Does work on a segment once that before it has ended. The latter has a thread already: it was given first."""
    if before is not None:
        before.result()
    return work(*given)


def _finish(segment: SegmentWriter) -> Segment | None:
    """The finished segment; None, and no file, if all of its events are kept apart."""
    if segment.empty:
        segment.discard()
        return None
    return segment.finish()


def _write_columns(
    segment: SegmentWriter, decoder: DocumentDecoder, parts: list[ColumnPart], apart: Quarantine
) -> None:
    tables = []
    for part in parts:
        table, misfits = part.fit(decoder)
        apart.add(misfits)
        tables.append(table)
    whole = pa.concat_tables(tables)
    for start in range(0, whole.num_rows, BLOCK_ROWS):
        segment.write(whole.slice(start, BLOCK_ROWS))


def _write_block(segment: SegmentWriter, decoder: DocumentDecoder, parts: list[Part], apart: Quarantine) -> None:
    try:
        table = decoder.cast([part.batch for part in parts])
    except ChangeLogError:
        fitting: list[Part] = []
        for part in parts:
            found, misfits = decoder.fit(part.documents, part.offsets, whole=True)
            fitting += found
            apart.add(misfits)
        if not fitting:
            return
        table = decoder.cast([part.batch for part in fitting])
    segment.write(table)
    if segment.takes_large:
        _release()


def _release() -> None:
    """Gives back what Arrow's allocator keeps of this thread: blocks as large as a value."""
    pa.default_memory_pool().release_unused()
