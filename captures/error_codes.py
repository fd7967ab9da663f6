"""Codes of the capture engine, in any connector."""

from __future__ import annotations

from tidemark.protocol.error_codes import manual, retry

CODES = (
    retry(
        "TM-CAP-001",
        "The runtime closed the connector's output",
        "Look at the runtime's own error. The next run resumes from the last commit.",
    ),
    retry(
        "TM-CAP-002",
        "The connector has a defect",
        "Run with LOG_LEVEL=debug to get the full trace, and report it with the connector's version.",
    ),
    manual(
        "TM-CAP-003",
        "Tables could not be backfilled",
        "Backfills are suspended; changes are still captured. Fix the cause that the error gives for each table. A "
        "running capture retries after `tidemark resume`; otherwise the next run resumes the backfills.",
    ),
    retry(
        "TM-CAP-005",
        "A reader process ended",
        "Usually nothing needs to be done. If it happens again, find out what ends processes here: most often the "
        "memory limit of the container or, when none can be started, its limit on processes.",
    ),
    retry(
        "TM-CAP-006",
        "A capture ended with output that is not in a checkpoint yet",
        "Nothing is lost: the next run reads again what came after the last checkpoint. It can resume once the source "
        "is reachable.",
    ),
    manual(
        "TM-CAP-007",
        "Tables are set aside",
        "Fix the cause that the error gives for each table. All other tables are captured. A table returns by itself "
        "once it can be captured again, or at once on `tidemark resume`: it resumes where it stopped if no change was "
        "missed; otherwise it is emptied and read again.",
    ),
    manual(
        "TM-CAP-008",
        "A table was altered so that its rows must be read again, and on_alter is ask",
        "Have it read when that suits you: tidemark resume FILE --table TABLE. Until then its changes are captured if they "
        "can be applied to the rows of before; otherwise it is set aside, and nothing is lost. If its rows are right as "
        "they are, drop the reread: tidemark resume FILE --table TABLE --keep. `tidemark status FILE` names the change, "
        "and says how large the reread is and how to avoid it.",
    ),
    manual(
        "TM-CAP-011",
        "A capture was opened for a part of the key range",
        "One session reads a replication log, so this connector cannot split a capture into shards. Give the capture "
        "one shard: leave out the range of open, or send the whole one.",
    ),
    manual(
        "TM-CAP-012",
        "A collection has a key that an earlier version gave to tables without a key",
        "Discover the table again and bind it to a new collection with the discovered key: the key of a collection "
        "never changes. Tidemark's own change logs have no such keys.",
    ),
    manual(
        "TM-CAP-013",
        "Two bindings have the same state key",
        "Bind each table once, and give each binding its own state key: otherwise the progress of one would count for "
        "the other. Under a runtime whose state keys end with the number of a backfill, start a new backfill of one of "
        "the tables.",
    ),
    manual(
        "TM-CAP-020",
        "Values of a table cannot be represented in a document",
        "Choose what happens to such values with `on_bad_value` for the table or its columns in the capture file: "
        "`text` (the column becomes text), `clamp` (the nearest date or timestamp that fits), `null`, or `quarantine` "
        "(the event is kept apart). Or leave the column out with `exclude`. The table is then emptied and read again; "
        "meanwhile the other tables are captured. Such values are infinities, years before 1 and after 9999, MySQL's "
        "zero and invalid dates, NaN in a numeric with a declared precision, JSON with half of a surrogate pair or "
        "nested too deep, text that is not in its character set, and rows of more than 64 MB.",
    ),
)
