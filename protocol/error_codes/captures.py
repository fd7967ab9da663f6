"""Codes of the capture engine, in any connector, and of the backfills that it runs."""

from __future__ import annotations

from protocol.error_codes.model import ErrorCode, Policy

CODES = (
    ErrorCode(
        "TM-CAP-001",
        "The runtime closed the connector's output",
        Policy.RETRY,
        "Look at the runtime's own error. The next run goes on from the last commit.",
    ),
    ErrorCode(
        "TM-CAP-002",
        "The connector met a defect of its own",
        Policy.RETRY,
        "Run with LOG_LEVEL=debug for the full trace, and report it with the connector's version.",
    ),
    ErrorCode(
        "TM-CAP-003",
        "Tables could not be backfilled",
        Policy.MANUAL,
        "Mend what the error says of each of them. The next run takes them up again where they stood; a capture that "
        "runs does on `tidemark resume`. Meanwhile it follows their log.",
    ),
    ErrorCode(
        "TM-CAP-004",
        "A command to a running capture is wrong",
        Policy.MANUAL,
        "Nothing was changed. Look at the states of the tables in the capture's status, and give the right command.",
    ),
    ErrorCode(
        "TM-CAP-005",
        "A process that reads chunks ended",
        Policy.RETRY,
        "Nothing needs to be done if it passes. If it goes on, look for what ends processes here: most often the memory "
        "limit of the container, or, where none can be started, its limit of processes.",
    ),
    ErrorCode(
        "TM-CAP-006",
        "A capture was ended in the middle of what it had to say",
        Policy.RETRY,
        "Nothing is lost: what came after the last checkpoint comes again in the next run. It can go on once the source is "
        "back.",
    ),
    ErrorCode(
        "TM-CAP-007",
        "Tables are set aside",
        Policy.MANUAL,
        "Mend what the error says of each of them: all other tables are captured. A table that can be captured again comes "
        "back by itself, at once on `tidemark resume`: where it stood if nothing of it was missed, otherwise it is emptied "
        "and read again.",
    ),
    ErrorCode(
        "TM-CAP-011",
        "A capture was opened for a part of its keys",
        Policy.MANUAL,
        "A replication log is read by one session, so this connector cannot share a capture with others. Give the capture one "
        "shard: leave out the range of open, or send the whole one.",
    ),
    ErrorCode(
        "TM-CAP-012",
        "A collection has a key that an earlier version gave to tables without one",
        Policy.MANUAL,
        "Discover the table again and bind it to a new collection with the key that is found: the key of a collection never "
        "changes. A change log of tidemark's own needs nothing: it has no such key.",
    ),
    ErrorCode(
        "TM-CAP-013",
        "Two bindings have the same state key",
        Policy.MANUAL,
        "Bind each table once, and give each binding a state key of its own: what one of them had read would count for the "
        "other. Under a runtime whose keys end with the number of a backfill, start a new backfill of one of the tables.",
    ),
    ErrorCode(
        "TM-CAP-020",
        "Values of a table have no place in a document",
        Policy.MANUAL,
        "Say what is to be done with such values, by `on_bad_value` for the table or its columns in the capture file: "
        "`text` (the column is text), `clamp` (the nearest date or timestamp that fits), `null`, or `quarantine` (the event "
        "is kept apart); or leave the column out with `exclude`. The table is then emptied and read again. Meanwhile the "
        "other tables are captured. Such values are infinities, years before 1 and above 9999, MySQL's zero and invalid "
        "dates, NaN in a numeric of a declared precision, JSON with half of a surrogate pair or nested too deep, a text "
        "that is not in its character set, and a row of more than 64 MB.",
    ),
    ErrorCode(
        "TM-BKF-001",
        "The stored state of a table's backfill is malformed",
        Policy.MANUAL,
        "Something other than this connector wrote the state. Restore it, or remove the named table's state to have "
        "the table read again.",
    ),
    ErrorCode(
        "TM-BKF-002",
        "A key holds a NUL character",
        Policy.MANUAL,
        "Choose other key columns for the table (key in its resource config), or set its scan to none.",
    ),
    ErrorCode(
        "TM-BKF-003",
        "Rows change their keys faster than they can be read again",
        Policy.MANUAL,
        "Let every event carry the whole row: set the table's REPLICA IDENTITY to FULL (on MySQL, binlog_row_image to "
        "FULL). Then start the table's backfill again: tidemark backfill FILE TABLE.",
    ),
    ErrorCode(
        "TM-BKF-004",
        "Too many ranges of one table are to be read at the same time",
        Policy.MANUAL,
        "Ask again when some of them are done (tidemark status), use a shorter WHERE, or start the backfill of the whole table again.",
    ),
)
