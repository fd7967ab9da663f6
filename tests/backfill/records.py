"""What the model's connector holds: its chunks in flight, and its last checkpoint."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from tests.backfill.consumer import Consumer
from tests.backfill.database import Row, Snapshot
from tests.backfill.reader import Kept, Questions
from tidemark.backfill.fence import TransactionId
from tidemark.backfill.range_scan import ChunkPlan


@dataclass(eq=False)
class Chunk:
    """A chunk in flight, and how far it has come."""

    table: str
    plan: ChunkPlan
    questions: Questions | None = None
    snapshot: Snapshot | None = None
    fenced: bool = False
    rows: list[tuple[int, Row]] | None = None
    rereads: list[tuple[int, Row]] = field(default_factory=list)
    places: list[int] | None = None
    truncated_until: int = 0
    split: bool = False


@dataclass
class Comparison:
    """What a comparison of a table has found so far.

    Attributes:
        there: Keys of the rows that the consumer had when it began.
        touched: Those that the log has touched since.
        found: Those that chunks brought.
        emptied: The log has emptied the table since.
    """

    there: frozenset[int]
    touched: set[int] = field(default_factory=set)
    found: set[int] = field(default_factory=set)
    emptied: bool = False

    def copy(self) -> Comparison:
        return Comparison(self.there, set(self.touched), set(self.found), self.emptied)


class Checkpoint(NamedTuple):
    """Attributes: ``counting``: what is kept of the snapshot in which the table without a key is read."""

    position: int
    hidden: list[TransactionId]
    ranges: dict[str, str]
    counting: Kept | None
    consumer: Consumer
    comparisons: dict[str, Comparison]
