"""The model of a file that stands for a range of commits."""

from __future__ import annotations

from bisect import bisect_left
from datetime import datetime
from typing import NamedTuple

from pydantic import Field

from tidemark.protocol.changelog.models import Commit, Segment


class Edge(NamedTuple):
    """Where a commit ended that had events, in a ``CompactedCommit``: a position of readers.

    Attributes:
        next_offset: One past its last event.
        time: Of the commit.
        digest: The first ``EDGE_DIGITS`` hexadecimal digits of the SHA-256 of its file.
        rows: By collection, as its place among the ``collections``, how many events of it the commit has.
    """

    next_offset: int
    time: datetime
    digest: str
    rows: dict[int, int]


EDGE_DIGITS = 16
"""Digits of a hash: enough to tell a log from one that was restored from a copy."""


class CompactedCommit(Commit):
    """Several commits as one: a ``Replacement`` names its file. ``number`` and ``time`` are those of the last.

    It has the same events under the same offsets, in fewer segments. The commits introduce and announce no schema, no
    generation begins with them or becomes whole, and their events have the schemas and generations that were the newest
    before. So nothing between two of them is lost but the connector's state, and what tells apart their writers.

    Attributes:
        first: The number of the first commit.
        last_digest: The SHA-256 of the file of the last one, which the commit after it has as ``previous``.
        claims: The first commit of each epoch that begins among them.
        collections: Those that have events, in order.
        written: For each of them the bytes of the segments that the commits had.
        edges: Where each commit with events ended, in order.
    """

    first: int
    last_digest: str
    claims: dict[int, int] = Field(default_factory=dict)
    collections: list[str] = Field(default_factory=list)
    written: list[int] = Field(default_factory=list)
    edges: list[Edge] = Field(default_factory=list)

    def up_to(self, offset: int) -> CompactedCommit:
        """The commits up to the one that has the event before an offset. The segments stay as they are."""
        place = bisect_left(self.edges, offset, key=lambda edge: edge.next_offset)
        kept = self.edges[: place + 1]
        return self.model_copy(
            update={"edges": kept, "next_offset": kept[-1].next_offset if kept else self.next_offset}
        )

    def as_written(self) -> list[Segment]:
        """What its commits had of each collection, as one segment: how many events, and in how many bytes."""
        rows: dict[int, int] = {}
        for edge in self.edges:
            for place, count in edge.rows.items():
                rows[place] = rows.get(place, 0) + count
        first: dict[str, Segment] = {}
        whole: dict[str, int] = {}
        for segment in self.segments:
            first.setdefault(segment.collection, segment)
            whole[segment.collection] = whole.get(segment.collection, 0) + segment.rows
        found = []
        for place, count in rows.items():
            name = self.collections[place]
            size = self.written[place] * count // whole[name]
            found.append(first[name].model_copy(update={"rows": count, "size": size}))
        return found
