"""The limits of the backfill of one table."""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.backfill.keys import WINDOW_LIMIT

REREADS_PER_CHUNK = 500
"""The most rows that one chunk reads again by key; some milliseconds."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one table.

    Attributes:
        window: Keys recorded individually during a chunk; if the log touches more, the chunk is read again.
        reread_bytes: Bytes of the reread list in the state; some 35 keys of 40 bytes.
        reread_least: Keys that the list in the state holds whatever their length: indexes have keys of up to 3 kB.
            Without room for two of those, each session that ends among such rows would cause a scan of the whole table.
        reread_keys: Keys of the reread list in memory; some 10 MB with keys of 40 bytes. With more, the table is
            scanned again, by key.
        rereads_per_chunk: Rows of the list that one chunk reads.
        range_bytes: Bytes of the unfinished ranges in the state; some 15 ranges with keys of 40 bytes.
        overflows: Times in a row that the table is scanned again because of too many rereads, before it fails.
    """

    window: int = WINDOW_LIMIT
    reread_bytes: int = 1_600
    reread_least: int = 35
    reread_keys: int = 50_000
    rereads_per_chunk: int = REREADS_PER_CHUNK
    range_bytes: int = 1_800
    overflows: int = 4

    def __post_init__(self) -> None:
        if min(self.window, self.reread_least, self.reread_keys, self.rereads_per_chunk) < 1 or self.overflows < 0:
            raise ValueError("a table must be able to hold a row")


LIMITS = Limits()
