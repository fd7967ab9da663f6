"""The verification of a table: all its rows are read once more, and the runtime compares them with what it has.

Chunks bring the rows under fences as those of a backfill: at the place in the output where a chunk is written, its rows
are what all events before that place give. So the runtime needs to note the places only. A row that the log has touched
since the chunk's snapshot was opened is left out.

A verification begins at a moment when every transaction that was written is visible: a key that no event touched since
then, and that no chunk brought, is that of no row of the source.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from tidemark.protocol.codec import encode
from tidemark.protocol.messages import JsonObject, VerifyChunk


@dataclass(slots=True)
class Verification:
    """One table's.

    Attributes:
        run: The sequence of the command that asked for it.
        share: The most of the time that its chunks may take.
        begun: It was announced.
        chunks: How many have been written.
        rows: The rows that they brought.
        whole: All rows have been read.
        failure: Why no more can be read; empty as long as that goes well.
        waits_for: What has to end before it begins or goes on, for people; empty if nothing has. Not in the state.
    """

    run: int
    share: float = 1.0
    begun: bool = False
    chunks: int = 0
    rows: int = 0
    whole: bool = False
    failure: str = ""
    waits_for: str = ""

    @classmethod
    def of_state(cls, stored: JsonObject | None) -> Self | None:
        """The verification that ``to_state`` has written; None without one."""
        if stored is None:
            return None
        return cls(**stored)

    def to_state(self) -> JsonObject:
        return {name: getattr(self, name) for name in self.__slots__ if name != "waits_for"}

    def chunk(self, binding: int, rows: int, *, last: bool) -> bytes:
        """The message that ends a chunk of so many rows."""
        self.chunks += 1
        self.rows += rows
        self.whole = last
        return encode(VerifyChunk(binding=binding, run=self.run, number=self.chunks, rows=rows))

    def rest(self, seconds: float) -> float:
        """How long no chunk is started after one that took so long."""
        return seconds * (1.0 / self.share - 1.0)
