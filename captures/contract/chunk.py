"""A chunk: what the engine asks of a table's backfill, and what a database reads for it in one snapshot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tidemark.backfill.fence import Fence
from tidemark.backfill.keys import Key
from tidemark.backfill.range_scan import ChunkPlan
from tidemark.captures.contract.chunk_rows import ReadRows, Rows

Barrier = int | str
"""A moment of a source, as the state keeps it."""


@dataclass(frozen=True, slots=True)
class ChunkRequest:
    """A chunk that is asked for.

    Attributes:
        binding: The table's.
        plan: What is read of it. In a physical scan its bounds are places that earlier chunks of the scan and
            ``split_pages`` named, and say nothing to anyone else. See ``ScanMethod.by_places``.
        limit: The most rows of the scan.
    """

    binding: int
    plan: ChunkPlan
    limit: int


@dataclass(slots=True)
class Chunk:
    """A chunk that was read. A database makes it with its fence, and adds what it reads.

    Attributes:
        fence: What its snapshot sees.
        rows: The rows of the scan.
        end: Whether the scan is at its end.
        rereads: The rows that were read again by key.
        seconds: How long the read took.
        cursor: Where the scan resumes; None for the key of the last row. A physical scan gives its place here, and so
            does a scan with a condition, which may examine many rows and find none.
        scanned: Approximate rows examined, filtered ones included.
        rewritten: The table was rewritten since the scan began, so places in it are invalid: the chunk has no rows, and
            the table must be scanned from the start, emptied first if it has no key.
        bad: How many bad values its rows had, by the policy that was applied.
        apart: Keys of the rows that are kept apart for them.
    """

    request: ChunkRequest
    fence: Fence
    rows: ReadRows = field(default_factory=Rows)
    end: bool = False
    rereads: ReadRows = field(default_factory=Rows)
    seconds: float = 0.0
    cursor: Key | None = None
    scanned: int = 0
    rewritten: bool = False
    bad: Counter[str] = field(default_factory=Counter)
    apart: list[Key] = field(default_factory=list)

    def take_scan(self, rows: ReadRows, limit: int, *, whole: bool, conditional: bool, bound: Key | None) -> None:
        """Adds the rows of a scan in key order, and where the scan is after them.

        Args:
            limit: The most rows that were to be found or, under a condition, examined.
            whole: No row is missing of those that were to be found.
            conditional: Only rows that meet a condition were.
            bound: The key of the last row that was to be examined; None if fewer than ``limit`` were left, or without
                a condition.
        """
        self.rows = rows
        self.scanned = limit if whole and bound is not None else len(rows)
        if bound is None:
            self.end = whole and (conditional or len(rows) < limit)
        elif whole:
            self.cursor = bound


class ChunkReader(Protocol):
    """Reads chunks on its own connection. Used by one thread, which is not the log's."""

    def read(self, request: ChunkRequest) -> Chunk:
        """Reads a chunk in one snapshot, which closes before this call returns.

        Raises:
            SourceError: It counts as a failure of the table: after several in a row, or at once if a retry cannot help,
                the table's backfill is suspended. An error from creating a reader counts as a failure of the server
                instead.
        """

    def read_together(self, requests: Sequence[ChunkRequest]) -> Sequence[Chunk | None]:
        """Reads a chunk of each of several small tables in one snapshot, for little more than the cost of one chunk.

        Returns:
            The chunks, parallel to ``requests``. None for one that is to be asked for by itself: this may be any, as
            where a table is locked or altered, or where there are too many rows.

        Raises:
            SourceError: The server is unreachable.
        """
        return [None] * len(requests)

    def cancel(self) -> None:
        """Cancels a running read, from another thread."""

    def close(self) -> None: ...
