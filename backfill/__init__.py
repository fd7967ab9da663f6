"""The decisions of a backfill: which rows of a chunk are emitted, when, and where to continue. No I/O and no clock.

``fence`` defines what a chunk's snapshot sees. ``hidden`` keeps the transactions that are emitted but perhaps not
visible. ``window`` holds the keys that the log touched around one chunk. ``range_scan`` scans a range of a table, chunk
by chunk. ``rereads`` lists the rows of which a consumer has only a part. ``ranges`` is a table's whole backfill, and
``range_state`` its form in a checkpoint. ``limits`` says how much a table may hold. ``chunk_size`` chooses
the size of the next chunk.
"""

from __future__ import annotations

from tidemark.backfill.error_codes import CODES
from tidemark.protocol.error_codes import register

register(CODES)
