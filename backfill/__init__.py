"""The decisions of a backfill: which rows of a chunk may be emitted, when, and where to continue. No I/O and no clock.

``fence`` says what a chunk's snapshot sees, ``hidden`` keeps the transactions that are emitted but perhaps not visible,
``window`` holds the keys that the log touched around one chunk, ``range_scan`` drives a range of a table through its
chunks, ``rereads`` lists the rows that a consumer has only in part, ``ranges`` is a table's whole backfill,
``range_state`` its form in a checkpoint, and ``chunk_size`` says how large the next chunk should be.
"""
