"""``loc``: where an event stands among all events of the source. No two have the same, and their order is the events'.

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

LOC_PARTS = 4


def next_place(source: bytes) -> bytes:
    """``_meta.source`` of the log's event that follows in the same record. ``loc`` has the last bracket of it."""
    loc, bracket, rest = source.rpartition(b"]")
    parts, comma, place = loc.rpartition(b",")
    return b"%b%b%d%b%b" % (parts, comma, int(place) + 1, bracket, rest)
