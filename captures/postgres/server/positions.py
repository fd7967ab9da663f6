"""Positions in the write-ahead log, and where an event stands.

Log sequence numbers (LSNs) are 64-bit positions, written as two hexadecimal halves: ``16/B374D848``.

``loc`` is where an event stands among all events of the source. No two have the same, and their order is the events'.

=====  ============================  ========================================
part   an event of the log           a row of a chunk, or what empties a table
=====  ============================  ========================================
0      where the log stood before its transaction, or when the row was emitted
1      LSN of the change             0, and so before the next transaction's
2      LSN of the commit             when the chunk was emitted (``tidemark.captures.rows.captured_line``)
3      place in the log record       place in the chunk
=====  ============================  ========================================

A log record may hold many rows (COPY, INSERT of several rows), and a change of a row's key is two events.
"""

from __future__ import annotations

from tidemark.protocol.errors import SourceError

LOC_PARTS = 4


def parse_lsn(text: str) -> int:
    """The position that ``text`` names. Raises SourceError ``TM-PG-024`` when it is not an LSN."""
    high, slash, low = text.partition("/")
    try:
        return (int(high, 16) << 32) | int(low if slash else "", 16)
    except ValueError:
        raise SourceError("TM-PG-024", f"{text[:40]!r} is not a log sequence number") from None


def format_lsn(position: int) -> str:
    """The position as PostgreSQL writes it."""
    return f"{position >> 32:X}/{position & 0xFFFFFFFF:X}"


def next_place(source: bytes) -> bytes:
    """``_meta.source`` of the log's event that follows in the same record. ``loc`` has the last bracket of it."""
    loc, bracket, rest = source.rpartition(b"]")
    parts, comma, place = loc.rpartition(b",")
    return b"%b%b%d%b%b" % (parts, comma, int(place) + 1, bracket, rest)
