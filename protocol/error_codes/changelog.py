"""Codes of the change log on disk."""

from __future__ import annotations

from tidemark.protocol.error_codes.model import manual, retry

CODES = (
    manual(
        "TM-LOG-001",
        "There is no change log at this path",
        "Give the directory that holds tidemark.json: the log entry of the capture file.",
    ),
    manual(
        "TM-LOG-002",
        "A file of the change log is damaged",
        "Restore the named file from a copy of the log. Nothing was skipped or changed.",
    ),
    manual(
        "TM-LOG-003",
        "The change log has a newer format",
        "Upgrade tidemark to the version that wrote the log, or a later one.",
    ),
    manual(
        "TM-LOG-004",
        "A file of the change log is missing",
        "Restore the named file from a copy of the log. Never delete commits or segments by hand.",
    ),
    manual(
        "TM-LOG-005",
        "The log belongs to another capture",
        "Give each capture its own log: change log: or capture: in the capture file.",
    ),
    manual(
        "TM-LOG-006",
        "Another process writes this log",
        "Stop the other process, or let it continue and do not start a second one.",
    ),
    manual(
        "TM-LOG-007",
        "Another writer took over this log",
        "Another machine or container runs this capture: find it, and stop one of the two. What this one had not "
        "committed is not in the log; the other one reads it again from the source.",
    ),
    retry(
        "TM-LOG-008",
        "The change log cannot be written",
        "At the named path, free space, or fix the permissions or the mount. Nothing that was committed is lost, and "
        "the source keeps the rest.",
    ),
    manual(
        "TM-LOG-009",
        "A segment of the change log is corrupt or missing",
        "Restore the named file from a copy of the log. Nothing was skipped.",
    ),
    manual(
        "TM-LOG-010",
        "A value does not fit the column's type",
        "The event is kept whole in the collection _quarantine, and the capture continues. To store future values, add "
        "the column to the table's text: entry in the capture file, or change the column's type at the source.",
    ),
    manual(
        "TM-LOG-011",
        "A file of the change log cannot be read",
        "Give the user who runs this the right to read the log's directory, and check that it is mounted.",
    ),
    manual(
        "TM-LOG-012",
        "The change log has an older format",
        "Start a new log: move the log's directory away, or name another one in the capture file's log entry, and start "
        "the capture. A new log has no state, so all tables are backfilled again. Give the Spark tables kept from the "
        "old log another warehouse, or move them away too. The version that wrote the old log can still read it.",
    ),
    manual(
        "TM-LOG-013",
        "The change log has disappeared",
        "Mount its volume or restore it at the named path. No new log was created in its place, because that would read "
        "all tables again. If that is what you want, remove the named file: the capture then starts from the beginning.",
    ),
)
