"""Codes of backfills."""

from __future__ import annotations

from tidemark.protocol.error_codes import manual

CODES = (
    manual(
        "TM-BKF-001",
        "The stored state of a table's backfill is malformed",
        "Something other than this connector wrote the state. Restore it, or remove the state of the named table to "
        "have the table read again.",
    ),
    manual(
        "TM-BKF-002",
        "A key holds a NUL character",
        "Choose other key columns for the table (key in its resource config), or set its scan to none.",
    ),
    manual(
        "TM-BKF-003",
        "Rows change their keys faster than they can be read again",
        "Let every event carry the whole row, by the statement that the error gives. Then have the table read again: "
        "tidemark backfill FILE --table TABLE.",
    ),
    manual(
        "TM-BKF-004",
        "Too many ranges of one table are waiting to be read",
        "Send the command again when some ranges are done (see tidemark status), use a shorter WHERE, or start the "
        "backfill of the whole table again.",
    ),
)
