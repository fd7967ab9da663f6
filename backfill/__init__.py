"""The decisions of a backfill: which rows of a chunk may be emitted, when, and where to go on. No I/O and no clock.

``fence`` says what a chunk's snapshot sees, ``hidden`` keeps the transactions that are emitted but perhaps not visible,
``window`` holds the keys that the log touched around one chunk, ``scan`` drives a table through its chunks, and
``chunk_size`` says how large the next one should be.
"""
